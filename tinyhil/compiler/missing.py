"""Inputs that may hold NaN for what is missing: which values are float32 for it, whatever an assignment says.

These are the input, what shows or scales it, what is brought to the columns' own units to fill it, and the filled value
and its differences from constants where scalers alone read them, with the constants beside all these: so no format of
integers sees columns that are not of one scale yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tinyhil.compiler.pins import CHOICE, chooses
from tinyhil.formats.format import Format
from tinyhil.formats.single import FLOAT32
from tinyhil.language.graph import Graph, Node
from tinyhil.references.evaluate import takes_missing

SUMS = frozenset({"Add", "Sub"})
SCALERS = SUMS | {"Mul", "Div"}
Readers = Mapping[str, list[Node]]


def shown(graph: Graph) -> set[str]:
    """The values that may hold NaN: the input, if it does, what chooses from it, and what scalers make of these."""
    found = {graph.inputs[0]} if takes_missing(graph) else set()
    constants = set(graph.all_constants()) if found else set()
    for node in graph.walk():
        if (chooses(node) or _scales(node, constants)) and not found.isdisjoint(node.inputs):
            found |= set(node.outputs)
    return found


def missing_formats(graph: Graph, groups: Iterable[tuple[str, ...]]) -> dict[str, Format]:
    """The format of all that is float32 for what is missing. `groups`: values that share memory."""
    found = shown(graph)
    if not found:
        return {}
    nodes, constants = list(graph.walk()), set(graph.all_constants())
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for name in node.inputs:
            readers[name].append(node)
    found |= _filling(nodes, found, readers, constants) | _filled(nodes, found, readers, constants)
    beside = {CHOICE, *SCALERS}
    for name in constants:
        if readers[name] and all(
            n.op in beside and not found.isdisjoint((*n.inputs, *n.outputs)) for n in readers[name]
        ):
            found.add(name)
    return {name: FLOAT32 for group in groups if not found.isdisjoint(group) for name in group}


def _scales(node: Node, constants: set[str], ops: frozenset[str] = SCALERS) -> bool:
    return node.op in ops and not constants.isdisjoint(node.inputs)


def _filling(nodes: list[Node], missing: set[str], readers: Readers, constants: set[str]) -> set[str]:
    """Results of the scalers that end in what is chosen in place of what is `missing`."""
    wanted = {n for node in nodes if node.op == CHOICE and not missing.isdisjoint(node.inputs) for n in node.inputs}
    found = set[str]()
    for node in reversed(nodes):
        name = node.outputs[0]
        if name in wanted and _scales(node, constants) and len(readers[name]) == 1:
            found.add(name)
            wanted |= set(node.inputs)
    return found


def _filled(nodes: list[Node], missing: set[str], readers: Readers, constants: set[str]) -> set[str]:
    """What is chosen in place of what is `missing`, where scalers read it, and differences that are scaled next."""
    found = set[str]()
    for node in nodes:
        reading = readers[node.outputs[0]]
        fills = node.op == CHOICE and not missing.isdisjoint(node.inputs)
        moves = _scales(node, constants, SUMS) and not found.isdisjoint(node.inputs)
        ops = SCALERS if fills else SCALERS - SUMS
        if (fills or moves) and reading and all(_scales(one, constants, ops) for one in reading):
            found.add(node.outputs[0])
    return found
