"""Energy of a sample by a table of prices: products, on-chip accesses, off-chip accesses.

product        mac_pj (Q / mac_bits) ^ exponent, Q: bits of the wider factor; each result of another operation costs one
fetch          max(products / reuse, elements) of each factor, every element of other operands; every result is written
DRAM           the sample; constants at each execution if they and the largest operation's values exceed `sram_bytes`;
               values of an operation that alone exceeds it
zeros skipped  products with a factor that is zero cost nothing; what is fetched stays
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyhil.harness.energy.counts import Operand, Operation
from tinyhil.harness.energy.technology import Technology


@dataclass(frozen=True, slots=True)
class OperationEnergy:
    """Picojoules per sample; `skipped_pj` is the part of `product_pj` that goes where zeros are skipped."""

    operation: Operation
    product_pj: float
    sram_pj: float
    dram_pj: float
    skipped_pj: float

    @property
    def total_pj(self) -> float:
        """Products, on-chip and off-chip accesses."""
        return self.product_pj + self.sram_pj + self.dram_pj


@dataclass(frozen=True, slots=True)
class Energy:
    """Of one sample. `input_pj`: for fetching it. `is_off_chip`: constants are in DRAM."""

    operations: tuple[OperationEnergy, ...]
    input_pj: float
    is_off_chip: bool

    @property
    def total_pj(self) -> float:
        """The input's fetch and all operations."""
        return self.input_pj + sum(operation.total_pj for operation in self.operations)

    @property
    def skipping_pj(self) -> float:
        """With products of zeros left out."""
        return self.total_pj - sum(operation.skipped_pj for operation in self.operations)


def energy_of(operations: Sequence[Operation], input_bits: int, technology: Technology) -> Energy:
    """`input_bits`: of a whole sample."""
    constants = {operand.name: operand for op in operations for operand in op.operands if operand.is_constant}
    held = sum(_bits_of(operand) for operand in constants.values()) + max((_values(op) for op in operations), default=0)
    is_off_chip = held > 8 * technology.sram_bytes
    priced = tuple(_priced(op, technology, is_off_chip) for op in operations)
    return Energy(priced, input_bits * technology.dram_pj_per_bit, is_off_chip)


def _bits_of(operand: Operand) -> int:
    return operand.bits * operand.count


def _values(op: Operation) -> int:
    """Bits that it reads and writes besides constants."""
    return op.results * op.bits + sum(_bits_of(operand) for operand in op.operands if not operand.is_constant)


def _priced(op: Operation, technology: Technology, is_off_chip: bool) -> OperationEnergy:
    widest = [(count, pair, max(factor.bits for factor in pair)) for count, pair in op.pairs if count]
    priced = [(count * technology.product_pj(bits), op.nonzero(pair)) for count, pair, bits in widest]
    one_pj = sum(pj for pj, _ in priced) if op.products else op.results * technology.product_pj(op.bits)
    fetched = sum(
        factor.bits * max(count / technology.reuse, factor.count) for count, pair in op.pairs for factor in pair
    )
    moved = fetched + sum(_bits_of(operand) for operand in op.others) + op.results * op.bits
    far = sum(_bits_of(operand) for operand in op.operands if operand.is_constant) if is_off_chip else 0
    far += _values(op) if _values(op) > 8 * technology.sram_bytes else 0
    return OperationEnergy(
        op,
        op.executions * one_pj,
        op.executions * moved * technology.sram_pj_per_bit,
        op.executions * far * technology.dram_pj_per_bit,
        op.executions * sum(pj * (1 - nonzero) for pj, nonzero in priced),
    )
