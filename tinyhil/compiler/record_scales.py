"""A scale for each of several inputs or outputs that share one record: powers of two.

A record is one tensor with one scale. So whoever quantizes multiplies each input by a power of two that brings it into
the binade of the largest one, and the Slice that takes it out of the record divides by it: its codes are those of a
tensor of its own. Of outputs the Concat multiplies, and whoever reads the record divides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.pins import pinned_formats
from tinyhil.formats import named
from tinyhil.formats.format import AFFINE, INTEGER
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph, Node, Part
from tinyhil.language.program import Columns
from tinyhil.ops.integral import is_whole_input

MOST_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Scaled:
    """What to lower instead: `columns` say what the input of `graph` is, in terms of what the user gives, and
    `output_scale` by what its output is divided."""

    graph: Graph
    assignment: Assignment
    ranges: Ranges
    columns: Columns | None = None
    output_scale: np.ndarray | None = None


def with_part_scales(given: Scaled) -> Scaled:
    """The model with a scale for each input in its record; as it was if they reach equally far."""
    if not given.graph.parts:
        return given
    graph, source = given.graph, given.graph.inputs[0]
    records = {source, *_rows(graph, source)}
    cuts = [node for node in graph.walk() if not records.isdisjoint(node.inputs) and node.body is None]
    if (
        source in graph.pinned
        or is_whole_input(graph)
        or not _has_one_scale(given, source)
        or any(node.op != "Slice" for node in cuts)
    ):
        return given
    taken = {node.attrs["parts"][0][0][0]: node for node in cuts}  # by its first element
    names = [taken[part.start].outputs[0] for part in graph.parts if part.start in taken]
    if len(names) < len(graph.parts):  # one that nobody reads
        return given
    ends = [given.ranges.ends(name) for name in names]
    by = _doublings(ends)
    if not any(by):
        return given
    halved = {taken[part.start].name: {"halvings": shift} for part, shift in zip(graph.parts, by, strict=True)}
    ranges = _together(given.ranges, records, ends, by)
    scale = _spread(graph.parts, by, int(np.prod(graph.shapes[source])))
    columns = Columns.of(np.zeros(len(scale)), scale)
    return replace(given, graph=_with_attributes(graph, halved), ranges=ranges, columns=columns)


def with_result_scales(given: Scaled) -> Scaled:
    """The model with a scale for each output in its record; as it was if the model states one for all."""
    graph, output = given.graph, given.graph.outputs[0]
    found = _joint(graph, output) if graph.results else None
    if found is None or not _has_one_scale(given, output):
        return given
    joint, records = found
    stated = pinned_formats(graph, [(name,) for name in graph.all_shapes()])
    if len({stated.get(name) for name in joint.inputs} - {None}) == 1 and stated.keys() >= set(joint.inputs):
        return given
    constants = graph.all_constants()
    ends = []
    for name in joint.inputs:
        array = constants.get(name)
        ends.append(given.ranges.ends(name) if array is None else (float(array.min()), float(array.max())))
    by = _doublings(ends)
    if not any(by):
        return given
    ranges = _together(given.ranges, records, ends, by)
    scale = _spread(graph.results, by, sum(part.count for part in graph.results))
    changed = _with_attributes(graph, {joint.name: {"doublings": by}})
    return replace(given, graph=changed, ranges=ranges, output_scale=scale)


def _has_one_scale(given: Scaled, name: str) -> bool:
    """Whether the format of `name` has the same resolution everywhere."""
    return named(given.assignment.format_of([name])).fit(1.0).domain in (INTEGER, AFFINE)


def _rows(graph: Graph, source: str) -> Iterator[str]:
    """What loops call one step of the stream `source`."""
    for node in graph.nodes:
        if node.body is not None:
            yield from (row for given, row in zip(node.inputs, node.body.inputs, strict=True) if given == source)


def _joint(graph: Graph, output: str) -> tuple[Node, set[str]] | None:
    """The Concat that makes the record of outputs, and all names of that; None if a pass has changed it."""
    names = {output}
    for node in graph.nodes:
        if node.body is not None and output in node.outputs:
            at = node.outputs.index(output)
            names |= {node.body.inputs[at], node.body.outputs[at]}
    found = [node for node in graph.walk() if node.op == "Concat" and node.outputs[0] in names]
    readers = [node for node in graph.walk() if not names.isdisjoint(node.inputs)]
    if len(found) != 1 or readers or len(found[0].inputs) != len(graph.results):
        return None
    return found[0], names


def _doublings(ends: Iterable[tuple[float, float]]) -> list[int]:
    """By which power of two each range comes into the binade of the largest."""
    reach = [max(abs(low), abs(high)) for low, high in ends]
    powers = [math.frexp(value)[1] for value in reach if value > 0]
    top = max(powers, default=0)
    return [min(top - math.frexp(value)[1], MOST_DOUBLINGS) if value > 0 else 0 for value in reach]


def _together(ranges: Ranges, records: set[str], ends: Iterable[tuple[float, float]], by: Iterable[int]) -> Ranges:
    """The ranges with that of the `records`: of all that lies in them, scaled."""
    scaled = [(math.ldexp(low, shift), math.ldexp(high, shift)) for (low, high), shift in zip(ends, by, strict=True)]
    span = min(low for low, _ in scaled), max(high for _, high in scaled)
    return replace(ranges, values={**ranges.values, **dict.fromkeys(records, span)})


def _spread(parts: Iterable[Part], by: Iterable[int], count: int) -> np.ndarray:
    """The factor of every element of a record, or of as many records as follow each other."""
    one = np.concatenate([np.full(part.count, 2.0**shift) for part, shift in zip(parts, by, strict=True)])
    return np.tile(one, count // len(one))


def _with_attributes(graph: Graph, more: Mapping[str, Mapping[str, object]]) -> Graph:
    """The graph with further attributes for the nodes of these names, on every level."""

    def changed(node: Node) -> Node:
        body = None if node.body is None else _with_attributes(node.body, more)
        return replace(node, attrs={**node.attrs, **more.get(node.name, {})}, body=body)

    return replace(graph, nodes=tuple(changed(node) for node in graph.nodes))
