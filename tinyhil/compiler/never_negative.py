"""Which values can not be below zero, whatever the input of the model is.

Found by the operators alone, not by what calibration saw: a saturation at zero is then no surprise of other data. A
loop's states and rows are as its body leaves them, if they begin so: what holds before a step and behind it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tinyhil.compiler.pins import CHOOSING
from tinyhil.language.graph import Graph, Node
from tinyhil.ops.placed import NAME as PLACE_AT

Known = Callable[[str], bool]
ALWAYS = frozenset({"Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt", "SquaredDistance"})
# Of operands that are not below zero: what they choose, sum, average, multiply or divide
CLOSED = CHOOSING | {"Add", "AveragePool", "Div", "GlobalAveragePool", "Mul", "ReduceMax", "ReduceMean", "ReduceMin"}
CLOSED |= {"GatherAt", "Min", "ReduceSum", PLACE_AT}


def never_negative(graph: Graph, groups: Iterable[tuple[str, ...]]) -> set[str]:
    """The computed values of `graph` that are never below zero. `groups`: values that share memory, hence a format."""
    groups = [tuple(group) for group in groups]
    group_of = {name: number for number, group in enumerate(groups) for name in group}
    constants = graph.all_constants()
    open_groups = set(range(len(groups))) - {group_of[name] for name in graph.inputs}
    open_groups -= {group_of[name] for name, array in constants.items() if array.min(initial=0) < 0}

    def is_known(name: str) -> bool:
        return group_of[name] in open_groups

    while True:  # begins with all that may be, until none is refuted
        refuted = {
            group_of[out]
            for node in graph.walk()
            if node.body is None and not _holds(node, is_known, constants)
            for out in node.outputs
        }
        if not refuted & open_groups:
            break
        open_groups -= refuted
    return {name for name, number in group_of.items() if number in open_groups and name not in constants}


def _holds(node: Node, is_known: Known, constants: Mapping[str, np.ndarray]) -> bool:
    """Whether the results of `node` are not below zero if what `is_known` says of its operands is true."""
    if node.op in ALWAYS:
        return True
    if node.op == "Clip":
        return bool(node.attrs["min"] >= 0) or (bool(node.attrs["max"] >= 0) and is_known(node.inputs[0]))
    if node.op == "Max":
        return any(map(is_known, node.inputs))
    if node.op == "Mul" and node.inputs[0] == node.inputs[1]:
        return True
    if node.op == "Where":
        return all(map(is_known, node.inputs[1:]))
    if node.op == "Pad":
        return is_known(node.inputs[0]) and bool(node.attrs["value"] >= 0)
    return node.op in CLOSED and all(map(is_known, node.inputs))
