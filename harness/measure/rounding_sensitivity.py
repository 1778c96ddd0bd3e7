"""How much each operation's rounding alone moves the outputs: the float model with that one in its formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    graph: Graph,
    program: Program,
    formats: Mapping[str, Format],
    x: np.ndarray,
    most_values: int = MOST_VALUES,
    most_at_once: int = MOST_VALUES,
) -> Mapping[str, float]:
    """Output of an operation -> root mean square change of the model's output, relative to its size.

    `graph` is the one that `program` was lowered from with these `formats`, `x` (samples, *input shape). Empty for
    models that take more than `most_values` values of the float model, one run of it per operation;
    `most_at_once` of them lie in memory.
    """
    ops = list(walk(program.body))
    counted = _Counter()
    wanted = evaluate(graph, x[:SAMPLES], counted).astype(np.float64)
    if counted.values * len(ops) > most_values or not np.isfinite(wanted).all():
        return {}
    stored = with_stored_constants(graph, program, formats)[0].all_constants()
    size = max(float(np.sqrt(np.mean(np.square(wanted)))), 1e-30)
    at_once = max(1, most_at_once // max(1, counted.values))
    found: dict[str, float] = {}
    for first in range(0, len(ops), at_once):
        rounded = _Rounded(program, ops[first : first + at_once], stored)
        for op, change in rounded.changes(graph, x[:SAMPLES]):
            found[op.output] = max(change / size, found.get(op.output, 0.0))
    return {name: change for name, change in found.items() if np.isfinite(change)}


class _Counter:
    """Counts what the float model computes."""

    def __init__(self) -> None:
        self.values = 0

    def __call__(self, name: str, array: np.ndarray) -> None:
        self.values += array.size


class _Rounded:
    """Runs of the float model at once, one behind the other along the samples: as it is, and for each operation one in
    which that alone has its formats."""

    def __init__(self, program: Program, ops: Sequence[Op], stored: Mapping[str, np.ndarray]) -> None:
        self._program, self._ops, self._stored = program, ops, stored
        self._constants = [
            {name for name in op.inputs if program.tensors[name].role == Role.CONSTANT and name in stored} for op in ops
        ]
        self._samples = 0
        self._of_node: dict[str, list[int]] = {}

    def changes(self, graph: Graph, x: np.ndarray) -> Iterator[tuple[Op, float]]:
        """Each operation that some node of the graph is, with the root mean square change of the outputs by it."""
        self._samples, runs = len(x), 1 + len(self._ops)
        many = replay(graph, np.tile(x, (runs, *(1,) * (x.ndim - 1))), self._take)
        many = np.broadcast_to(many, (runs * len(x), *many.shape[1:])).astype(np.float64)
        touched = {number for numbers in self._of_node.values() for number in numbers}
        for number in sorted(touched):
            moved = many[self._rows(number)] - many[: len(x)]
            yield self._ops[number], float(np.sqrt(np.mean(np.square(moved))))

    def _rows(self, number: int) -> slice:
        return slice((number + 1) * self._samples, (number + 2) * self._samples)

    def _take(self, node: Node, arrays: list[np.ndarray], results: list[np.ndarray]) -> list[np.ndarray]:
        numbers = self._of_node.get(node.outputs[0])
        if numbers is None:
            numbers = self._of_node[node.outputs[0]] = [
                number
                for number, op in enumerate(self._ops)
                if op.output in node.outputs or self._constants[number].intersection(node.inputs)
            ]
        if not numbers:
            return results
        rows = (len(self._ops) + 1) * self._samples
        results = [np.broadcast_to(array, (rows, *array.shape[1:])).copy() for array in results]
        for number in numbers:
            here = self._rows(number)
            for array, own in zip(
                results, self._own(number, node, arrays, [array[here] for array in results]), strict=False
            ):
                array[here] = own
        return results

    def _own(
        self, number: int, node: Node, arrays: list[np.ndarray], results: list[np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Results of a node in the run in which this operation has its formats."""
        constants, op = self._constants[number], self._ops[number]
        if constants.intersection(node.inputs):
            held = [
                self._stored[name][None].astype(np.float32)
                if name in constants
                else array[self._rows(number)]
                if len(array) > 1
                else array
                for name, array in zip(node.inputs, arrays, strict=True)
            ]
            results = OPERATOR_BY_NAME[node.op].evaluate(node, held)
        for name, array in zip(node.outputs, results, strict=False):
            yield _held(array, self._program.tensors[name].format) if name == op.output else array


def _held(array: np.ndarray, fmt: Format) -> np.ndarray:
    """What is left of an array in a format."""
    return dequantize(quantize(array, fmt)[0], fmt).astype(np.float32)
