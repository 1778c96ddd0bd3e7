"""Integer networks of convolutions on torch's float kernels: the reference's integers, several times as fast.

Sums below 2^24 are exact in float32 in any order, and so are their roundings. Wider ones are those of the weights'
upper and lower four bits, each in float32, where these stay below it, else of float64, which takes five times as long
as both. What is not a layer or a pool is carried out by the reference's kernels.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from tinyhil.formats.fixed import Fixed
from tinyhil.language.program import Op, Program
from tinyhil.ops import KERNEL_OF
from tinyhil.ops.linear import DENSE
from tinyhil.ops.pool import MAX_POOL
from tinyhil.ops.window import Window, window_of
from tinyhil.references.reference import ReferenceRun
from tinyhil.reram.mapping import matrix_of

torch.set_num_threads(1)
FLOAT32_BITS = 25  # of a two's complement sum whose magnitudes stay within 2^24
HALF = 16  # of weights of 8 bits: 16 high + low, both of magnitudes of 8 or less


@dataclass(frozen=True, slots=True)
class FastExecutor:
    """Counts no saturations."""

    def run(self, program: Program, inputs: np.ndarray, part: Hashable = None) -> ReferenceRun:
        values = {program.input: torch.from_numpy(inputs.astype(np.float32))}
        for op in program.body:
            assert isinstance(op, Op)
            values[op.output] = execute(program, op, values)
        outputs = values[program.output].numpy().astype(np.int64)
        return ReferenceRun(outputs, np.zeros(len(outputs), np.int64))

    def values(self, program: Program, inputs: np.ndarray) -> dict[str, np.ndarray]:
        raise NotImplementedError("the fast executor keeps no values")


def execute(program: Program, op: Op, values: dict[str, torch.Tensor]) -> torch.Tensor:
    if matrix_of(program, op) is not None:
        return _layer(program, op, values)
    if op.kernel == MAX_POOL.form:
        w = window_of(op.params)
        pooled = _largest(values[op.inputs[0]].view(-1, w.channels, w.height, w.width), w)
        return _rounded(pooled.flatten(1), op, program)
    arrays = []
    for name in op.inputs:
        constant = program.constants.get(name)
        arrays.append(values[name].numpy().astype(np.int64) if constant is None else constant[None])
    codes, _ = KERNEL_OF[op.kernel].execute(op, arrays, program.tensors[op.output].format)
    return torch.from_numpy(codes.astype(np.float32))


def _largest(planes: torch.Tensor, w: Window) -> torch.Tensor:
    """The pool of most networks takes a quarter of the time as two maxima."""
    if (w.kernel_y, w.kernel_x, w.stride_y, w.stride_x, w.pad_y, w.pad_x, *_behind(w)) == (2, 2, 2, 2, 0, 0, 0, 0):
        rows = torch.maximum(planes[:, :, ::2], planes[:, :, 1::2])
        return torch.maximum(rows[..., ::2], rows[..., 1::2])
    padded = _padded(planes, w, -torch.inf)
    return functional.max_pool2d(padded, (w.kernel_y, w.kernel_x), (w.stride_y, w.stride_x))


def _padded(planes: torch.Tensor, w: Window, value: float) -> torch.Tensor:
    below, right = _behind(w)
    return functional.pad(planes, (w.pad_x, right, w.pad_y, below), value=value)


def _behind(w: Window) -> tuple[int, int]:
    """How much is padded below and on the right."""
    below = (w.out_height - 1) * w.stride_y + w.dilation_y * (w.kernel_y - 1) + 1 - w.height - w.pad_y
    right = (w.out_width - 1) * w.stride_x + w.dilation_x * (w.kernel_x - 1) + 1 - w.width - w.pad_x
    return below, right


def _layer(program: Program, op: Op, values: dict[str, torch.Tensor]) -> torch.Tensor:
    p = op.params
    weights = torch.from_numpy(program.constants[op.inputs[0]]).view(p["outputs"], -1)
    x, more = values[op.inputs[1]], list(op.inputs[2:])
    addend = values[more.pop()] if "add_shift" in p else None
    if op.accumulator_bits <= FLOAT32_BITS:
        sums = _products(op, x, weights.to(torch.float32))
    elif _halves_are_narrow(program, op, weights):
        low = (weights + HALF // 2) % HALF - HALF // 2
        parts = (_products(op, x, part.to(torch.float32)).double() for part in ((weights - low) // HALF, low))
        sums = next(parts).mul_(HALF).add_(next(parts))
    else:
        sums = _products(op, x.double(), weights.double())
    if more:
        bias = torch.from_numpy(program.constants[more[0]]).to(sums.dtype) * 2.0 ** p["bias_shift"]
        sums += bias if op.kernel.base == DENSE.form.base else bias.view(-1, 1, 1)
    sums = sums.flatten(1)
    if addend is not None:
        sums += addend.to(sums.dtype) * 2.0 ** p["add_shift"]
    return _rounded(sums, op, program)


def _halves_are_narrow(program: Program, op: Op, weights: torch.Tensor) -> bool:
    """Whether sums of either half stay within 2^24."""
    x = program.tensors[op.inputs[1]].format
    assert isinstance(x, Fixed)
    within = bool((weights >= -HALF * HALF // 2).all() and (weights < HALF * HALF // 2).all())
    return within and weights.shape[1] * max(-x.lowest, x.highest) * HALF // 2 <= 1 << FLOAT32_BITS - 1


def _products(op: Op, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    p = op.params
    if op.kernel.base == DENSE.form.base:
        return functional.linear(x.view(-1, p["rows"], p["inner"]), weights)
    w = window_of(p)
    planes, pads = x.view(-1, w.channels, w.height, w.width), (w.pad_y, w.pad_x)
    if pads != _behind(w):
        planes, pads = _padded(planes, w, 0.0), (0, 0)
    factors = weights.view(p["outputs"], -1, w.kernel_y, w.kernel_x)
    strides, dilations = (w.stride_y, w.stride_x), (w.dilation_y, w.dilation_x)
    return functional.conv2d(planes, factors, None, strides, pads, dilations, p["groups"])


def _rounded(sums: torch.Tensor, op: Op, program: Program) -> torch.Tensor:
    """To nearest, ties up; limited as activation and format say. The sums are written over."""
    out, p = program.tensors[op.output].format, op.params
    assert isinstance(out, Fixed)
    low = max(out.lowest, p.get("low", out.lowest)) if "low" in p else out.lowest
    if p.get("shift", 0):
        sums.mul_(2.0 ** -p["shift"]).add_(0.5).floor_()
    return sums.clamp_(low, min(out.highest, p.get("high", out.highest))).to(torch.float32)
