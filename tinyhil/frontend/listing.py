"""What a model says, before it becomes a `Graph`: operators with their parameters as the user wrote them.

Readers hand `Call`s to the builder one after the other; the builder keeps those that were not folded into constants as
a `Listing`. The writers (ONNX, DSL) start from a listing, so a model can be written down again in either language
without undoing what the operators made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.language.graph import Graph, Part, Shape


@dataclass(frozen=True, slots=True)
class Call:
    """One ONNX operator. `inputs` are names, empty where an optional one is left out; `bodies` by attribute name."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    bodies: Mapping[str, Block] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """The calls of one level in order: the model itself, or the body of a loop or a branch."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]

    def walk(self) -> Iterator[Call]:
        """All calls of all levels, a loop before its body."""
        for call in self.calls:
            yield call
            for body in call.bodies.values():
                yield from body.walk()

    def blocks(self) -> Iterator[Block]:
        """This block and those nested in it."""
        yield self
        for call in self.calls:
            for body in call.bodies.values():
                yield from body.blocks()


@dataclass(frozen=True, slots=True)
class Listing:
    """A block with the shapes and constants of its values; names are unique over all levels."""

    block: Block
    shapes: Mapping[str, Shape]
    constants: Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of a model: names of the builder, what lies in the records, and what the user should know."""

    source: str
    output: str
    parts: tuple[Part, ...] = ()
    results: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Model:
    """A graph and the file it came from.

    `sha256` covers every file the model consists of. `declared` are ranges the model itself states for its values;
    calibration never falls below them. `notes` are lines the user should read. `classes` are the names of the classes
    in the order of the outputs, empty where they just count from 0. `stream`: it has states, a sample is a stream.
    """

    graph: Graph
    path: Path
    sha256: str
    listing: Listing
    declared: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    stream: bool = False
