"""How well a program agrees with the float model on a fixed set of samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tinyhil.errors import DataError
from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.format import Format
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import evaluate, shape_inputs
from tinyhil.references.reference import ReferenceRun, dequantize_outputs, quantize_inputs, run_reference

BLOCK = 256  # samples between two looks at the early stop: the result is the same for any number of threads


Decide = Callable[[Graph, np.ndarray], np.ndarray]


class Executor(Protocol):
    """What runs a program: the host engine, or numpy.

    `part` names the samples that `inputs` are made of, for executors that keep values: under one name they never
    change. None: nothing is kept.
    """

    def run(self, program: Program, inputs: np.ndarray, part: Hashable = None) -> ReferenceRun:
        """Codes (samples, outputs) and saturations of `inputs`, codes (samples, count). `part` names the samples
        to a cache."""

    def values(self, program: Program, inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Codes (samples, elements) of every tensor that the program computes."""


@dataclass(frozen=True, slots=True)
class NumpyExecutor:
    """The reference itself: slower, and it takes every kernel and width there is."""

    def run(self, program: Program, inputs: np.ndarray, part: Hashable = None) -> ReferenceRun:
        """As run_reference; nothing is cached."""
        return run_reference(program, inputs.astype(np.int64))

    def values(self, program: Program, inputs: np.ndarray) -> dict[str, np.ndarray]:
        """What operations wrote, what is written in parts side by side."""
        parts: dict[str, list[np.ndarray]] = {}

        def watch(name: str, array: np.ndarray) -> None:
            parts.setdefault(name, []).append(np.broadcast_to(array, (len(inputs), array.shape[1])))

        run_reference(program, inputs.astype(np.int64), watch)
        return {name: np.concatenate(arrays, axis=1) for name, arrays in parts.items()}


@dataclass(frozen=True, slots=True)
class Score:
    """`samples` were run before the end or the early stop; `loss` is the mean squared error of their outputs."""

    samples: int
    disagreements: int
    correct: int | None
    saturations: int
    loss: float


@dataclass(frozen=True, slots=True)
class Examples:
    """Samples with what the float model makes of them, those it decides most narrowly first (they disagree first)."""

    x: np.ndarray
    labels: np.ndarray | None
    outputs: np.ndarray
    classes: np.ndarray
    graph: Graph
    decide: Decide = classes_of

    def __len__(self) -> int:
        return len(self.x)

    @property
    def float_accuracy(self) -> float | None:
        """Share of the labels (0..1) that the float model finds; None without labels."""
        return None if self.labels is None else float((self.classes == self.labels).mean())


def make_examples(graph: Graph, x: np.ndarray, labels: np.ndarray | None, decide: Decide = classes_of) -> Examples:
    """Run the float model; DataError for no samples, values that are not finite, or outputs that decide nothing.

    `decide`: the decisions that outputs (samples, elements) stand for, one of each sample or many."""
    shaped = shape_inputs(graph, x)
    outputs = evaluate(graph, shaped).reshape(len(shaped), -1)
    if not np.isfinite(outputs).all():
        raise DataError("search: the float model's outputs are not finite on these inputs; clean the data")
    if len(shaped) > 1 and (outputs == outputs[0]).all():
        raise DataError("search: the float model's outputs are constant on these inputs; nothing can be told from them")
    if outputs.shape[1] > 1:
        top = np.sort(outputs, axis=1)
        margin = top[:, -1] - top[:, -2]
    else:
        margin = np.abs(outputs[:, 0])
    order = np.argsort(margin, kind="stable")
    found = labels if labels is None else labels[order]
    return Examples(shaped[order], found, outputs[order], decide(graph, outputs[order]), graph, decide)


def require_classes(examples: Examples) -> None:
    """DataError if the float model sees one class only: then every assignment that does so too would look perfect."""
    if len(np.unique(examples.classes)) < 2:
        raise DataError(
            f"search: the float model gives one class for all {len(examples)} samples; "
            "disagreements tell nothing then: give samples of several classes"
        )


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Scores programs on `examples` by `executor`; quantized inputs are kept per input format."""

    executor: Executor
    examples: Examples
    _inputs: dict[Format, np.ndarray] = field(default_factory=dict)
    _name: object = field(default_factory=object)  # of these samples

    def score(self, program: Program, stop_above: int | None = None) -> Score:
        """All samples, or up to the block in which the disagreements exceed `stop_above`."""
        inputs = self._quantized(program)
        parts = []
        for start in range(0, len(self.examples), BLOCK):
            parts.append(self._part(program, inputs, slice(start, min(start + BLOCK, len(self.examples)))))
            if stop_above is not None and sum(part.disagreements for part in parts) > stop_above:
                break
        return joined(parts)

    def probe(self, program: Program, samples: int) -> Score:
        """`samples` of them, evenly spread from narrow to clear decisions."""
        step = max(1, len(self.examples) // samples)
        return self._part(program, self._quantized(program), slice(None, None, step))

    def values(self, program: Program, samples: int) -> dict[str, np.ndarray]:
        """Every value every tensor takes on the same evenly spread samples, the input included."""
        step = max(1, len(self.examples) // samples)
        inputs = self._quantized(program)[::step]
        return {program.input: inputs, **self.executor.values(program, inputs)}

    def _quantized(self, program: Program) -> np.ndarray:
        fmt = program.tensors[program.input].format
        if fmt not in self._inputs:
            integers, _ = quantize_inputs(program, self.examples.x)
            self._inputs[fmt] = integers.astype(storage_dtype(fmt))
        return self._inputs[fmt]

    def _part(self, program: Program, inputs: np.ndarray, chosen: slice) -> Score:
        given = inputs[chosen]
        found = self.executor.run(program, given, (self._name, chosen.start, chosen.stop, chosen.step))
        real = dequantize_outputs(program, found.outputs)
        classes = self.examples.decide(self.examples.graph, real)
        labels = self.examples.labels
        return Score(
            samples=len(classes),
            disagreements=int((classes != self.examples.classes[chosen]).sum()),
            correct=None if labels is None else int((classes == labels[chosen]).sum()),
            saturations=int(found.saturations.sum()),
            loss=float(((real - self.examples.outputs[chosen]) ** 2).mean()),
        )


def joined(parts: list[Score]) -> Score:
    """The score of all samples of the parts."""
    samples = sum(part.samples for part in parts)
    return Score(
        samples=samples,
        disagreements=sum(part.disagreements for part in parts),
        correct=None if parts[0].correct is None else sum(part.correct or 0 for part in parts),
        saturations=sum(part.saturations for part in parts),
        loss=sum(part.loss * part.samples for part in parts) / samples,
    )
