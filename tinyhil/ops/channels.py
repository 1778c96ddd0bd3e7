"""Layers of fixed point or minifloats whose weights have a scale of their own for each output channel.

Each channel's sum has its own unit, so each is shifted by its own amount. The bias is rounded to that unit (fixed
point) or given in it as float32 (minifloats).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.crossbars.array import matmul
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import AFFINE, CODED, INTEGER, Format
from tinyhil.formats.quire import Window, place
from tinyhil.formats.single import FLOAT32
from tinyhil.language.arithmetic import limited
from tinyhil.language.graph import Node
from tinyhil.language.kernel import QUIRE, Execute
from tinyhil.language.lowering_context import Lowering, loaded
from tinyhil.language.program import Op, Tensor
from tinyhil.ops import window
from tinyhil.ops.limits import forms, limited_form
from tinyhil.ops.operator import Arithmetic, Arrays, Form, Kernel, accumulator_bits, refuse

BIAS_BITS = 30  # of a bias, at most
BIAS_LIFT = 8  # bits a bias may have more than the largest product


def takes(weights: Format, x: Format) -> bool:
    """Whether there are kernels for weights with a scale per channel beside this input."""
    return weights.is_per_channel and x.domain in (INTEGER, weights.domain)


@dataclass(frozen=True, slots=True)
class Scaled:
    """Weights by rows: codes, each row in units of 2**(its exponent)."""

    codes: np.ndarray
    exponents: np.ndarray


def room_for(weights: Format, x: Format) -> int:
    """Bits a channel's bias may have, in units of its sum."""
    source, unit = loaded(x), weights.granule if weights.domain == INTEGER else 0
    largest = -source.lowest if source.is_integer else x.largest
    room = math.frexp(math.ldexp(weights.largest, -unit) * largest)[1] - 1 + BIAS_LIFT
    return min(room, BIAS_BITS) if weights.domain == INTEGER else room


def least_exponent(weights: Format, x: Format, bias: float, room: int) -> int | None:
    """The finest exponent of weights at which a bias takes `room` bits in units of the sum: finer ones are asked for
    where all weights vanish beside it. None for no bias."""
    unit = weights.granule if weights.domain == INTEGER else 0
    return None if bias == 0.0 else math.frexp(bias)[1] - room - loaded(x).exponent - unit


def scaled_rows(rows: np.ndarray, fmt: Format, bias: np.ndarray, x: Format) -> Scaled:
    """Each row as fine as its largest weight and its bias allow, one of zeros as its bias does; without a scale per
    channel as fine as all are."""
    codes, exponents, room = [], [], room_for(fmt, x)
    for row, start in zip(rows, bias, strict=True):
        exponent = fmt.fitted(float(np.abs(row).max(initial=0.0))).exponent if fmt.is_per_channel else fmt.exponent
        least = least_exponent(fmt, x, float(start), room)
        if least is not None:
            exponent = max(exponent, least) if row.any() or not fmt.is_per_channel else least
        codes.append(fmt.scaled(exponent).encode(np.ldexp(row, -exponent))[0])
        exponents.append(exponent)
    return Scaled(np.stack(codes), np.array(exponents))


def emit_layer(
    node: Node,
    lowering: Lowering,
    form: Form,
    operands: tuple[str, np.ndarray, np.ndarray | None, str],
    params: dict[str, int],
    scratch: Tensor | None,
) -> None:
    """`operands`: name and rows of the weights (outputs in front), bias or None, the run-time value.

    ModelError for minifloats with an asymmetric result: its scale is no shift, which is all that these kernels have.
    """
    name, array, bias, x = operands
    fmt, result = lowering.format(name), node.outputs[0]
    if lowering.format(result).domain == AFFINE:
        what = f"'{result}' is an asymmetric integer, its weights are {fmt} with a scale per channel"
        raise refuse(node, what, "give the result another format, or the weights fixed8pc")
    if fmt.domain == CODED:
        _emit_coded(node, lowering, form, operands, params, scratch)
        return
    bits = fmt.bits
    rows = array.reshape(len(array), -1).astype(np.float64)
    start = np.zeros(len(rows)) if bias is None else bias.astype(np.float64)
    made = scaled_rows(rows, fmt, start, lowering.format(x))
    codes, exponents = made.codes, made.exponents
    source, out = lowering.loaded(x), lowering.define(node.outputs[0])
    units = exponents + source.exponent
    words = np.floor(np.ldexp(start, -units) + 0.5).astype(np.int64)
    shifts = out.format.exponent - units
    widths = [
        accumulator_bits(int(np.abs(row).sum()) * -source.lowest + abs(int(word)), int(shift))
        for row, word, shift in zip(codes, words, shifts, strict=True)
    ]
    names = (
        lowering.add_codes(name, codes.reshape(-1), Fixed(bits, 0)),
        lowering.tensor(x),
        lowering.add_codes(f"{node.outputs[0]}.bias", words, Fixed(32, 0)),
        lowering.add_codes(f"{node.outputs[0]}.shifts", np.clip(shifts, -64, 127), Fixed(8, 0)),
    )
    patch = scratch.name if scratch is not None else ""
    form, ends = limited_form(replace(form, arithmetic=Arithmetic.CHANNELS), node, out.format)
    lowering.emit(node, Op(form, node.name, names, out.name, {**params, **ends}, max(widths), patch))


def _emit_coded(
    node: Node,
    lowering: Lowering,
    form: Form,
    operands: tuple[str, np.ndarray, np.ndarray | None, str],
    params: dict[str, int],
    scratch: Tensor | None,
) -> None:
    """Minifloats: sums in a window that is placed for all channels, each in its own unit."""
    name, array, bias, x = operands
    fmt = lowering.format(name).scaled(0)
    offset = np.zeros(len(array)) if bias is None else bias.astype(np.float64)
    made = scaled_rows(array.reshape(len(array), -1).astype(np.float64), fmt, offset, lowering.format(x))
    out, units = lowering.define(node.outputs[0]), made.exponents + lowering.loaded(x).exponent
    start = np.ldexp(offset, -units)
    window = place(
        np.abs(fmt.decode(made.codes)),
        lowering.format(x),
        lowering.observed(x),
        float(np.abs(start).max()),
        (fmt.granule, None),
    )
    names = (
        lowering.add_codes(name, made.codes.reshape(-1), fmt),
        lowering.tensor(x),
        lowering.add_codes(f"{node.outputs[0]}.bias", FLOAT32.encode(start)[0], FLOAT32),
        lowering.add_codes(f"{node.outputs[0]}.shifts", np.clip(out.format.exponent - units, -128, 127), Fixed(8, 0)),
    )
    patch = scratch.name if scratch is not None else ""
    form, ends = limited_form(replace(form, arithmetic=Arithmetic.CODED_CHANNELS), node, out.format)
    op = Op(form, node.name, names, out.name, {**params, **ends}, window.bits, patch)
    lowering.emit(node, replace(op, low=window.low, guard=window.guard))


def _finished(sums: np.ndarray, shifts: np.ndarray, op: Op, out: Format) -> tuple[np.ndarray, np.ndarray]:
    """(samples, outputs, pixels) sums to codes."""
    pairs = [limited(sums[:, n], int(shift), op, out) for n, shift in enumerate(shifts)]
    return np.stack([codes for codes, _ in pairs], axis=1), np.stack([clipped for _, clipped in pairs], axis=1)


def _execute_dense(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[1].reshape(-1, p["rows"], p["inner"])
    sums = matmul(op.crossbar, arrays[0].reshape(p["outputs"], p["inner"]), x.transpose(0, 2, 1))
    codes, clipped = _finished(sums + arrays[2].reshape(1, -1, 1), arrays[3].reshape(-1), op, out)
    return codes.transpose(0, 2, 1).reshape(len(x), -1), clipped.transpose(0, 2, 1).reshape(len(x), -1)


def _execute_conv(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, w = op.params, window.window_of(op.params)
    planes = arrays[1].reshape(-1, w.channels, w.height, w.width)
    inner = arrays[0].size // p["outputs"]
    factors = arrays[0].reshape(p["groups"], -1, inner)
    sums = np.empty((len(planes), p["outputs"], w.pixels), np.int64)
    for part in window.batches(len(planes), w.channels * w.positions * w.pixels):
        patches = w.patches(planes[part], 0).reshape(-1, p["groups"], inner, w.pixels)
        sums[part] = matmul(op.crossbar, factors, patches).reshape(-1, p["outputs"], w.pixels)
    codes, clipped = _finished(sums + arrays[2].reshape(1, -1, 1), arrays[3].reshape(-1), op, out)
    return codes.reshape(len(planes), -1), clipped.reshape(len(planes), -1)


def _coded(op: Op, factors: np.ndarray, x: np.ndarray, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    """factors (..., outputs, inner) times x (..., inner, pixels): (samples, outputs, pixels) codes."""
    window = Window(op.accumulator_bits, op.low, op.guard)
    units, clipped = window.matmul(factors, x)
    start, also_clipped = window.start(FLOAT32.decode(arrays[2].reshape(-1, 1)), 0)
    samples, outputs, pixels = len(units), arrays[2].size, units.shape[-1]
    units, clipped = (a.reshape(samples, outputs, pixels) for a in (units, clipped))
    total, counted = units + start, clipped + also_clipped
    pairs = [limited(window.value(total[:, n]), int(shift), op, out) for n, shift in enumerate(arrays[3].reshape(-1))]
    codes = np.stack([codes for codes, _ in pairs], axis=1)
    return codes, np.stack([saturated for _, saturated in pairs], axis=1) + counted


def _execute_dense_coded(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[1].reshape(-1, p["rows"], p["inner"])
    factors = arrays[0].reshape(1, p["outputs"], p["inner"])
    codes, clipped = _coded(op, factors, x.transpose(0, 2, 1), arrays, out)
    return codes.transpose(0, 2, 1).reshape(len(x), -1), clipped.transpose(0, 2, 1).reshape(len(x), -1)


def _execute_conv_coded(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, w = op.params, window.window_of(op.params)
    planes = arrays[1].reshape(-1, w.channels, w.height, w.width)
    inner = arrays[0].size // p["outputs"]
    factors = arrays[0].reshape(1, p["groups"], -1, inner)
    patches = w.patches(planes, 0).reshape(len(planes), p["groups"], inner, w.pixels)
    codes, clipped = _coded(op, factors, patches, arrays, out)
    return codes.reshape(len(planes), -1), clipped.reshape(len(planes), -1)


_CODES = (0, 2, 3)
DENSE = Kernel(
    Form("dense", Arithmetic.CHANNELS),
    "constant rows times run-time rows, a shift per output",
    _execute_dense,
    ("rows", "outputs", "inner"),
    is_sum=True,
    codes=_CODES,
)
CONV = Kernel(
    Form("conv", Arithmetic.CHANNELS),
    "windows times constant weights, a shift per channel",
    _execute_conv,
    ("groups", "outputs"),
    is_sum=True,
    struct=("Window", window.FIELDS),
    codes=_CODES,
)


def _of_minifloats(kernel: Kernel, execute: Execute) -> Kernel:
    """The same C++ template: what differs is what the operands are."""
    form = replace(kernel.form, arithmetic=Arithmetic.CODED_CHANNELS)
    return replace(kernel, form=form, execute=execute, codes=(2, 3), coded=QUIRE)


LAYERS = (DENSE, CONV, _of_minifloats(DENSE, _execute_dense_coded), _of_minifloats(CONV, _execute_conv_coded))
KERNELS = (*LAYERS, *forms(LAYERS))
