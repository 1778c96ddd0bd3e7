"""When a format loses the model's decisions: which tensors they are lost in, and a format that keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tinyhil.codegen.profile_calls import constant_bytes
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.columns import scaled_columns
from tinyhil.compiler.lower import lower
from tinyhil.errors import HilError
from tinyhil.formats.codec import dequantize
from tinyhil.harness.job.inputs import spread_over
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Op, Program, Role, walk
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference
from tinyhil.reram.mapping import WITHOUT, require_held

COLLAPSE = 0.1  # of the decisions
NO_COLLAPSE = 0.05
SAMPLES = 16  # looked at
MORE_SAMPLES = 64  # on which a remedy must hold, too
LOUD = 0.1  # error of a tensor, relative to its float values
QUIET = 0.02  # of a tensor that begins with one
SPREAD = 16  # between the largest weights of the channels of a layer
NAMED = 2  # tensors in the line
# Fastest first: a scale per channel, TensorFlow Lite's, twice the bits
REMEDIES = ("fixed8pc", "int8", "fixed16", "int16x8", "float32")
ON_CROSSBARS = ("fixed8pc", "fixed8", "fixed16")  # in which these may hold layers


@dataclass(frozen=True, slots=True)
class Culprit:
    """A tensor whose error is much larger than that of what it is computed from."""

    tensor: str
    error: float
    spread: float  # largest over smallest channel of its layer's weights; 1 if it has none
    weights: str = ""

    def __str__(self) -> str:
        text = f"'{self.tensor}' (error {100 * self.error:.0f} %"
        if self.spread > SPREAD:
            text += f", channels of '{self.weights}' differ {self.spread:.0f}-fold under one scale"
        return text + ")"


def explain_collapse(
    graph: Graph,
    assignment: Assignment,
    ranges: Ranges,
    x: np.ndarray,
    decided: tuple[np.ndarray, np.ndarray],
    *,
    on_crossbars: bool = False,
) -> str | None:
    """One line if more than COLLAPSE of the decisions differ, and some tensor is far from its float values; `decided`:
    decisions of integers and of floats, one per sample of `x`. None if the format is good enough."""
    differ = int((decided[0] != decided[1]).sum())
    if differ <= COLLAPSE * len(x):
        return None
    found = culprits(graph, assignment, ranges, spread_over(x, SAMPLES))
    if not found:
        return None
    where = " and ".join(str(one) for one in found[:NAMED])
    line = f"{differ} of {len(x)} decisions differ from float32; lost in {where}"
    names = ON_CROSSBARS if on_crossbars else REMEDIES
    remedy = _remedy(graph, assignment, ranges, x, names, held=on_crossbars)
    if remedy is None:
        return f"{line}; no format of {', '.join(names)} keeps them: calibrate on samples like these"
    return f"{line}; try --format {remedy}"


def _remedy(
    graph: Graph, assignment: Assignment, ranges: Ranges, x: np.ndarray, names: tuple[str, ...], *, held: bool
) -> str | None:
    """The first of these formats that keeps the decisions on a few of `x`, then on more, with how many it loses, and
    the bytes of its constants, which may be what a board did not hold. `held`: crossbars have to hold its layers."""
    some = spread_over(x, MORE_SAMPLES)
    wanted = classes_of(graph, evaluate(graph, some).reshape(len(some), -1))
    for name in names:
        if name == assignment.describe():
            continue
        try:
            program = lower(graph, Assignment(name), ranges, WITHOUT if held else ())
            if held:
                require_held(program)
        except HilError:
            continue
        if lost := _differing(graph, program, some, wanted):
            return f"{name} ({lost}, {constant_bytes(program):,} B of weights and tables)"
    return None


def _differing(graph: Graph, program: Program, x: np.ndarray, wanted: np.ndarray) -> str:
    """How many decisions on `x` are not those `wanted`; empty if too many are not, on a part of them already."""
    lost = 0
    for count in (SAMPLES, len(x)):
        at = spread_over(np.arange(len(x)), count)
        outputs = run_reference(program, quantize_inputs(program, x[at])[0]).outputs
        lost = int((classes_of(graph, dequantize_outputs(program, outputs)) != wanted[at]).sum())
        if lost > NO_COLLAPSE * len(at):
            return ""
    return f"{lost} of {len(x)} differ"


def culprits(graph: Graph, assignment: Assignment, ranges: Ranges, x: np.ndarray) -> list[Culprit]:
    """Tensors in which the error begins, the greatest leap first."""
    program = lower(graph, assignment, ranges)
    integers, _ = quantize_inputs(program, x)
    if program.columns is not None:
        graph = scaled_columns(graph, assignment, ranges).graph
        x = program.columns.applied(x.reshape(len(x), -1)).reshape(x.shape)
    errors = dict(tensor_errors(graph, program, x, integers))
    found = []
    for op in walk(program.body):
        error = errors.get(op.output, 0.0)
        before = max((errors.get(name, 0.0) for name in op.inputs if name != op.output), default=0.0)
        if error > LOUD:
            spread, weights = _spread(graph, program, op)
            found.append((error / max(before, QUIET), Culprit(op.output, error, spread, weights)))
    return [culprit for _, culprit in sorted(found, key=lambda pair: -pair[0])]


def tensor_errors(graph: Graph, program: Program, x: np.ndarray, integers: np.ndarray) -> Iterator[tuple[str, float]]:
    """Root mean square error of every tensor, relative to its float values, of the last step in loops."""
    floats: dict[str, np.ndarray] = {}
    evaluate(graph, x, floats.__setitem__)
    codes: dict[str, np.ndarray] = {}
    run_reference(program, integers, codes.__setitem__)
    for name, array in codes.items():
        wanted = floats.get(name)
        if wanted is None or wanted.size != array.size:
            continue
        real = dequantize(array, program.tensors[name].format).reshape(wanted.shape)
        size = float(np.sqrt(np.mean(np.square(wanted, dtype=np.float64))))
        yield name, float(np.sqrt(np.mean(np.square(real - wanted)))) / max(size, 1e-30)


def _spread(graph: Graph, program: Program, op: Op) -> tuple[float, str]:
    """How much the channels of the weights of `op` differ in size, where they share one scale."""
    constants = graph.all_constants()
    for name in op.inputs:
        weights = constants.get(name)
        if weights is None or program.tensors[name].role != Role.CONSTANT or weights.ndim < 3:
            continue
        largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
        if (largest > 0).sum() > 1:
            return float(largest.max() / largest[largest > 0].min()), name
    return 1.0, ""
