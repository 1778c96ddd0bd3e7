"""The float gate: does every operation give what the float model gives for the same operands?

The float model runs beside the recorded values of the integer program: wherever the program holds a value in memory,
its codes are compared with what the float operators in between make of the values the program really had, and take
their place from there on. So errors do not add up, and each comparison is held to the bounds of one operation: a
kernel's own error (bounds.py), what constants lose in their formats (spread.py), one rounding. Rounding is monotonic:
with an exact result within v - e and v + e, the code lies between those of its ends, whatever the format is, and
saturated where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tinyhil.agreement.bounds import Computed, error_bound
from tinyhil.agreement.finding import Finding
from tinyhil.agreement.spread import Uncertain, spread
from tinyhil.agreement.stored_constants import with_stored_constants
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.formats.format import Format
from tinyhil.language.graph import Graph, Node
from tinyhil.language.program import Op, Program
from tinyhil.references.evaluate import evaluate, replay
from tinyhil.references.reference import quantize_inputs, run_reference

MOST_STEPS = 8  # of a loop, that are compared: each runs the same code


@dataclass(frozen=True, slots=True)
class Agreement:
    """`checked`: tensors compared; `unchecked`: those for which no bound is known; `saturated`: those
    of which every element did, which is counted and not compared; `explained_output_error`: of the whole run, if it
    was judged (whole_run.py)."""

    samples: int
    checked: tuple[str, ...]
    unchecked: tuple[str, ...]
    saturated: tuple[str, ...]
    findings: tuple[Finding, ...]
    explained_output_error: float | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """One execution of an operation: the codes it wrote and what it clipped."""

    op: Op
    codes: np.ndarray
    clipped: np.ndarray


def agreement(graph: Graph, program: Program, formats: Mapping[str, Format], inputs: np.ndarray) -> Agreement:
    """Compare `program`, as `lower` made it of `graph` with these `formats`, with the float model on `inputs`."""
    codes, _ = quantize_inputs(program, inputs)
    held = dequantize(codes, program.tensors[program.input].format).reshape(inputs.shape)
    beside = _Beside(graph, program, formats, _written(graph, program, codes, inputs))
    with np.errstate(all="ignore"):
        replay(beside.graph, held, beside.take)
    findings = [*_changed_indices(graph, program, inputs, held), *beside.findings.values()]
    unchecked, saturated = (
        tuple(name for name in names if name not in beside.checked) for names in (beside.unchecked, beside.saturated)
    )
    return Agreement(len(inputs), tuple(beside.checked), unchecked, saturated, tuple(findings))


def _changed_indices(graph: Graph, program: Program, inputs: np.ndarray, held: np.ndarray) -> list[Finding]:
    """An input of whole numbers must hold them exactly: an index next to it is none."""
    changed = np.abs(held - np.trunc(inputs))
    if not program.whole_input or not changed.any():
        return []
    name = graph.inputs[0]
    fmt = str(program.tensors[name].format)
    return [Finding(name, "input", fmt, float(changed.max()), 0.0, int((changed > 0).sum()))]


def _written(graph: Graph, program: Program, codes: np.ndarray, inputs: np.ndarray) -> dict[str, list[Written]]:
    """What the program wrote to tensors that are values of the graph, as often as the graph computes them."""
    found: dict[str, list[Written]] = {}
    run_reference(program, codes, observe=lambda op, *made: found.setdefault(op.output, []).append(Written(op, *made)))
    times = Counter(name for node in graph.nodes for name in node.outputs)
    if any(node.body is not None for node in graph.nodes):  # how often do values in loops come?
        times.clear()
        evaluate(graph, inputs[:1], lambda name, _: times.update((name,)))
    complete = {}
    for name, writes in found.items():
        parts, rest = divmod(len(writes), times[name]) if times[name] else (0, 1)
        if rest == 0:  # of a tensor that is written part by part the last write has all
            complete[name] = writes[parts - 1 :: parts]
    return complete


class _Beside:
    """The float model beside the program; lives for one comparison."""

    def __init__(
        self, graph: Graph, program: Program, formats: Mapping[str, Format], written: dict[str, list[Written]]
    ) -> None:
        self.graph, self._errors = with_stored_constants(graph, program, formats)
        self.checked: dict[str, None] = {}
        self.unchecked: dict[str, None] = {}
        self.saturated: dict[str, None] = {}
        self.findings: dict[str, Finding] = {}
        self._program = program
        self._written = {name: iter(writes) for name, writes in written.items()}
        self._times: Counter[str] = Counter()
        self._between: dict[str, Uncertain] = {}  # values that the program holds nowhere

    def take(self, node: Node, arrays: list[np.ndarray], results: list[np.ndarray]) -> list[np.ndarray]:
        """What goes on as the results of `node`: the program's own values where it holds them."""
        written = [next(self._written[name], None) if name in self._written else None for name in node.outputs]
        self._times[node.outputs[0]] += 1
        if self._times[node.outputs[0]] > MOST_STEPS and None not in written:
            return [self._held(write, result) for write, result in zip(written, results, strict=False) if write]
        operands = [self._operand(name, array) for name, array in zip(node.inputs, arrays, strict=True)]
        largest = max(
            (float(np.abs(array).max(initial=0.0)) for array in arrays if array.dtype.kind == "f"), default=0.0
        )
        taken = []
        for name, made, write in zip(node.outputs, spread(node, operands, results), written, strict=False):
            if write is None:
                self._between[name] = made
                taken.append(made.value)
            else:
                self._compare(name, node, made, write, largest)
                taken.append(self._held(write, made.value))
        return taken

    def _held(self, written: Written, like: np.ndarray) -> np.ndarray:
        """The program's own values, in the shape of `like`."""
        held = dequantize(written.codes, self._program.tensors[written.op.output].format)
        return held.reshape(len(held), *like.shape[1:])

    def _operand(self, name: str, array: np.ndarray) -> Uncertain:
        between = self._between.get(name)
        if between is not None and between.value.shape == array.shape:
            return between
        if name in self._errors:
            return Uncertain(array, self._errors[name][None], np.abs(array))
        return Uncertain.known(array)

    def _compare(self, name: str, node: Node, made: Uncertain, written: Written, largest: float) -> None:
        """Hold what the program has of `name` to `made`."""
        fmt = self._program.tensors[name].format
        codes = written.codes
        held = dequantize(codes, fmt)
        value = np.broadcast_to(
            made.value.reshape(len(made.value), -1), (max(len(codes), len(made.value)), codes.shape[1])
        )
        flat = [np.broadcast_to(a, made.value.shape).reshape(len(made.value), -1) for a in (made.error, made.size)]
        error, size = (np.broadcast_to(a, value.shape) for a in flat)
        allowed = error + error_bound(written.op, self._program, Computed(value, size, largest))
        clipped = _clipped(written)
        known = np.isfinite(value) & np.isfinite(allowed) & ~clipped
        if not known.any():
            (self.saturated if clipped.all() else self.unchecked)[name] = None
            return
        self.checked[name] = None
        low, high = (
            dequantize(quantize(np.where(known, value + side * allowed, 0.0), fmt)[0], fmt) for side in (-1.0, 1.0)
        )
        wrong = known & ((held < low) | (held > high))
        if wrong.any():
            explained = np.maximum(high - value, value - low)
            off = np.abs(held - value)
            worst = np.unravel_index(np.argmax(np.where(wrong, off / np.maximum(explained, 1e-300), 0)), wrong.shape)
            self._found(
                Finding(name, node.name, str(fmt), float(off[worst]), float(explained[worst]), int(wrong.sum()))
            )

    def _found(self, finding: Finding) -> None:
        before = self.findings.get(finding.tensor)
        if before is None or finding.error > before.error:
            self.findings[finding.tensor] = finding


def _clipped(written: Written) -> np.ndarray:
    """Elements that saturated, which is counted: where a kernel does not say which, all of the sample."""
    clipped = written.clipped != 0
    if clipped.shape == written.codes.shape:
        return clipped
    return np.broadcast_to(clipped.any(axis=1, keepdims=True), written.codes.shape)
