"""Layers of fixed point whose weights have a scale of their own for each output channel.

Each channel's sum has its own unit, so each is shifted by its own amount; the bias is rounded to that unit.
"""

from __future__ import annotations

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.fixed import Fixed, PerChannel, exponent_for, fit
from tinyhil.formats.format import INTEGER, Format
from tinyhil.graph import Node
from tinyhil.lowering import Lowering, domain_of
from tinyhil.ops import window
from tinyhil.ops.operator import Arrays, Kernel, accumulator_bits
from tinyhil.program import Op, Tensor

WORD_LIMIT = (1 << 31) - 1


def takes(weights: Format, x: Format) -> bool:
    return isinstance(weights, PerChannel) and domain_of([x]) == INTEGER


def emit_layer(
    node: Node,
    lowering: Lowering,
    kernel: Kernel,
    operands: tuple[str, np.ndarray, np.ndarray | None, str],
    params: dict[str, int],
    scratch: Tensor | None,
) -> None:
    """`operands`: name and rows of the weights (outputs in front), bias or None, the run-time value."""
    name, array, bias, x = operands
    bits = lowering.format(name).bits
    rows = array.reshape(len(array), -1).astype(np.float64)
    exponents = np.array([exponent_for(float(np.abs(row).max(initial=0.0)), bits) for row in rows])
    source, out = lowering.loaded(x), lowering.define(node.outputs[0])
    codes = np.stack([fit(float(np.abs(row).max(initial=0.0)), bits).encode(np.ldexp(row, -e))[0]
                      for row, e in zip(rows, exponents, strict=True)])  # fmt: skip
    units = exponents + source.exponent
    start = np.zeros(len(rows)) if bias is None else bias.astype(np.float64)
    words = np.clip(np.floor(np.ldexp(start, -units) + 0.5), -WORD_LIMIT, WORD_LIMIT).astype(np.int64)
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
    lowering.emit(node, Op(kernel.name, node.name, names, out.name, params, max(widths), patch))


def _finished(sums: np.ndarray, shifts: np.ndarray, out: Format) -> tuple[np.ndarray, np.ndarray]:
    """(samples, outputs, pixels) sums to codes."""
    pairs = [requantize(sums[:, n], int(shift), out) for n, shift in enumerate(shifts)]
    return np.stack([codes for codes, _ in pairs], axis=1), np.stack([clipped for _, clipped in pairs], axis=1)


def _execute_dense(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[1].reshape(-1, p["rows"], p["inner"])
    sums = x @ arrays[0].reshape(p["outputs"], p["inner"]).T + arrays[2].reshape(-1)
    codes, clipped = _finished(sums.transpose(0, 2, 1), arrays[3].reshape(-1), out)
    return codes.transpose(0, 2, 1).reshape(len(x), -1), clipped.transpose(0, 2, 1).reshape(len(x), -1)


def _execute_conv(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, w = op.params, window.window_of(op.params)
    planes = arrays[1].reshape(-1, w.channels, w.height, w.width)
    inner = arrays[0].size // p["outputs"]
    factors = arrays[0].reshape(p["groups"], -1, inner)
    sums = np.empty((len(planes), p["outputs"], w.pixels), np.int64)
    for part in window.batches(len(planes), w.channels * w.positions * w.pixels):
        patches = w.patches(planes[part], 0).reshape(-1, p["groups"], inner, w.pixels)
        sums[part] = np.matmul(factors, patches).reshape(-1, p["outputs"], w.pixels)
    codes, clipped = _finished(sums + arrays[2].reshape(1, -1, 1), arrays[3].reshape(-1), out)
    return codes.reshape(len(planes), -1), clipped.reshape(len(planes), -1)


_CODES = (0, 2, 3)
DENSE = Kernel(
    "dense_channels",
    "constant rows times run-time rows, a shift per output",
    _execute_dense,
    ("rows", "outputs", "inner"),
    is_sum=True,
    codes=_CODES,
)
CONV = Kernel(
    "conv_channels",
    "windows times constant weights, a shift per channel",
    _execute_conv,
    ("groups", "outputs"),
    is_sum=True,
    struct=("Window", window.FIELDS),
    codes=_CODES,
)
KERNELS = (DENSE, CONV)
