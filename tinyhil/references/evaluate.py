"""The float reference: runs a graph in float32 over many samples at once, and can watch every value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tinyhil import time_limit
from tinyhil.errors import DataError
from tinyhil.formats.single import FLOAT32
from tinyhil.language.graph import Graph, Node
from tinyhil.ops import LOOP_BY_NAME, OPERATOR_BY_NAME
from tinyhil.ops.integral import is_counted_input

Watch = Callable[[str, np.ndarray], None]
Take = Callable[[Node, list[np.ndarray], list[np.ndarray]], list[np.ndarray]]


def evaluate(graph: Graph, inputs: np.ndarray, watch: Watch | None = None, finite: bool = True) -> np.ndarray:
    """Float32 outputs (samples, *output shape) of a graph with one input and one output.

    `inputs` is (samples, *input shape), axes of 1 left out or not. `watch` is called with the name and the array
    (samples, *shape) of every run-time value, for each step of a loop. DataError for inputs that are not finite, which
    no board takes, if they have to be `finite`.
    """
    x = shape_inputs(graph, inputs, finite)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite shows in the values themselves
        output = _run(graph, {graph.inputs[0]: x}, {}, watch)[0]
    return np.broadcast_to(output, (len(x), *graph.shapes[graph.outputs[0]]))  # a loop may ignore the samples


def replay(graph: Graph, inputs: np.ndarray, take: Take) -> np.ndarray:
    """Run a graph on `inputs` (samples, *input shape) as they are; `take` is given each node that is no loop, its
    operands and its results, and says what goes on in their place."""
    return _run(graph, {graph.inputs[0]: inputs}, {}, None, take)[0]


def shape_inputs(graph: Graph, inputs: np.ndarray, finite: bool = True) -> np.ndarray:
    """`inputs` as float32 (samples, *input shape), or as float64 where whole numbers that the model takes as such are
    beyond what float32 holds; DataError when the shapes do not agree or a value that has to be `finite` is not."""
    shape = graph.shapes[graph.inputs[0]]
    squeezed = tuple(dim for dim in shape if dim != 1)
    given = inputs.shape[1:]
    if inputs.ndim == 0 or len(inputs) == 0:
        raise DataError("inputs: no samples; give an array (samples, ...)")
    if given != shape and tuple(dim for dim in given if dim != 1) != squeezed:
        raise DataError(
            f"inputs have shape {list(given)} per sample, the model '{graph.name}' takes {list(shape)}; "
            "pass an array (samples, ...) of that shape"
        )
    if not np.issubdtype(inputs.dtype, np.number):
        raise DataError(f"inputs hold {inputs.dtype} values; numbers are needed")
    with np.errstate(over="ignore"):
        x = inputs.astype(np.float32)
    if is_counted_input(graph) and not np.array_equal(x, inputs):
        x = inputs.astype(np.float64)
    x = x.reshape(len(inputs), *shape)
    good = np.isfinite(x) | (np.isnan(x) if takes_missing(graph) else False)
    if finite and not good.all():
        bad = int(np.flatnonzero(~good.reshape(len(x), -1).all(axis=1))[0])
        raise DataError(f"inputs: sample {bad} holds NaN or infinite values; clean the data")
    return x


def takes_missing(graph: Graph) -> bool:
    """Whether the input may hold NaN for what is missing: float32, whatever the format of the rest."""
    return graph.pinned.get(graph.inputs[0]) == FLOAT32


def _run(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    outer: Mapping[str, np.ndarray],
    watch: Watch | None,
    take: Take | None = None,
) -> list[np.ndarray]:
    values = dict(outer)
    values.update({name: array[None] for name, array in graph.constants.items()})
    values.update(inputs)
    if watch is not None:
        for name, array in inputs.items():
            watch(name, array)
    for node in graph.nodes:
        time_limit.check()
        arrays = [values[name] for name in node.inputs]
        results = _node(node, arrays, values, watch, take)
        if take is not None and node.body is None:
            results = take(node, arrays, results)
        for name, array in zip(node.outputs, results, strict=False):
            values[name] = array
            if watch is not None:
                watch(name, array)
    return [values[name] for name in graph.outputs]


def _node(
    node: Node,
    arrays: list[np.ndarray],
    values: Mapping[str, np.ndarray],
    watch: Watch | None,
    take: Take | None,
) -> list[np.ndarray]:
    if node.body is None:
        return OPERATOR_BY_NAME[node.op].evaluate(node, arrays)
    body = node.body
    return LOOP_BY_NAME[node.op].evaluate(node, arrays, lambda rows: _run(body, rows, values, watch, take))
