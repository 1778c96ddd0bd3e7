"""The graph every front end produces and every later stage reads.

A `Graph` is a list of `Node`s in execution order over named values. Loops are nodes with a `body` graph (`Scan`,
`Repeat`), which no later stage unrolls (a front end may: tflite_control.py). Names are unique over the whole nesting:
one flat map of ranges or formats serves all levels.

Shapes are those of one sample, with the batch axis (if the model has one) fixed to 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyhil.formats.format import Format

Shape = tuple[int, ...]


def element_count(shape: Shape) -> int:
    """Number of elements of a tensor of `shape`; a scalar has one."""
    count = 1
    for dim in shape:
        count *= dim
    return count


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. `op` names a record of `tinyhil.ops`; `body` is set for loops only."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    body: Graph | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Where one of several inputs or outputs lies in the record that they share: from element `start` on, flat.
    `is_whole`: whole numbers beside floats."""

    name: str
    start: int
    shape: Shape
    is_whole: bool = False

    @property
    def count(self) -> int:
        """Its elements in one record."""
        return element_count(self.shape)

    @property
    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """First element, and first one behind it."""
        return ("start", self.start), ("end", self.start + self.count)


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in execution order. `shapes` covers every value of this level, `constants` those known at compile time.

    The body of a loop may read values of the levels around it (`constants` of the outermost level mostly).

    A quantized model keeps its scales: `pinned` are the formats of inputs that are integers, `steps` the distances
    between neighbouring values of constants that were integers times a scale, broadcastable to the constant; `grouped`
    are those of them that are stored as these integers in whatever format of integers: of 4 bits and less, or with
    scales of groups.

    Several inputs of a model lie in one, its `parts` (of one step, if the input is a stream of them); several outputs
    in one, its `results`. Both are empty where there is one alone.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    shapes: Mapping[str, Shape]
    constants: Mapping[str, np.ndarray]
    pinned: Mapping[str, Format] = field(default_factory=dict)
    steps: Mapping[str, np.ndarray] = field(default_factory=dict)
    grouped: frozenset[str] = frozenset()
    parts: tuple[Part, ...] = ()
    results: tuple[Part, ...] = ()

    def walk(self) -> Iterator[Node]:
        """All nodes of all levels, a loop before its body."""
        for node in self.nodes:
            yield node
            if node.body is not None:
                yield from node.body.walk()

    @property
    def has_loops(self) -> bool:
        """Whether some node carries out a body."""
        return any(node.body is not None for node in self.walk())

    def levels(self) -> Iterator[Graph]:
        """This graph and the bodies nested in it."""
        yield self
        for node in self.nodes:
            if node.body is not None:
                yield from node.body.levels()

    def all_shapes(self) -> dict[str, Shape]:
        """Shape of every value of every level."""
        return {name: shape for level in self.levels() for name, shape in level.shapes.items()}

    def all_constants(self) -> dict[str, np.ndarray]:
        """Every constant of every level."""
        return {name: array for level in self.levels() for name, array in level.constants.items()}
