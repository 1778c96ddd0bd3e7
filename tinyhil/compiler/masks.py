"""Masks of attention: constants so far below all else that Softmax gives 0 for what they mark, whatever they are.

Exporters write -1e9 or the lowest number of float32 where they mean minus infinity. A scale that covers that resolves
nothing of the scores beside it. So where Softmax and ArgMax alone read the result of an Add or a Where, a constant that
leaves an element `DISTANCE` or more below all the others becomes one that lies just there: exp(-16) is lost in what
Softmax rounds. Single precision has a scale for every number and keeps its constants.

It takes calibrated ranges to tell how far is far. (Infinite constants never come here: frontend/rewrite_masks.py.)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.record_scales import Scaled
from tinyhil.formats import named
from tinyhil.formats.format import SINGLE
from tinyhil.language.graph import Graph, Node
from tinyhil.names import free_name

DISTANCE = 16.0  # exp(-16) = 1.1e-7, half a unit of the last place of float32 beside 1

BY_DISTANCE = frozenset({"Softmax", "ArgMax"})  # only how far elements are from the largest matters
VIEWS = frozenset({"Identity", "Dropout", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Split", "Slice"})


def with_near_masks(given: Scaled) -> Scaled:
    """The model with its masks near to what they mask, if there are any."""
    nearer = _Nearer(given)
    graph = nearer.level(given.graph)
    if not nearer.constants:
        return given
    constants = {**graph.constants, **nearer.constants}
    shapes = {**graph.shapes, **{name: array.shape for name, array in nearer.constants.items()}}
    graph = replace(graph, constants=constants, shapes=shapes)
    assignment = replace(given.assignment, values={**given.assignment.values, **nearer.chosen})
    return replace(given, graph=graph, ranges=nearer.ranges(), assignment=assignment)


class _Nearer:
    """Lives for one model; what it makes of it besides the levels: `constants`, ranges, formats `chosen`."""

    def __init__(self, given: Scaled) -> None:
        self._given, self._graph = given, given.graph
        self._known, self._shapes = given.graph.all_constants(), given.graph.all_shapes()
        self._readers: dict[str, list[Node]] = {}
        for node in given.graph.walk():
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)
        self._level_outputs = {name for level in given.graph.levels() for name in level.outputs}  # results and states
        self._ends: dict[str, tuple[float, float]] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.chosen: dict[str, str] = {}

    def level(self, graph: Graph) -> Graph:
        """One level with its masks replaced; the shapes of what is new."""
        nodes, shapes = list[Node](), dict(graph.shapes)
        for node in graph.nodes:
            inner = node if node.body is None else replace(node, body=self.level(node.body))
            made = self._replaced(inner) if node.op in ("Add", "Where") else [inner]
            nodes += made
            shapes |= {name: self._shapes[name] for item in made[:-1] for name in item.outputs}
        return replace(graph, nodes=tuple(nodes), shapes=shapes)

    def ranges(self) -> Ranges:
        """The calibrated ranges, with those of what was masked and moved."""
        return replace(self._given.ranges, values={**self._given.ranges.values, **self._ends})

    def _replaced(self, node: Node) -> list[Node]:
        result = node.outputs[0]
        constant = [name for name in node.inputs[-2:] if name in self._known]
        if len(constant) != 1 or not self._only_distances(result) or self._is_single(result):
            return [node]
        mask, x = constant[0], next(name for name in node.inputs[-2:] if name not in self._known)
        if not isinstance(self._known[mask], np.ndarray):  # what is being trained masks nothing
            return [node]
        low, high = self._given.ranges.ends(x)
        array = self._known[mask].astype(np.float64)
        if node.op == "Where":
            return self._selected(node, mask, array, low)
        return self._added(node, (x, mask), array, low, high)

    def _selected(self, node: Node, mask: str, array: np.ndarray, low: float) -> list[Node]:
        """Where, with the constant nearer."""
        far = array < low - DISTANCE
        if not far.any():
            return [node]
        near = min(low, float(array[~far].min(initial=low))) - DISTANCE
        name = self._constant(mask, np.where(far, near, array))
        self._lowest(node.outputs[0], near)
        return [replace(node, inputs=tuple(name if given == mask else given for given in node.inputs))]

    def _added(self, node: Node, names: tuple[str, str], array: np.ndarray, low: float, high: float) -> list[Node]:
        """Add becomes Where, behind the Add of what is no mask, if anything is."""
        (x, mask), result = names, node.outputs[0]
        rest = array[array >= low - high - DISTANCE]
        least = float(rest.min(initial=0.0))
        far = array < low + least - high - DISTANCE
        if not far.any():
            return [node]
        moved, made = x, list[Node]()
        if rest.size and rest.any():
            moved = free_name(f"{result}.moved", self._shapes)
            self._shapes[moved] = self._shapes[result]
            self._ends[moved] = low + least, high + float(rest.max())
            if result in self._given.assignment.values:
                self.chosen[moved] = self._given.assignment.values[result]
            finite = self._constant(mask, np.where(far, 0.0, array))
            made.append(replace(node, inputs=(x, finite), outputs=(moved,)))
        near = low + least - DISTANCE
        self._lowest(result, near)
        inputs = (self._constant(f"{mask}.mask", far), self._constant(f"{mask}.far", np.array(near)), moved)
        return [*made, Node("Where", node.name, inputs, node.outputs)]

    def _constant(self, wish: str, array: np.ndarray) -> str:
        name = free_name(wish, self._shapes)
        self._shapes[name] = array.shape
        self.constants[name] = array.astype(np.float32)
        return name

    def _lowest(self, name: str, low: float) -> None:
        """Of a value, and of all that shows its elements."""
        self._ends[name] = low, max(low, self._given.ranges.ends(name)[1])
        for node in self._readers.get(name, []):
            if node.op in VIEWS:
                for out in node.outputs:
                    self._lowest(out, low)

    def _only_distances(self, name: str) -> bool:
        """Whether nothing but distances from the largest element is made of `name`."""
        readers = self._readers.get(name, [])
        return (
            name not in self._level_outputs
            and bool(readers)
            and all(
                node.op in BY_DISTANCE or (node.op in VIEWS and all(map(self._only_distances, node.outputs)))
                for node in readers
            )
        )

    def _is_single(self, name: str) -> bool:
        return named(self._given.assignment.format_of([name])).fit(1.0).domain == SINGLE
