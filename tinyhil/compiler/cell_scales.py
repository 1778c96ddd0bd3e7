"""Scales of asymmetric integers in loops, where an element-wise operation is carried out in every step.

Where nobody states them they are powers of two, and one for what is added: then sums and products need shifts and no
multiplier. Sums with constants have the scale of the tensor they add to, and move its codes by whole numbers. It costs
a tensor half a bit of its resolution on average, operands of sums two at most (docs/numerics.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tinyhil.compiler.pins import LAYERS
from tinyhil.formats.affine import Affine, as_affine, fit_power, zero_of
from tinyhil.formats.format import Format
from tinyhil.language.graph import Graph

ARITHMETIC = ("Add", "Sub", "Mul")
SUMS = ("Add", "Sub")
LARGEST_RATIO = 4  # of the scale of a sum to that of an operand that gets it


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum or product in a loop, of values that stand for all with their range; `constant`: its second operand is."""

    op: str
    operands: tuple[str, ...]
    result: str
    constant: bool


def with_cell_scales(
    graph: Graph, formats: Mapping[str, Format], leaders: Mapping[str, str], ends: Mapping[str, tuple[float, float]]
) -> dict[str, Format]:
    """`formats` with such scales. `leaders`: for every value the one that stands for all that have one range; `ends`:
    the ranges of those of asymmetric integers whose scales nobody asked for."""
    free = {name for name in ends if formats[name].bits == 8}
    found = [one for one in _arithmetic(graph, leaders) if free.issuperset((*one.operands, one.result))]
    computed = [one for one in found if not one.constant]
    powers = {name for one in computed for name in (*one.operands, one.result)}
    made = {name: fit_power(*ends[name]) for name in powers}
    for one in computed:
        if one.op in SUMS:
            made |= _of_one_scale(one, made, ends)
    made |= _by_whole_numbers([one for one in found if one.constant and one.op in SUMS], formats, powers)
    return {name: made.get(leaders[name], fmt) for name, fmt in formats.items()}


def _arithmetic(graph: Graph, leaders: Mapping[str, str]) -> Iterator[_Sum]:
    """Sums and products in loops; not those of layers, which need a multiplier anyway."""
    constants = graph.all_constants()
    for body in (node.body for node in graph.walk() if node.body is not None):
        made_by = {name: node.op for node in body.nodes for name in node.outputs}
        for node in body.nodes:
            if node.op not in ARITHMETIC or any(made_by.get(name) in LAYERS for name in node.inputs):
                continue
            if node.inputs[0] not in constants:
                operands = tuple(leaders[name] for name in node.inputs if name not in constants)
                yield _Sum(node.op, operands, leaders[node.outputs[0]], len(operands) == 1)


def _of_one_scale(
    one: _Sum, formats: Mapping[str, Affine], ends: Mapping[str, tuple[float, float]]
) -> dict[str, Affine]:
    """The operands of a sum with the scale of its result, if theirs are not much finer: with zero point 0 where there
    is room for it, else with that of the result if the range fits."""
    made: dict[str, Affine] = {}
    total = formats[one.result]
    for name in one.operands:
        own = formats[name]
        if own.scale <= total.scale <= LARGEST_RATIO * own.scale and name != one.result:
            low, high = (end / total.scale for end in ends[name])
            wished = 0 if own.scale < total.scale else total.zero
            zero = wished if low + wished > -129 and high + wished < 128 else zero_of(low * total.scale, total.scale)
            made[name] = Affine(8, total.scale, zero)
    return made


def _by_whole_numbers(sums: Iterable[_Sum], formats: Mapping[str, Format], others: set[str]) -> dict[str, Affine]:
    """Tensors and their sums with constants with one scale, but for `others`."""
    together: dict[str, set[str]] = {}
    for one in sums:
        if others.isdisjoint((*one.operands, one.result)):
            together[one.operands[0]] = together.get(one.operands[0], set()) | {*one.operands, one.result}
    made: dict[str, Affine] = {}
    for names in together.values():
        held = {name: made.get(name, as_affine(formats[name])) for name in sorted(names)}
        scale = max(fmt.scale for fmt in held.values())
        lows = {name: fmt.scale * (fmt.lowest - fmt.zero) for name, fmt in held.items()}
        made |= {name: Affine(8, scale, zero_of(low, scale)) for name, low in lows.items()}
    return made
