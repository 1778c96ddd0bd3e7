"""Graph -> Graph: what quantized operators left over, codes or whole numbers computed otherwise that nobody reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tinyhil.language.graph import Graph, Node
from tinyhil.ops.quantize import TO_CODES
from tinyhil.ops.whole import KIND


def without_unread(graph: Graph) -> Graph:
    """A graph with codes or whole numbers, without the nodes that nobody reads."""
    if not any(node.op == TO_CODES or KIND in node.attrs for node in graph.walk()):
        return graph
    return _read(graph, set())


def _read(level: Graph, wanted: set[str]) -> Graph:
    wanted = wanted | set(level.outputs)
    live: list[Node] = []
    for node in reversed(level.nodes):
        if node.body is not None or wanted.intersection(node.outputs):
            live.append(node if node.body is None else replace(node, body=_read(node.body, wanted)))
            wanted.update(_reads(live[-1]))
    made = {name for node in live for name in node.outputs} | set(level.inputs) | set(level.constants)
    shapes = {name: shape for name, shape in level.shapes.items() if name in made}
    return replace(level, nodes=tuple(reversed(live)), shapes=shapes)


def _reads(node: Node) -> Iterator[str]:
    yield from node.inputs
    if node.body is not None:
        yield from node.body.outputs
        for inner in node.body.nodes:
            yield from _reads(inner)
