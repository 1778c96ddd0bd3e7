"""Formats that the model itself states: a quantized model keeps its own scales, whatever an assignment says.

The results of FakeQuantize and its kin have stated formats. They spread where that changes no result: backwards to a
value that is read for nothing else than to be quantized so, through operators that commute with rounding (moves and
MaxPool), and forwards through the same operators, whose results are on the grid already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tinyhil.formats.affine import Affine, fit
from tinyhil.formats.format import AFFINE, CODED, Format
from tinyhil.language.graph import Graph, Node
from tinyhil.ops.quantize import FAKE, stated
from tinyhil.ops.small_floats import FLOAT_CAST
from tinyhil.ops.whole import KIND, constant_format, kind_of

# Results are elements of the first operand, or (Concat) of all; zeros may join, which every grid has
CHOOSING = frozenset(
    {"Concat", "Expand", "Flatten", "Gather", "GlobalMaxPool", "Identity", "MaxPool", "Reshape", "Slice", "Split"}
    | {"Squeeze", "Transpose", "Unsqueeze", "Dropout"}
)
DENSE = frozenset({"Gemm", "MatMul"})
LAYERS = frozenset({"Conv", *DENSE})
PAIRS = frozenset({"Add", "Sub", "Mul"})
COMPARED = frozenset({"Max", "Min"})
CHOICE = "Where"  # of its second and third operand


def rescales(node: Node) -> bool:
    """Whether a move multiplies by powers of two as well (columns.py)."""
    return "halvings" in node.attrs or "doublings" in node.attrs


def chooses(node: Node) -> bool:
    """Whether a node only chooses among values, so that they share a format."""
    return node.op in CHOOSING or (node.op == "Pad" and node.attrs["value"] == 0)


def pinned_formats(graph: Graph, groups: Iterable[tuple[str, ...]]) -> dict[str, Format]:
    """The stated format of every run-time value that has one. `groups`: values that share memory, hence a format."""
    nodes = list(graph.walk())
    if not graph.pinned and not any(stated(node) for node in nodes):
        return {}
    groups = list(groups)
    leader = {name: group[0] for group in groups for name in group}
    pins = _own(graph, nodes, leader)
    _backwards(graph, nodes, leader, pins)
    constants = graph.all_constants()
    for node in nodes:
        if chooses(node) or node.op == "Relu":
            found = {pins.get(leader[name]) for name in node.inputs if name not in constants}
            fmt = found.pop() if len(found) == 1 else None
            if fmt is not None and all(name not in constants or _fits(constants[name], fmt) for name in node.inputs):
                for name in node.outputs:
                    pins.setdefault(leader[name], fmt)
    return {name: pins[top] for name, top in leader.items() if top in pins}


def _own(graph: Graph, nodes: Iterable[Node], leader: Mapping[str, str]) -> dict[str, Format]:
    """By the leader of a group; a group of which two formats are stated has none."""
    pins: dict[str, Format] = {leader[name]: fmt for name, fmt in graph.pinned.items()}
    torn = set[str]()
    for node in nodes:
        fmt = stated(node)
        if fmt is not None and pins.setdefault(leader[node.outputs[0]], fmt) != fmt:
            torn.add(leader[node.outputs[0]])
    return {name: fmt for name, fmt in pins.items() if name not in torn}


def _backwards(graph: Graph, nodes: list[Node], leader: Mapping[str, str], pins: dict[str, Format]) -> None:
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.inputs:
            if leader[name] != leader[node.outputs[0]] or stated(node):
                readers.setdefault(leader[name], []).append(node)
    fixed = {leader[name] for level in graph.levels() for name in level.outputs}
    fixed |= {leader[name] for name in graph.all_constants()}
    makers = [node.outputs for node in reversed(nodes)]
    for name in (*(name for outputs in makers for name in outputs), *graph.inputs):
        top = leader[name]
        found = {_wanted(node, leader, pins) for node in readers.get(top, [])}
        fmt = found.pop() if len(found) == 1 else None
        if fmt is not None and top not in pins and top not in fixed:
            pins[top] = fmt


def _wanted(node: Node, leader: Mapping[str, str], pins: Mapping[str, Format]) -> Format | None:
    """The format into which `node` brings its operand without computing; None if it does more."""
    if node.op in (FAKE, FLOAT_CAST):
        return stated(node)
    found = {pins.get(leader[name]) for name in node.outputs}
    return found.pop() if chooses(node) and len(found) == 1 else None


def asymmetric_weights(graph: Graph, pins: Mapping[str, Format]) -> dict[str, Affine]:
    """Formats of constants that only layers of pinned values read: their own integers, or int8 if they are floats."""
    found: dict[str, bool] = {}
    constants = graph.all_constants()
    for node in graph.walk():
        for position, name in enumerate(node.inputs):
            if name in constants:
                data = node.inputs[1 - position] if node.op == "MatMul" else node.inputs[0]
                is_whole = data in pins and pins[data].domain != CODED
                is_weight = node.op in LAYERS and (position == 1 or node.op == "MatMul") and is_whole
                found[name] = found.get(name, True) and is_weight
    return {name: fit(float(np.abs(constants[name]).max(initial=0.0)), 8) for name, good in found.items() if good}


def grouped_weights(graph: Graph) -> set[str]:
    """Constants of few bits or with scales of groups that only dense layers read."""
    if not graph.grouped:
        return set()
    constants, found = graph.all_constants(), dict[str, bool]()
    for node in graph.walk():
        for position, name in enumerate(node.inputs):
            if name in graph.grouped and name in constants:
                is_weight = node.op in DENSE and position == 1 and constants[name].ndim == 2
                found[name] = found.get(name, True) and is_weight
    return {name for name, good in found.items() if good}


def _fits(values: np.ndarray, fmt: Format) -> bool:
    """Whether constants are codes of whole numbers in `fmt`, so that they may stand beside run-time ones."""
    is_whole = bool(kind_of(fmt)) and values.size > 0 and bool((values == np.rint(values)).all())
    return is_whole and fmt.lowest <= values.min() and bool(values.max() <= fmt.highest)


def moved_constants(graph: Graph, pins: Mapping[str, Format]) -> dict[str, Format]:
    """Formats of whole numbers that only operators of whole numbers read, or that are moved beside those."""
    constants, found = graph.all_constants(), dict[str, Format | None]()
    for node in graph.walk():
        fmt = pins.get(node.outputs[0]) if node.op in CHOOSING else None
        for name in node.inputs:
            if name in constants:
                wanted = constant_format(constants[name]) if KIND in node.attrs else fmt
                wanted = wanted if wanted is not None and _fits(constants[name], wanted) else None
                found[name] = wanted if found.get(name, wanted) == wanted else None
    return {name: fmt for name, fmt in found.items() if fmt is not None}


def stated_operands(graph: Graph, pins: Mapping[str, Format]) -> dict[str, Affine]:
    """Formats of constants of one scale of their own that only sums, products, comparisons and choices with pinned
    values read: the model's integers, the zero point such that all of them are codes; of what is compared or chosen
    that of the other operand or the result, if it has their scale and does."""
    constants, found = graph.all_constants(), dict[str, Affine | None]()
    for node in graph.walk():
        for position, name in enumerate(node.inputs):
            if name in constants:
                other = pins.get(_beside(node, position))
                fmt = _grid_of(constants[name], graph.steps.get(name), other, node.op not in PAIRS)
                found[name] = fmt if found.get(name, fmt) == fmt else None
    return {name: fmt for name, fmt in found.items() if fmt is not None}


def _beside(node: Node, position: int) -> str:
    """The value whose format a constant operand takes; empty if there is none."""
    if node.op == CHOICE:
        return node.outputs[0] if position else ""
    return node.inputs[1 - position] if node.op in (*PAIRS, *COMPARED) else ""


def _grid_of(values: np.ndarray, steps: np.ndarray | None, other: Format | None, is_shared: bool) -> Affine | None:
    """`is_shared`: the zero point of `other` is wanted."""
    if steps is None or other is None or other.domain != AFFINE or values.size == 0 or (steps != steps.flat[0]).any():
        return None
    scale = float(steps.flat[0])
    units = np.rint(values / scale)
    least, most = other.lowest - int(units.min()), other.highest - int(units.max())
    if is_shared and other.grid is not None and other.grid[0] == scale and least <= other.grid[1] <= most:
        return Affine(other.bits, scale, other.grid[1])
    return Affine(other.bits, scale, min(max(0, least), most)) if least <= most else None
