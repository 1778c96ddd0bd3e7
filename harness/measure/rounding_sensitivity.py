"""How much each operation's rounding alone moves the outputs: the float model with that one in its formats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyhil.agreement.stored_constants import with_stored_constants
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.format import Format
from tinyhil.language.graph import Graph, Node
from tinyhil.language.program import Op, Program, Role, walk
from tinyhil.ops import OPERATOR_BY_NAME
from tinyhil.references.evaluate import evaluate, replay

SAMPLES = 2
MOST_VALUES = 3_000_000  # that are computed in all, beside a run
MOST_OF_A_PROFILE = 60_000_000  # some seconds: who profiles wants to know


def sensitivities(
    graph: Graph, program: Program, formats: Mapping[str, Format], x: np.ndarray, most_values: int = MOST_VALUES
) -> Mapping[str, float]:
    """Output of an operation -> root mean square change of the model's output, relative to its size.

    `graph` is the one that `program` was lowered from with these `formats`, `x` (samples, *input shape). Empty for
    models that take more than `most_values` values of the float model, one run of it per operation.
    """
    ops = list(walk(program.body))
    counted = _Counter()
    wanted = evaluate(graph, x[:SAMPLES], counted).astype(np.float64)
    if counted.values * len(ops) > most_values or not np.isfinite(wanted).all():
        return {}
    stored = with_stored_constants(graph, program, formats)[0].all_constants()
    size = max(float(np.sqrt(np.mean(np.square(wanted)))), 1e-30)
    found: dict[str, float] = {}
    for op in ops:
        got = _rounded(graph, program, op, stored, x[:SAMPLES])
        if got is not None:
            change = float(np.sqrt(np.mean(np.square(got.reshape(wanted.shape) - wanted)))) / size
            found[op.output] = max(change, found.get(op.output, 0.0))
    return {name: change for name, change in found.items() if np.isfinite(change)}


class _Counter:
    """Counts what the float model computes."""

    def __init__(self) -> None:
        self.values = 0

    def __call__(self, name: str, array: np.ndarray) -> None:
        self.values += array.size


def _rounded(
    graph: Graph, program: Program, op: Op, stored: Mapping[str, np.ndarray], x: np.ndarray
) -> np.ndarray | None:
    """Outputs of the float model in which only `op` has its formats; None if no node of the graph is it."""
    constants = {name for name in op.inputs if program.tensors[name].role == Role.CONSTANT and name in stored}
    output: list[np.ndarray] = []
    touched: list[str] = []

    def take(node: Node, arrays: list[np.ndarray], results: list[np.ndarray]) -> list[np.ndarray]:
        if constants.intersection(node.inputs):
            touched.append(node.name)
            held = [
                stored[name][None].astype(np.float32) if name in constants else array
                for name, array in zip(node.inputs, arrays, strict=True)
            ]
            results = OPERATOR_BY_NAME[node.op].evaluate(node, held)
        if op.output in node.outputs:
            touched.append(node.name)
            results = [
                _held(array, program.tensors[name].format) if name == op.output else array
                for name, array in zip(node.outputs, results, strict=False)
            ]
        if graph.outputs[0] in node.outputs:
            output[:] = [results[list(node.outputs).index(graph.outputs[0])]]
        return results

    replay(graph, x, take)
    return np.broadcast_to(output[0], (len(x), *output[0].shape[1:])) if output and touched else None


def _held(array: np.ndarray, fmt: Format) -> np.ndarray:
    """What is left of an array in a format."""
    return dequantize(quantize(array, fmt)[0], fmt).astype(np.float32)
