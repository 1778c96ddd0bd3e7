"""What fusions share: their stages, and replacing nodes on every level of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tinyhil.compiler_pass import Pass, Stage
from tinyhil.formats.format import INTEGER, Format
from tinyhil.language.graph import Graph, Node, Shape
from tinyhil.language.program import Program
from tinyhil.references.verify import faults_of_graph, faults_of_handed_on

GRAPH = Stage("graph whose formats are decided", faults_of_graph)
PROGRAM = Stage("lowered program", faults_of_handed_on)


def graph_fusion(name: str, summary: str, apply: Callable[[Graph, Mapping[str, Format]], Graph]) -> Pass[Graph]:
    """One that looks at operators and the formats of their values."""
    return Pass(name, summary, GRAPH, "fewer operators; every value that stays keeps its format", apply)


def program_fusion(name: str, summary: str, apply: Callable[[Program], Program]) -> Pass[Program]:
    """One that looks at kernel calls and constants."""
    return Pass(name, summary, PROGRAM, "same integers; other kernels and constants", apply)


class Site:
    """What a fusion asks about a graph: who makes a value of this level, and whether anybody else reads it; `stated`:
    values whose scales the model itself states."""

    def __init__(self, graph: Graph, level: Graph, formats: Mapping[str, Format]) -> None:
        self.shapes: dict[str, Shape] = graph.all_shapes()
        self.constants: dict[str, np.ndarray] = graph.all_constants()
        self.formats = formats
        self.stated = {name for inner in graph.levels() for name in (*inner.pinned, *inner.steps)}
        self._makers = {name: node for node in level.nodes for name in node.outputs}
        self._places = {name: place for place, node in enumerate(level.nodes, 1) for name in node.outputs}
        self._reads: dict[str, int] = {}
        for inner in graph.levels():
            for name in (*inner.outputs, *(name for node in inner.nodes for name in node.inputs)):
                self._reads[name] = self._reads.get(name, 0) + 1

    def maker(self, name: str, op: str, reads: int = 1) -> Node | None:
        """The node of this level that makes `name`, if it is an `op` and its result is read `reads` times in all."""
        node = self._makers.get(name)
        return node if node is not None and node.op == op and self._reads.get(name) == reads else None

    def is_after(self, node: Node, value: str) -> bool:
        """Whether `node` of this level comes when `value` is there: made before it, or outside."""
        return self._places[node.outputs[0]] > self._places.get(value, 0)

    def is_made(self, name: str) -> bool:
        """Whether a node of this level makes `name`: it may die here, unlike inputs, states and rows of a loop."""
        return name in self._makers

    def integers(self, *names: str) -> bool:
        """Whether all these values are fixed point, whose scales are powers of two."""
        formats = [self.formats[name] for name in names]
        return all(fmt.is_binary_point and fmt.domain == INTEGER for fmt in formats)


Replace = Callable[[Site, Node], tuple[Node, tuple[Node, ...]] | None]


def everywhere(graph: Graph, formats: Mapping[str, Format], change: Replace) -> Graph:
    """`graph` with `change` tried on every node: what takes its place, and the nodes that are needed no more."""
    return _level(graph, graph, formats, change)


def _level(graph: Graph, level: Graph, formats: Mapping[str, Format], change: Replace) -> Graph:
    nodes = []
    for node in level.nodes:
        body = _level(graph, node.body, formats, change) if node.body is not None else None
        nodes.append(replace(node, body=body) if body is not None else node)
    level = replace(level, nodes=tuple(nodes))
    site, gone, made = Site(graph, level, formats), set[str](), dict[str, Node]()
    for node in level.nodes:
        found = change(site, node) if not gone.intersection(node.outputs) else None
        if found is not None and not gone.intersection(n for old in found[1] for n in old.outputs):
            made[node.outputs[0]] = found[0]
            gone.update(name for old in found[1] for name in old.outputs)
    if not made:
        return level
    left = tuple(made.get(n.outputs[0], n) for n in level.nodes if not gone.intersection(n.outputs))
    shapes = {name: shape for name, shape in level.shapes.items() if name not in gone}
    return replace(level, nodes=left, shapes=shapes)
