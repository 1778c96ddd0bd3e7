"""What a report shows of a record beside its figures: layers, memory over time, parts of the image, decisions.

Everything here is computed from what the run has at hand; nothing is measured on the board a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tinyhil.codegen.profile_calls import number_of
from tinyhil.compiler.columns import scaled_columns
from tinyhil.compiler.lower import formats
from tinyhil.harness.build.parts import parts_of
from tinyhil.harness.measure.collapse import tensor_errors
from tinyhil.harness.measure.expected import checked_samples
from tinyhil.harness.measure.operations import (
    described,
    elements_of,
    executions_of,
    last_of,
    macs_of,
    ops_of,
)
from tinyhil.harness.measure.product_limits import least_ticks
from tinyhil.harness.measure.rounding_sensitivity import MOST_VALUES, sensitivities
from tinyhil.harness.measure.run import Outcome
from tinyhil.language.program import Op, Program, Role, walk
from tinyhil.memplan import describe
from tinyhil.passes.chains import Chain, carried_out
from tinyhil.passes.stored import bytes_in_flash
from tinyhil.references.reference import dequantize_outputs, quantize_inputs

MOST_CLASSES = 100  # of a confusion matrix
WORST = 12  # samples that are described
SHOWN_VALUES = 4096  # of an input that is kept for the picture of a sample
DIGITS = 4  # of values that are only shown


def layers_of(outcome: Outcome, most_values: int = MOST_VALUES) -> list[dict[str, Any]]:
    """One entry per operation that the board carries out, in order; `most_values` of the float model at most."""
    program, plan = outcome.compiled.program, outcome.compiled.plan
    times = executions_of(program, plan)
    errors, sensitivity = _beside_float(outcome, most_values)
    whole = {op.output: op for op in walk(program.body)}  # what is written part by part is so after the last of them
    items = {id(last_of(item)): item for item in carried_out(program, plan, program.body)}
    inside = {id(op) for item in items.values() for op in ops_of(item)}
    source: dict[str, str] = {}  # of what the plan has done: a copy is what it is a copy of
    found = []
    for op in walk(program.body):
        if id(op) not in inside:
            source[op.output] = source.get(op.inputs[0], op.inputs[0]) if op.inputs else op.output
        if id(op) not in items:
            continue
        made = {one.output for one in ops_of(items[id(op)])}
        for name in made:
            source.pop(name, None)
        layer = _layer(outcome, items[id(op)], times)
        layer["inputs"] = [source.get(name, name) for name in layer["inputs"]]
        is_whole = whole[op.output] is op
        layer["error"] = errors.get(op.output) if is_whole else None
        layer["sensitivity"] = sensitivity.get(op.output) if is_whole else None
        found.append(layer)
    return found


def _layer(outcome: Outcome, item: Op | Chain, times: Mapping[int, int]) -> dict[str, Any]:
    """What is known of an operation, or of several that are one loop, without looking at others."""
    program = outcome.compiled.program
    ops, last, number = ops_of(item), last_of(item), number_of(program, item)
    name, kernel, _ = described(program, item)
    elements = elements_of(program, item, times[number])
    made = {op.output for op in ops}
    read = dict.fromkeys(name for op in ops for name in op.inputs if name not in made)
    return {
        "number": number,
        "name": name,
        "kernel": kernel,
        "operations": [op.name for op in ops],
        "output": last.output,
        "inputs": [name for name in read if not _is_stored(program, name)],
        "formats": _formats(program, (*read, *made)),
        "executions": times[number],
        "elements": elements,
        "macs": macs_of(program, item, elements),
        "accumulator_bits": max(op.accumulator_bits for op in ops),
        "weight_bytes": sum(bytes_in_flash(program.tensors[name]) for name in read if _is_stored(program, name)),
        "activation_bytes": program.tensors[last.output].size_bytes,
        "ticks_per_mac_limit": least_ticks(outcome.board.chip, program, last),
        "saturations": sum(outcome.node_saturations.get(number_of(program, op), 0) for op in ops),
    }


def _is_stored(program: Program, name: str) -> bool:
    return program.tensors[name].role in (Role.TABLE, Role.CONSTANT)


def _formats(program: Program, names: Iterable[str]) -> dict[str, str]:
    """Tensor -> format with its scale, tables left aside."""
    return {name: str(program.tensors[name].format) for name in names if program.tensors[name].role != Role.TABLE}


def _beside_float(outcome: Outcome, most_values: int) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Of each tensor on a few samples: its error relative to the float model's, and what its rounding alone changes."""
    compiled = outcome.compiled
    lowered = compiled.lowered
    scaled = scaled_columns(compiled.model.graph, compiled.assignment, outcome.ranges)
    x = np.asarray(outcome.inputs.x, np.float32)
    x = x[: checked_samples(compiled)].reshape(-1, *scaled.graph.shapes[scaled.graph.inputs[0]])
    integers, _ = quantize_inputs(lowered, x)
    if lowered.columns is not None:
        x = lowered.columns.applied(x.reshape(len(x), -1)).reshape(x.shape)
    chosen = formats(scaled.graph, scaled.assignment, scaled.ranges)
    with np.errstate(all="ignore"):
        errors = {name: e for name, e in tensor_errors(scaled.graph, lowered, x, integers) if np.isfinite(e)}
        return errors, sensitivities(scaled.graph, lowered, chosen, x, most_values)


def memory_of(outcome: Outcome) -> dict[str, Any]:
    """The plan over time: buffers with live ranges, the operation of each instant, the certificate in words."""
    compiled = outcome.compiled
    buffers = [
        {
            "name": buffer.name,
            "size_bytes": buffer.size_bytes,
            "offset": compiled.plan.offsets[buffer.name],
            "region": compiled.plan.regions[buffer.name],
            "sections": [list(section) for section in buffer.sections],
        }
        for buffer in compiled.problem.buffers
        if buffer.size_bytes
    ]
    return {
        "buffers": buffers,
        "steps": [op.name for op in walk(compiled.program.body)],
        "witness": compiled.plan.witness,
        "certificate": describe(compiled.plan),
    }


def decisions_of(outcome: Outcome, classes: np.ndarray, float_classes: np.ndarray) -> dict[str, Any]:
    """The confusion matrix (rows: labels; None without labels or with too many classes), the worst samples, and the
    names of classes, none where the model has none."""
    labels = outcome.inputs.y
    matrix = None
    if labels is not None:
        most = int(max(labels.max(), classes.max())) + 1
        if most <= MOST_CLASSES:
            counts = np.zeros((most, most), np.int64)
            np.add.at(counts, (labels, classes), 1)
            matrix = counts.tolist()
    names = list(outcome.source.classes or outcome.compiled.model.classes)[:MOST_CLASSES]
    return {"confusion": matrix, "worst": _worst(outcome, classes, float_classes), "names": names}


def _worst(outcome: Outcome, classes: np.ndarray, float_classes: np.ndarray) -> list[dict[str, Any]]:
    """The samples whose outputs are furthest from the float model's, changed decisions first."""
    real = dequantize_outputs(outcome.compiled.program, outcome.outputs)
    error = np.nan_to_num(np.abs(real - outcome.float_outputs).max(axis=1), nan=np.inf)
    order = np.lexsort((-error, classes == float_classes))[:WORST]
    labels, x = outcome.inputs.y, np.asarray(outcome.inputs.x)
    shape = [dim for dim in x.shape[1:] if dim != 1]
    shown = x[0].size <= SHOWN_VALUES and 1 <= len(shape) <= 3
    return [
        {
            "sample": int(index),
            "error": float(error[index]) if np.isfinite(error[index]) else None,
            "class": int(classes[index]),
            "float_class": int(float_classes[index]),
            "label": None if labels is None else int(labels[index]),
            "ticks": int(outcome.ticks[index]),
            "shape": shape,
            "values": _rounded(x[index]) if shown else None,
        }
        for index in order
    ]


def _rounded(array: np.ndarray) -> list[float]:
    flat = array.reshape(-1).astype(np.float64)
    return [float(f"{value:.{DIGITS}g}") for value in flat]


def image_of(outcome: Outcome) -> dict[str, Any] | None:
    """Bytes of flash and static RAM by part; None on this computer."""
    return parts_of(outcome.image)
