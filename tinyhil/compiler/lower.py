"""Graph + formats -> Program: tensors become integers, operators kernel calls with shifts and a proven width."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.cell_scales import with_cell_scales
from tinyhil.compiler.columns import scaled_columns
from tinyhil.compiler.function_grids import function_grids
from tinyhil.compiler.missing import missing_formats
from tinyhil.compiler.never_negative import never_negative
from tinyhil.compiler.pins import asymmetric_weights, grouped_weights, moved_constants, pinned_formats, stated_operands
from tinyhil.compiler.shared_scales import leaders_of, ranges_together, share_scales
from tinyhil.compiler.whole_parts import check_whole_parts
from tinyhil.compiler_pass import Pass, Stage, fold
from tinyhil.formats import named
from tinyhil.formats.clipping import METHODS
from tinyhil.formats.fixed import fit_groups
from tinyhil.formats.format import AFFINE, INTEGER, SINGLE, Domain, Format, NamedFormat
from tinyhil.fuse import PROGRAM_FUSIONS, fuse_graph
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph, Node
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Program, Role
from tinyhil.ops import KERNEL_OF, LOOP_BY_NAME, OPERATOR_BY_NAME
from tinyhil.ops.affine import is_affine
from tinyhil.ops.integral import integral_formats, is_whole_input
from tinyhil.ops.operator import Lower, Operator
from tinyhil.ops.placed import NAME as PLACE_AT
from tinyhil.references.verify import checked


@dataclass(frozen=True, slots=True)
class Fitted:
    """Formats, each fitted to its own range: those of `fixed` stay, the scales of the values in `free` nobody asked
    for. `groups`: values that share memory."""

    graph: Graph
    groups: list[tuple[str, ...]]
    formats: dict[str, Format]
    fixed: Mapping[str, Format]
    free: list[str]


def _in_cells(fitted: Fitted, leaders: Mapping[str, str], spans: Mapping[str, tuple[float, float]]) -> Fitted:
    made = with_cell_scales(fitted.graph, fitted.formats, leaders, spans)
    return replace(fitted, formats={**made, **fitted.fixed})


def _shared(fitted: Fitted, *_: object) -> Fitted:
    return replace(fitted, formats=share_scales(fitted.graph, fitted.groups, fitted.formats, fitted.free))


def _faults_of_fitted(fitted: Fitted) -> Iterator[str]:
    yield from (f"value '{name}' has no format" for name in fitted.graph.all_shapes() if name not in fitted.formats)


FITTED = Stage("formats fitted to ranges", _faults_of_fitted)
FITS: tuple[Pass[Fitted], ...] = (
    Pass(
        "cell-scales",
        "asymmetric integers in loops: scales between which shifts suffice",
        FITTED,
        "scales of powers of two, or one for a tensor and its sums with constants",
        _in_cells,
    ),
    Pass(
        "shared-scales",
        "one scale for a whole and its parts, which can be shown in it",
        FITTED,
        "the coarsest of their scales",
        _shared,
    ),
)


def lower(graph: Graph, assignment: Assignment, ranges: Ranges, without: Collection[str] = ()) -> Program:
    """Lower a graph with one input and one output; `without`: names of passes to leave out.

    ModelError if an operator can not be lowered, ConfigError if the assignment contradicts itself.
    """
    scaled = scaled_columns(graph, assignment, ranges, without)
    graph, ranges = scaled.graph, scaled.ranges
    chosen = formats(graph, scaled.assignment, ranges, without)
    check_whole_parts(graph, chosen, ranges)
    graph = fuse_graph(graph, chosen, without)
    lowering = Lowering(graph, chosen, KERNEL_OF, lower_node, ranges.magnitude, ranges.zeros)
    source = graph.inputs[0]
    lowering.define(source, role=Role.INPUT)
    lowering.body = lowering.lower_body(graph)
    output = lowering.operand(graph.outputs[0])
    program = Program(
        name=graph.name,
        tensors=lowering.tensors,
        constants=lowering.constants,
        body=tuple(lowering.body),
        input=source,
        output=output,
        input_shape=graph.shapes[source],
        output_shape=graph.shapes[graph.outputs[0]],
        columns=scaled.columns,
        output_scale=scaled.output_scale,
        whole_input=is_whole_input(graph),
    )
    return fold(PROGRAM_FUSIONS, checked(program, "lowering"), without=without)


def lower_node(node: Node, lowering: Lowering) -> None:
    """Loops and operators by their record; a view is another name for its operand."""
    if node.body is not None:
        LOOP_BY_NAME[node.op].lower(node, lowering)
        return
    operator = OPERATOR_BY_NAME[node.op]
    if operator.is_view:
        lowering.alias(node.outputs[0], lowering.operand(node.inputs[0]))
    else:
        _lower_of(operator, node, lowering)(node, lowering)


def _lower_of(operator: Operator, node: Node, lowering: Lowering) -> Lower:
    """What lowers an operator: by its domain; asymmetric integers that are not all of 8 bits have their own kernels."""
    formats = [lowering.format(name) for name in (*node.inputs, *node.outputs)]
    if operator.words is not None and is_affine(*formats) and not is_affine(*formats, bits=8):
        return operator.words
    return operator.lower[_domain(operator, node, lowering)]


def _domain(operator: Operator, node: Node, lowering: Lowering) -> Domain:
    """In which domain an operator is lowered: that of its operands, unless the result is beyond what rounds there."""
    operands, result = lowering.domain(node.inputs), lowering.format(node.outputs[0])
    if is_affine(*(lowering.format(name) for name in (*node.inputs, *node.outputs)), bits=8):
        return AFFINE
    if operands == AFFINE or (operands == INTEGER and _is_beyond(operator, result)):
        return SINGLE
    return operands


def _is_beyond(operator: Operator, result: Format) -> bool:
    """Whether what lowers the operator in integers can not round into `result`: a sign is that of the exact number."""
    return result.domain == AFFINE or (operator.integers_only and (result.domain != INTEGER or result.is_sign))


def formats(
    graph: Graph, assignment: Assignment, ranges: Ranges, without: Collection[str] = ()
) -> Mapping[str, Format]:
    """The format of every value, fitted to its range. Values that share storage (views, loop states) share one.

    `without`: names of passes to leave out.
    """
    constants = graph.all_constants()
    result: dict[str, Format] = {}
    groups = tied_values(graph)
    in_groups = grouped_weights(graph)
    fixed = {name: fmt for name, fmt in _fixed(graph, groups, ranges).items() if name not in in_groups}
    asymmetric = _asymmetric(groups, assignment, {*fixed, *constants})
    together = ranges_together(graph, groups, asymmetric)
    leaders = {name: together[group[0]][0] for group in groups for name in group}
    spans: dict[str, tuple[float, float]] = {}
    positive = _positive(graph, groups, assignment)
    grids = function_grids(graph, groups)
    for group in groups:
        chosen = named(assignment.format_of(group))
        if chosen.values and not all(is_matrix(constants.get(name)) for name in group):
            chosen = named(chosen.values)
        chosen = _signed_or_not(chosen, group, positive)
        if chosen.vectors and any(name in constants and not is_matrix(constants[name]) for name in group):
            chosen = named(chosen.vectors)
        magnitude = 0.0
        for name in group:
            if name in constants:
                magnitude = max(magnitude, float(np.abs(constants[name]).max(initial=0.0)))
            else:
                magnitude = max(magnitude, *map(abs, ranges.fitted_ends(name, chosen)))
        fmt: Format
        if chosen.fit_range is not None and not all(name in constants for name in group):
            ends = {name: _ends(constants.get(name), ranges, name, chosen) for name in together[group[0]]}
            low, high = grids.ends(group, chosen.bits, ends)
            fmt = chosen.fit_range(low, high)
            if asymmetric.issuperset(name for name in group if name not in constants):
                spans[leaders[group[0]]] = low, high
        elif chosen.fit_values is not None and all(name in constants for name in group):
            fmt = chosen.fit_values(np.concatenate([constants[name].reshape(-1) for name in group]))
        else:
            fmt = chosen.fit(magnitude)
        fmt = fmt.scaled(fmt.exponent + assignment.offset_of(group))
        if fmt.domain in (INTEGER, AFFINE) and in_groups.issuperset(group):
            fmt = fit_groups(magnitude)
        for name in group:
            result[name] = fmt
    free = _movable(groups, assignment, fixed)
    return fold(FITS, Fitted(graph, groups, result | fixed, fixed, free), leaders, spans, without=without).formats


def _positive(graph: Graph, groups: list[tuple[str, ...]], assignment: Assignment) -> Collection[str]:
    """The values that can not be below zero, if any format asks for them."""
    chosen = {named(assignment.format_of(group)) for group in groups}
    asked = any(fmt.fit_positive is not None for one in chosen for fmt in (one, named(one.values or one.name)))
    return never_negative(graph, groups) if asked else set()


def _signed_or_not(chosen: NamedFormat, group: tuple[str, ...], positive: Collection[str]) -> NamedFormat:
    """`chosen` as it fits values that share memory: without a sign if they are `positive`."""
    if chosen.fit_positive is None or not any(name in positive for name in group):
        return chosen
    return replace(chosen, fit=chosen.fit_positive)


def scale_leaders(graph: Graph, assignment: Assignment, ranges: Ranges, chosen: Mapping[str, Format]) -> dict[str, str]:
    """For every value the one that stands for all that have its scale in `chosen`, which `formats` made."""
    groups = tied_values(graph)
    return leaders_of(graph, groups, chosen, _movable(groups, assignment, _fixed(graph, groups, ranges)))


def _fixed(graph: Graph, groups: list[tuple[str, ...]], ranges: Ranges) -> dict[str, Format]:
    """What no assignment changes: values that are whole numbers, and formats that the model itself states."""
    pins = pinned_formats(graph, groups)
    constants = {**moved_constants(graph, pins), **asymmetric_weights(graph, pins), **stated_operands(graph, pins)}
    return {**integral_formats(graph, groups, ranges.values), **pins, **constants, **missing_formats(graph, groups)}


def _movable(groups: Iterable[tuple[str, ...]], assignment: Assignment, fixed: Collection[str]) -> list[str]:
    """Values whose scale nobody asked for."""
    return [name for group in groups if not assignment.offset_of(group) for name in group if name not in fixed]


def _asymmetric(groups: Iterable[tuple[str, ...]], assignment: Assignment, others: Collection[str]) -> set[str]:
    """The values that become asymmetric integers of a range that may be widened."""
    return {
        name
        for group in groups
        if not assignment.offset_of(group) and named(assignment.format_of(group)).fit_range is not None
        for name in group
        if name not in others
    }


def _ends(constant: np.ndarray | None, ranges: Ranges, name: str, chosen: NamedFormat) -> tuple[float, float]:
    return ranges.fitted_ends(name, chosen) if constant is None else (float(constant.min()), float(constant.max()))


def is_matrix(constant: np.ndarray | None) -> bool:
    """Weights, that is, unlike biases and states: what a format for constants is meant for."""
    return constant is not None and sum(dim > 1 for dim in constant.shape) > 1


def cut_ranges(ranges: Ranges, graph: Graph, assignment: Assignment) -> Ranges:
    """The ranges as the formats of `assignment` are fitted to them, which need no more what calibration saw."""
    values = dict(ranges.values)
    groups = tied_values(graph)
    positive = _positive(graph, groups, assignment)
    for group in groups:
        chosen = named(assignment.format_of(group))
        fitted = _signed_or_not(named(chosen.values) if chosen.values else chosen, group, positive)
        values |= {name: ranges.fitted_ends(name, fitted) for name in group if name in values}
    return replace(ranges, values=values, by=METHODS[0], seen={})


def tied_values(graph: Graph) -> list[tuple[str, ...]]:
    """Groups of values that live in the same memory, in order of first appearance."""
    leader: dict[str, str] = {name: name for name in graph.all_shapes()}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for node in graph.walk():
        if node.body is not None:
            body = node.body
            states = len(node.inputs) - int(node.attrs["num_scan_inputs"])
            pairs = list(zip(node.inputs, body.inputs, strict=True))
            pairs += zip(body.outputs, node.outputs, strict=True)
            pairs += zip(node.inputs[:states], node.outputs[:states], strict=True)
        elif OPERATOR_BY_NAME[node.op].is_view:
            pairs = [(node.inputs[0], node.outputs[0])]
        elif node.op == PLACE_AT:  # a row joins what has been there
            pairs = [(node.inputs[0], node.outputs[0]), (node.inputs[0], node.inputs[2])]
        else:
            continue
        for a, b in pairs:
            leader[find(b)] = find(a)
    groups: dict[str, list[str]] = {}
    for name in leader:
        groups.setdefault(find(name), []).append(name)
    return [tuple(group) for group in groups.values()]
