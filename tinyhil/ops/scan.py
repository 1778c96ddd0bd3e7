"""Scan: a recurrent cell stays a loop. State and per-step values exist once; sequences are read row by row.

Node inputs are (initial states..., sequences...), body inputs (states..., rows...), body outputs (next states...,
per-step results...), node outputs (final states..., stacked results...): ONNX's own order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.formats.format import Format
from tinyhil.graph import Graph, Node, Shape, element_count
from tinyhil.lowering import Lowering
from tinyhil.ops.operator import Arrays, Kernel, attr, axis_of, refuse
from tinyhil.program import Loop, Op, Tensor

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
    if any(attr(node, "scan_input_directions", ())) or any(attr(node, "scan_output_directions", ())):
        raise refuse(node, "scans backwards", "reverse the sequence outside of the model")
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
    assert node.body is not None
    states = _states(node, len(arrays))
    current = list(arrays[:states])
    sequences = [np.moveaxis(array, _axis(node, i, array.ndim - 1) + 1, 0) for i, array in enumerate(arrays[states:])]
    stacked: list[list[np.ndarray]] = []
    for step in range(len(sequences[0])):
        rows = [sequence[step] for sequence in sequences]
        outputs = run(dict(zip(node.body.inputs, [*current, *rows], strict=True)))
        current = outputs[:states]
        stacked.append(outputs[states:])
    return [*current, *(np.stack(column, axis=1) for column in zip(*stacked, strict=True))]


def _lower(node: Node, lowering: Lowering) -> None:
    body = node.body
    assert body is not None
    states = _states(node, len(node.inputs))
    count = _count(node, [lowering.shape(name) for name in node.inputs])
    if len(node.outputs) > states:
        raise refuse(node, "stacks per-step results", "return the final state only")
    for initial, state in zip(node.inputs[:states], body.inputs[:states], strict=True):
        _copy(node, lowering, initial, lowering.define(state))
    slices = []
    for sequence, row in zip(node.inputs[states:], body.inputs[states:], strict=True):
        if lowering.constant(sequence) is not None:
            raise refuse(node, f"the sequence '{sequence}' is constant", "add it to the input outside of the model")
        lowering.define(row, role="slice")
        slices.append((lowering.tensor(sequence), row))
    steps = lowering.lower_body(body)
    steps.extend(_next_states(node, lowering, body, states))
    lowering.append(Loop(node.name, count, tuple(slices), tuple(steps)))
    for state, final in zip(body.inputs[:states], node.outputs, strict=False):
        lowering.alias(final, state)


def _next_states(node: Node, lowering: Lowering, body: Graph, states: int) -> list[Op]:
    pairs = [
        (lowering.operand(source), lowering.tensor(state))
        for state, source in zip(body.inputs[:states], body.outputs[:states], strict=True)
    ]
    targets = {target for _, target in pairs}
    if any(source in targets and source != target for source, target in pairs):
        raise ModelError(f"node '{node.name}' (Scan): states are exchanged; copy one with Identity and an Add of 0")
    return [_copy_op(node, lowering, source, target) for source, target in pairs if source != target]


def _copy(node: Node, lowering: Lowering, value: str, target: Tensor) -> None:
    constant = lowering.constant(value)
    if constant is not None and not constant.any():
        params = {"count": target.count, "value": 0}
        lowering.append(Op(FILL.name, f"{node.name}.{target.name}", (), target.name, params))
    else:
        lowering.append(_copy_op(node, lowering, lowering.operand(value), target.name))


def _copy_op(node: Node, lowering: Lowering, source: str, target: str) -> Op:
    """Source and target share one format: `lower.py` ties the values of a state together."""
    params = {"count": lowering.tensors[target].count}
    return Op(COPY.name, f"{node.name}.{target}", (source,), target, params)


def _execute_copy(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    return arrays[0], np.zeros(arrays[0].shape, bool)


def _execute_fill(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    values = np.full((1, op.params["count"]), op.params["value"], np.int64)
    return values, np.zeros(values.shape, bool)


COPY = Kernel("copy", "move a tensor", _execute_copy, ("count",))
FILL = Kernel("fill", "set a tensor to one value", _execute_fill, ("count", "value"))
KERNELS = (COPY, FILL)

SCAN = LoopOperator(
    "Scan",
    "loop over rows; forward, final states only",
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
