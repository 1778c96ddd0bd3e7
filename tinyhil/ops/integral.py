"""Which values are whole numbers whatever the input: indices, counters, flags.

They must not be scaled to a range seen in calibration: half an index is none, and an index never seen may come. The
model's input is one if it is read by nothing but casts to integers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.language.graph import Graph, Node

FLAG, INDEX, LONG = Fixed(8, 0), Fixed(16, 0), Fixed(32, 0)
# results in -1..1, from whatever operands
FLAGS = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "And", "Or", "Not", "Sign"})
BITS = frozenset({"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
WHOLE = BITS | frozenset({"ArgMax", "FloorDiv", "TopIndices", "Truncate"})
# whole numbers of whole numbers
CLOSED = BITS | frozenset(
    {"Add", "Sub", "Mul", "Neg", "Abs", "Min", "Max", "Relu", "Identity", "Dropout", "Reshape", "Flatten", "Squeeze"}
    | {
        "Unsqueeze",
        "FloorDiv",
        "Mod",
        "Slice",
        "Split",
        "Transpose",
        "Expand",
        "Concat",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "TopValues",
    }
)
GROWING = frozenset({"Add", "Sub", "Mul", "ReduceSum", "Abs", "Neg"})
# elements of the operand, nothing computed
MOVES = frozenset({"Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Slice", "Split", "Transpose"})
DATA_INPUTS = {"Gather": slice(0, 1), "GatherAt": slice(0, 1), "Where": slice(1, 3)}


def integral_formats(
    graph: Graph, groups: list[tuple[str, ...]], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, Fixed]:
    """Formats of the groups of values (in one memory each) that are whole numbers; `ranges` of run-time values."""
    whole, flags = _whole_values(graph, frozenset(), None)
    if unit_inputs(graph):
        whole, flags = _whole_values(graph, unit_inputs(graph), whole)
    constants = graph.all_constants()
    chosen = {}
    for group in groups:
        if not all(name in whole for name in group):
            continue
        found = [constants[name].reshape(-1) if name in constants else ranges.get(name, (0.0,)) for name in group]
        low, high = (float(pick(list(map(pick, found)))) for pick in (np.min, np.max))
        kinds = (FLAG, INDEX, LONG) if all(name in flags for name in group) else (INDEX, LONG)
        fmt = next((kind for kind in kinds if kind.lowest <= low and high <= kind.highest), None)
        if fmt is not None:
            chosen.update(dict.fromkeys(group, fmt))
    return chosen


def _whole_values(graph: Graph, units: Collection[str], known: set[str] | None) -> tuple[set[str], set[str]]:
    """(whole numbers, those of them within -1..1). Optimistic: all are, until an operation shows that they are not.

    `units`: inputs of an integer type, which are whole numbers until a cast to float, an Identity whose result is not
    `known` to be whole."""
    constants = graph.all_constants()
    limits = {name: _limit(array) for name, array in constants.items()}
    whole = {name for name in graph.all_shapes() if name not in limits or limits[name] <= LONG.highest}
    nodes, readers = list(graph.walk()), _readers(graph)
    whole -= {name for name in graph.inputs if name not in units and not _only_cast(name, readers)}
    if known is not None:
        whole -= {name for node in nodes if node.op == "Identity" for name in node.outputs if name not in known}
    flags = {name for name in whole if limits.get(name, 0.0) <= 1} - set(graph.inputs)
    scanned = {name for node in nodes if node.body is not None for name in node.inputs}
    while True:
        before = len(whole) + len(flags)
        for node in nodes:
            for result, operands in _rules(node):
                if node.op not in FLAGS and not (node.op in WHOLE or all(name in whole for name in operands)):
                    whole.discard(result)
                keeps = node.op not in WHOLE | GROWING and all(name in flags for name in operands)
                if node.op not in FLAGS and not keeps:
                    flags.discard(result)
                if result not in whole:
                    flags.discard(result)
        for name in constants:  # one that a real value is computed with is no index
            used = readers.get(name, [])
            if name not in scanned and not (used and all(_stays_whole(node, whole, name) for node in used)):
                whole.discard(name)
                flags.discard(name)
        if len(whole) + len(flags) == before:
            return whole, flags


def _limit(array: np.ndarray) -> float:
    """Largest magnitude if all are whole numbers, else infinity."""
    if array.size and not (np.isfinite(array).all() and (array == np.round(array)).all()):
        return math.inf
    return float(np.abs(array).max(initial=0.0))


def _rules(node: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Results, each with what it is a whole number of; an empty name stands for something that is none."""
    if node.body is not None:
        states = len(node.inputs) - int(node.attrs["num_scan_inputs"])
        for index, inner in enumerate(node.body.inputs):
            following = (node.body.outputs[index],) if index < states else ()
            yield inner, (node.inputs[index], *following)
        for outer, inner in zip(node.outputs, node.body.outputs, strict=False):
            yield outer, (inner,)
        return
    operands = node.inputs[DATA_INPUTS[node.op]] if node.op in DATA_INPUTS else node.inputs
    closed = node.op in CLOSED or node.op in DATA_INPUTS or node.op in FLAGS or node.op in WHOLE
    for result in node.outputs:
        yield result, operands if closed else ("",)


def _readers(graph: Graph) -> dict[str, list[Node]]:
    readers: dict[str, list[Node]] = {}
    for node in graph.walk():
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    return readers


def is_counted_input(graph: Graph) -> bool:
    """Whether the model's input is a whole number, or of an integer type with a unit of 1."""
    return is_whole_input(graph) or bool(unit_inputs(graph))


def unit_inputs(graph: Graph) -> set[str]:
    """Inputs of an integer type, as they are."""
    return {name for name, fmt in graph.pinned.items() if fmt.grid is not None and fmt.grid[0] == 1.0}


def is_whole_input(graph: Graph) -> bool:
    """Whether the model's input is a whole number: nothing but casts to integers read it."""
    return _only_cast(graph.inputs[0], _readers(graph))


def _only_cast(name: str, readers: Mapping[str, list[Node]]) -> bool:
    """Whether `name` is read, and by nothing but casts to integers, moved before or not."""

    def casts(node: Node) -> bool:
        if node.body is not None:
            states = len(node.inputs) - int(node.attrs["num_scan_inputs"])
            rows = [inner for outer, inner in zip(node.inputs, node.body.inputs, strict=True) if outer == name]
            return name not in node.inputs[:states] and all(_only_cast(row, readers) for row in rows)
        return node.op == "Truncate" or (node.op in MOVES and all(_only_cast(out, readers) for out in node.outputs))

    found = readers.get(name, [])
    return bool(found) and all(casts(node) for node in found)


def _stays_whole(node: Node, whole: set[str], name: str) -> bool:
    """Whether `node` computes with whole numbers only and keeps them whole, or chooses by `name`."""
    if node.op == "Where" and name not in node.inputs[1:]:
        return True
    known = node.op in CLOSED or node.op in DATA_INPUTS or node.op in FLAGS
    return known and all(name in whole for name in node.inputs if name)
