"""A layer whose values are wider than its weights, on a multiplier of the weights' bits: the values come in parts.

x = sum (2^Q)^n x^n, so w . x = sum (2^Q)^n (w . x^n), exactly (Moons et al., "Embedded Deep Learning": the first layer
of a network of few bits, whose input has 8). Each part takes a product of Q bits; what it gives is shifted and added
once per result, at the result's bits; weights are fetched for each part anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tinyhil.harness.energy.counts import Operation
from tinyhil.harness.energy.technology import Technology


@dataclass(frozen=True, slots=True)
class InParts:
    """A layer by `parts` of `bits`: picojoules per sample of products, shifts and SRAM, and of the whole values."""

    name: str
    parts: int
    bits: int
    product_pj: float
    sram_pj: float
    whole_product_pj: float
    whole_sram_pj: float


def layers_in_parts(operations: Iterable[Operation], technology: Technology) -> Iterator[InParts]:
    """Every layer of constant weights that have fewer bits than the values they meet."""
    for op in operations:
        for products, factors in op.pairs:
            weights = [factor for factor in factors if factor.is_constant]
            values = [factor for factor in factors if not factor.is_constant]
            if products and weights and values and 1 < weights[0].bits < values[0].bits:
                bits, wide = weights[0].bits, values[0].bits
                parts = -(-wide // bits)
                fetched = [factor.bits * max(products / technology.reuse, factor.count) for factor in factors]
                weighed = weights[0].bits * max(products / technology.reuse, weights[0].count)
                shifted = op.results * (parts - 1) * technology.product_pj(op.bits)
                yield InParts(
                    op.name,
                    parts,
                    bits,
                    op.executions * (parts * products * technology.product_pj(bits) + shifted),
                    op.executions * (sum(fetched) + (parts - 1) * weighed) * technology.sram_pj_per_bit,
                    op.executions * products * technology.product_pj(wide),
                    op.executions * sum(fetched) * technology.sram_pj_per_bit,
                )
