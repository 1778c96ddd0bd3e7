"""The numpy reference: executes a Program exactly as every board must."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tinyhil import time_limit
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.language.arithmetic import load
from tinyhil.language.program import Body, Op, Program, Role
from tinyhil.ops import KERNEL_OF

Watch = Callable[[str, np.ndarray], None]
Observe = Callable[[Op, np.ndarray, np.ndarray], None]


@dataclass(frozen=True, slots=True)
class ReferenceRun:
    """`outputs` (samples, count) integers, `saturations` (samples,) how often a result was clipped."""

    outputs: np.ndarray
    saturations: np.ndarray


def run_reference(
    program: Program, inputs: np.ndarray, watch: Watch | None = None, observe: Observe | None = None
) -> ReferenceRun:
    """Run `program` on integer `inputs` (samples, input count). `watch` sees every tensor each time it is written,
    `observe` the operation that did it, the codes and what it clipped."""
    values: dict[str, np.ndarray] = {name: array[None, :] for name, array in program.constants.items()}
    values[program.input] = _in_planes(inputs, program.tensors[program.input].innermost)
    saturations = np.zeros(len(inputs), np.int64)
    with np.errstate(all="ignore"):  # floats overflow to infinity as on the boards; encoders saturate and count it
        _run(program, program.body, values, saturations, (watch, observe))
    outputs = np.broadcast_to(values[program.output], (len(inputs), program.tensors[program.output].count))
    return ReferenceRun(outputs, saturations)


def _in_planes(inputs: np.ndarray, channels: int) -> np.ndarray:
    """Samples that come with so many channels innermost, in planes; 0: as they are."""
    if not channels:
        return inputs
    return inputs.reshape(len(inputs), -1, channels).transpose(0, 2, 1).reshape(len(inputs), -1)


def _run(
    program: Program,
    body: Body,
    values: dict[str, np.ndarray],
    saturations: np.ndarray,
    watchers: tuple[Watch | None, Observe | None],
) -> None:
    watch, observe = watchers
    for item in body:
        time_limit.check()
        if isinstance(item, Op):
            arrays = [operand(program, item, index, values) for index in range(len(item.inputs))]
            result, clipped = KERNEL_OF[item.kernel].execute(item, arrays, program.tensors[item.output].format)
            values[item.output] = result
            saturations += clipped.sum(axis=1)
            if watch is not None:
                watch(item.output, result)
            if observe is not None:
                observe(item, result, clipped)
            continue
        for step in range(item.count):
            for sequence, row in item.slices:
                count = program.tensors[row].count
                values[row] = values[sequence][:, step * count : (step + 1) * count]
            _run(program, item.body, values, saturations, watchers)


def operand(program: Program, op: Op, index: int, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Input `index` of `op`, (samples, elements), as its kernel sees it: zeros where nothing was written yet."""
    tensor = program.tensors[op.inputs[index]]
    codes = values[tensor.name] if tensor.name in values else np.zeros((1, tensor.count), np.int64)  # of no row yet
    if tensor.role == Role.TABLE or index in KERNEL_OF[op.kernel].codes:
        return codes
    return load(codes, tensor.format, op.domain)


def quantize_inputs(program: Program, inputs: np.ndarray) -> tuple[np.ndarray, int]:
    """Integers (samples, count) the host sends for float `inputs` (samples, ...), and how many of them saturated: NaN
    is none of them, where it is let in."""
    flat, columns = inputs.reshape(len(inputs), -1), program.columns
    integers, clipped = quantize(program.mapped(flat), program.tensors[program.input].format)
    clipped &= ~np.isnan(flat)
    return integers, int(clipped.sum() if columns is None else clipped[:, ~columns.bounded].sum())


def dequantize_outputs(program: Program, outputs: np.ndarray) -> np.ndarray:
    """Real outputs (samples, count), float64, exact."""
    real = dequantize(outputs, program.tensors[program.output].format)
    return real if program.output_scale is None else np.asarray(real / program.output_scale)
