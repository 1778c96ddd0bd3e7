"""Scan: a recurrent cell stays a loop. State and per-step values exist once; sequences are read row by row.

Node inputs are (initial states..., sequences...), body inputs (states..., rows...), body outputs (next states...,
per-step results...), node outputs (final states..., stacked results...): ONNX's own order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.codec import quantize
from tinyhil.formats.format import Format
from tinyhil.language.graph import Graph, Node, Shape, element_count
from tinyhil.language.kernel import REAL
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Loop, Op, Role, Tensor
from tinyhil.ops.index import PLACE_ROW, Counters, take_row
from tinyhil.ops.operator import Arrays, Form, Kernel, attr, axis_of, refuse

Run = Callable[[dict[str, np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True, slots=True)
class LoopOperator:
    """An ONNX operator with a body. `rows` gives the shapes of the body inputs, `count` the number of steps."""

    name: str
    summary: str
    attributes: tuple[str, ...]
    body_shapes: Callable[[Node, Sequence[Shape]], list[Shape]]
    infer: Callable[[Node, Sequence[Shape], Sequence[Shape]], list[Shape]]
    evaluate: Callable[[Node, Arrays, Run], list[np.ndarray]]
    lower: Callable[[Node, Lowering], None]


def _states(node: Node, inputs: int) -> int:
    return inputs - int(node.attrs["num_scan_inputs"])


def _axis(node: Node, index: int, rank: int) -> int:
    axes = attr(node, "scan_input_axes", None)
    return axis_of(node, 0 if axes is None else int(axes[index]), rank)


def _count(node: Node, shapes: Sequence[Shape]) -> int:
    states = _states(node, len(shapes))
    counts = {shape[_axis(node, i, len(shape))] for i, shape in enumerate(shapes[states:])}
    if len(counts) != 1:
        raise refuse(node, f"sequences have different lengths {sorted(counts)}", "check the exported model")
    return counts.pop()


def _body_shapes(node: Node, shapes: Sequence[Shape]) -> list[Shape]:
    for kind, count in (("input", len(shapes) - _states(node, len(shapes))), ("output", len(node.outputs))):
        given = attr(node, f"scan_{kind}_directions", None)
        if given is not None and (len(given) > count or set(given) - {0, 1}):
            raise refuse(node, f"scan_{kind}_directions {list(given)}", "the file is damaged")
    if any(attr(node, "scan_output_axes", ())):
        raise refuse(node, "stacks its results along an inner axis", "set scan_output_axes to 0")
    _count(node, shapes)
    states = _states(node, len(shapes))
    rows = []
    for index, shape in enumerate(shapes[states:]):
        axis = _axis(node, index, len(shape))
        if element_count(shape[:axis]) != 1:
            raise refuse(
                node,
                f"scans axis {axis} of {list(shape)}, whose rows are not contiguous",
                "put the time axis first (behind a batch axis of 1)",
            )
        rows.append(shape[:axis] + shape[axis + 1 :])
    return [*shapes[:states], *rows]


def _infer(node: Node, shapes: Sequence[Shape], body_outputs: Sequence[Shape]) -> list[Shape]:
    states, count = _states(node, len(shapes)), _count(node, shapes)
    for initial, following in zip(shapes[:states], body_outputs, strict=False):
        if initial != following:
            raise refuse(
                node,
                f"a state changes its shape from {list(initial)} to {list(following)}",
                "check the exported model",
            )
    return [*body_outputs[:states], *((count, *shape) for shape in body_outputs[states:])]


def _evaluate(node: Node, arrays: Arrays, run: Run) -> list[np.ndarray]:
    return run_loop(node, arrays, run, _count(node, [array.shape[1:] for array in arrays]))


def run_loop(node: Node, arrays: Arrays, run: Run, count: int) -> list[np.ndarray]:
    """`count` steps over the sequences (if any) from the initial states."""
    assert node.body is not None
    states = _states(node, len(arrays))
    current = list(arrays[:states])
    sequences = [np.moveaxis(array, _axis(node, i, array.ndim - 1) + 1, 0) for i, array in enumerate(arrays[states:])]
    sequences = [s[::-1] if _backward(node, "input", i) else s for i, s in enumerate(sequences)]
    stacked: list[list[np.ndarray]] = []
    for step in range(count):
        rows = [sequence[step] for sequence in sequences]
        outputs = run(dict(zip(node.body.inputs, [*current, *rows], strict=True)))
        current = outputs[:states]
        stacked.append(outputs[states:])
    columns = [list(column) for column in zip(*stacked, strict=True)]
    columns = [c[::-1] if _backward(node, "output", i) else c for i, c in enumerate(columns)]
    samples = max((len(array) for array in (*current, *(row for column in columns for row in column))), default=1)
    return [*current, *(np.stack([_spread(row, samples) for row in column], axis=1) for column in columns)]


def _spread(array: np.ndarray, samples: int) -> np.ndarray:
    return np.broadcast_to(array, (samples, *array.shape[1:]))


def _backward(node: Node, kind: str, index: int) -> bool:
    directions = attr(node, f"scan_{kind}_directions", None)
    return bool(directions is not None and directions[index])


def _lower(node: Node, lowering: Lowering) -> None:
    lower_loop(node, lowering, _count(node, [lowering.shape(name) for name in node.inputs]))


def lower_loop(node: Node, lowering: Lowering, count: int) -> None:
    """The loop of `count` steps. Sequences are shown row by row, or read by a counter where that is not possible
    (backward, constant); per-step results are written by a counter."""
    body = node.body
    assert body is not None
    states = _states(node, len(node.inputs))
    for initial, state in zip(node.inputs[:states], body.inputs[:states], strict=True):
        _copy(node, lowering, initial, lowering.define(state))
    counters = Counters(node, lowering, count)
    slices: list[tuple[str, str]] = []
    steps: list[Op | Loop] = []
    for index, (sequence, row) in enumerate(zip(node.inputs[states:], body.inputs[states:], strict=True)):
        backward = _backward(node, "input", index)
        if not backward and lowering.constant(sequence) is None:
            lowering.define(row, role=Role.SLICE)
            slices.append((lowering.tensor(sequence), row))
            continue
        lowering.define(row)
        steps.append(take_row(node, lowering, counters.name(backward), lowering.operand(sequence), row))
    stacks = list(zip(body.outputs[states:], node.outputs[states:], strict=True))
    for index, (_, stack) in enumerate(stacks):
        count_fill = {"count": lowering.define(stack).count, "value": 0}
        lowering.append(Op(FILL.form, f"{node.name}.{stack}", (), stack, count_fill))
        counters.name(_backward(node, "output", index))
    steps += lowering.lower_body(body)
    for index, (row, stack) in enumerate(stacks):
        steps.append(_place_row(node, lowering, counters.name(_backward(node, "output", index)), row, stack))
    steps += _next_states(node, lowering, body, states)
    steps += counters.advance()
    lowering.append(Loop(node.name, count, tuple(slices), tuple(steps)))
    for state, final in zip(body.inputs[:states], node.outputs, strict=False):
        lowering.alias(final, state)


def _place_row(node: Node, lowering: Lowering, counter: str, row: str, stack: str) -> Op:
    source = lowering.operand(row)
    inner = {"inner": lowering.tensors[source].count}
    return Op(PLACE_ROW.form, f"{node.name}.{stack}", (source, counter, stack), stack, inner)


def _next_states(node: Node, lowering: Lowering, body: Graph, states: int) -> list[Op]:
    pairs = [
        (lowering.operand(source), lowering.tensor(state))
        for state, source in zip(body.inputs[:states], body.outputs[:states], strict=True)
    ]
    targets = {target for _, target in pairs}
    first: list[Op] = []
    for index, (source, target) in enumerate(pairs):  # states that are exchanged: the old one is kept beside
        if source in targets and source != target:
            previous = lowering.scratch(
                f"{source}.previous", lowering.tensors[source].count, lowering.tensors[source].format
            )
            first.append(_copy_op(node, lowering, source, previous.name))
            pairs[index] = (previous.name, target)
    return first + [_copy_op(node, lowering, source, target) for source, target in pairs if source != target]


def _copy(node: Node, lowering: Lowering, value: str, target: Tensor) -> None:
    constant = lowering.constant(value)
    if constant is not None and not constant.any():
        zero = int(quantize(np.zeros(1), target.format)[0][0])  # a code: an asymmetric integer's is not 0
        params = {"count": target.count, "value": zero}
        lowering.append(Op(FILL.form, f"{node.name}.{target.name}", (), target.name, params))
    else:
        lowering.append(_copy_op(node, lowering, lowering.operand(value), target.name))


def _copy_op(node: Node, lowering: Lowering, source: str, target: str) -> Op:
    """Source and target share one format: `lower.py` ties the values of a state together."""
    params = {"count": lowering.tensors[target].count}
    return Op(COPY.form, f"{node.name}.{target}", (source,), target, params)


def _execute_copy(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    return arrays[0], np.zeros(arrays[0].shape, bool)


def _execute_fill(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    values = np.full((1, op.params["count"]), op.params["value"], np.int64)
    return values, np.zeros(values.shape, bool)


COPY = Kernel(Form("copy"), "move a tensor", _execute_copy, ("count",), coded=REAL, codes=(0,))
FILL = Kernel(Form("fill"), "set a tensor to one value", _execute_fill, ("count", "value"))
KERNELS = (COPY, FILL)

SCAN = LoopOperator(
    "Scan",
    "loop over rows, forward and backward; final states and per-step results stacked along a new first axis",
    (
        "num_scan_inputs",
        "scan_input_axes",
        "scan_output_axes",
        "scan_input_directions",
        "scan_output_directions",
    ),
    _body_shapes,
    _infer,
    _evaluate,
    _lower,
)
