"""Dense layers with weights of few bits and a scale for each group of them along the summed axis.

    sum[n] = bias[n] * 2**bias_shift + sum_g scale[n][g] * (sum_k code[n][k] * x[k] + zero[n][g] * sum_k x[k])
    y[n] = sum[n] / 2**shift[n] + zero

rounded once; k runs over the group g, the last `zero` is the result's. Scales have 16 bits, those of an output as fine
as its largest one allows: they hold the model's scale, the input's and the result's. Sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyhil.formats.fixed import Fixed, shifted
from tinyhil.formats.format import AFFINE, INTEGER, Format
from tinyhil.language.arithmetic import limited
from tinyhil.language.form import Form, Weights
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Lowering, loaded
from tinyhil.language.program import Op
from tinyhil.ops import affine
from tinyhil.ops.limits import forms, limited_form
from tinyhil.ops.operator import Arrays, Kernel, accumulator_bits, refuse

WIDTHS = (2, 4, 8)  # of a stored code
SCALE_BITS = 16
LARGEST_SCALE = (1 << (SCALE_BITS - 1)) - 1
MOST_SHIFT, LEAST_SHIFT = 46, -16
WORD_BITS = 31  # of a group's sum, and of a bias
BYTE, HALF, WORD = (Fixed(bits, 0) for bits in (8, 16, 32))


@dataclass(frozen=True, slots=True)
class Grouped:
    """Weights (outputs, inner) as `integers` times the scale of their group: `scales` (outputs, groups), each of `size`
    elements, the last one of the rest."""

    integers: np.ndarray
    scales: np.ndarray
    size: int

    @property
    def groups(self) -> int:
        """Groups of a row."""
        return int(self.scales.shape[1])

    def by_group(self, least: bool) -> np.ndarray:
        """The smallest or largest integer of each group."""
        starts = np.arange(0, self.integers.shape[1], self.size)
        return np.asarray((np.minimum if least else np.maximum).reduceat(self.integers, starts, axis=1))

    @property
    def span(self) -> int:
        """The largest distance of two integers of a group."""
        return int((self.by_group(least=False) - self.by_group(least=True)).max())

    def halved(self) -> Grouped:
        """The same in groups of half the size."""
        size = -(-self.size // 2)
        starts = np.arange(0, self.integers.shape[1], size) // self.size
        return Grouped(self.integers, self.scales[:, starts], size)


def grouped(rows: np.ndarray, steps: np.ndarray) -> Grouped | None:
    """Weights (outputs, inner) whose integers have the scales `steps`; None if they are no multiples of these."""
    steps = np.broadcast_to(steps, rows.shape).astype(np.float64)
    integers = np.rint(rows.astype(np.float64) / steps)
    if not np.allclose(integers * steps, rows, rtol=1e-5, atol=0.0):
        return None
    changes = np.flatnonzero((steps[:, 1:] != steps[:, :-1]).any(axis=0)) + 1
    size = int(np.gcd.reduce(changes)) if changes.size else rows.shape[1]
    return Grouped(integers.astype(np.int64), steps[:, ::size], size)


def takes(made: Grouped | None, x: Format, out: Format) -> bool:
    """Whether there is a kernel for these weights beside this input and result."""
    domains = {x.domain, out.domain}
    fits = domains <= {INTEGER, AFFINE} and not (x.is_sign or out.is_sign) and (x.is_binary_point or x.domain == AFFINE)
    return made is not None and fits and out.grid is not None and made.span < 1 << WIDTHS[-1]


def emit_layer(
    node: Node,
    lowering: Lowering,
    operands: tuple[str, Grouped, str, np.ndarray | None],
    params: dict[str, int],
) -> None:
    """One call. `operands`: the name of the weights, these, the run-time value, the bias (outputs,) or None.

    ModelError where sums do not fit.
    """
    name, made, x, bias = operands
    source, out = lowering.format(x), lowering.define(node.outputs[0])
    (x_unit, x_zero), (unit, zero) = _grid(source), _grid(out.format)
    most = -lowering.format(x).lowest if source.domain == AFFINE else -loaded(source).lowest
    made = _in_words(node, made, most)
    width = next(bits for bits in WIDTHS if made.span < 1 << bits)
    zeros = _zeros(made, width)
    scales, shifts = _whole_scales(node, made.scales * (x_unit / unit))
    sums = np.add.reduceat(made.integers, np.arange(0, made.integers.shape[1], made.size), axis=1)
    start = np.zeros(len(scales)) if bias is None else np.ldexp(bias.astype(np.float64) / unit, shifts)
    start -= x_zero * (scales * sums).sum(axis=1)
    bias_shift = max(int(np.abs(start).max(initial=0.0)).bit_length() - WORD_BITS + 1, 0)
    words = np.floor(np.ldexp(start, -bias_shift) + 0.5).astype(np.int64)
    bound = _bound(made, scales, most) + (np.abs(words) << bias_shift) + (1 << (LARGEST_SCALE.bit_length() + 1))
    bits = max(accumulator_bits(int(row), int(shift)) for row, shift in zip(bound, shifts, strict=True))
    of = node.outputs[0]
    codes = made.integers - np.repeat(zeros, made.size, axis=1)[:, : made.integers.shape[1]]
    names = (
        lowering.add_codes(name, codes.reshape(-1), Fixed(width, 0)),
        lowering.tensor(x),
        lowering.add_codes(f"{of}.scales", scales.reshape(-1), HALF),
        lowering.add_codes(f"{of}.zeros", zeros.reshape(-1), BYTE if np.abs(zeros).max() < 128 else HALF),
        lowering.add_codes(f"{of}.bias", words, WORD),
        lowering.add_codes(f"{of}.shifts", shifts, BYTE),
    )
    form, ends = limited_form(DENSE.form, node, out.format)
    params = {**params, "size": made.size, "bias_shift": bias_shift, "zero": zero, **ends}
    lowering.emit(node, Op(form, node.name, names, out.name, params, bits))


def _grid(fmt: Format) -> tuple[float, int]:
    assert fmt.grid is not None  # takes()
    return fmt.grid


def _in_words(node: Node, made: Grouped, most: int) -> Grouped:
    """Groups so small that words hold the sum of each, of inputs up to `most`."""
    while True:
        rows = np.abs(made.integers) + (1 << WIDTHS[-1])  # codes and zeros apart
        sizes = np.add.reduceat(rows, np.arange(0, rows.shape[1], made.size), axis=1)
        if int(sizes.max()) * most < 1 << WORD_BITS:
            return made
        if made.size == 1:
            raise refuse(node, f"products of up to {int(sizes.max()) * most}", "use fewer bits for its input")
        made = made.halved()


def _zeros(made: Grouped, width: int) -> np.ndarray:
    """What integers of each group are more than their codes; 0 where `width` bits hold them as they are."""
    least, most, half = made.by_group(least=True), made.by_group(least=False), 1 << (width - 1)
    return np.where((least >= -half) & (most < half), 0, least + half)


def _whole_scales(node: Node, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors (outputs, groups) as integers of 16 bits in units of 2**-shift, and the shift of each output."""
    largest = np.abs(factors).max(axis=1)
    powers = np.where(largest > 0, np.frexp(np.where(largest > 0, largest, 1.0))[1], 0)
    shifts = np.minimum(SCALE_BITS - 1 - powers, MOST_SHIFT)
    if shifts.min(initial=0) < LEAST_SHIFT:
        raise refuse(node, f"products of {largest.max():.3g} units of its result", "give the result more bits or range")
    return np.clip(np.rint(np.ldexp(factors, shifts[:, None])), -LARGEST_SCALE, LARGEST_SCALE).astype(np.int64), shifts


def _bound(made: Grouped, scales: np.ndarray, most: int) -> np.ndarray:
    """What no sum of an output exceeds."""
    sizes = np.add.reduceat(np.abs(made.integers), np.arange(0, made.integers.shape[1], made.size), axis=1)
    return np.asarray((np.abs(scales) * sizes).sum(axis=1) * most)


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, size = op.params, op.params["size"]
    codes = arrays[0].reshape(p["outputs"], p["inner"])
    scales, zeros = (array.reshape(p["outputs"], -1) for array in arrays[2:4])
    x = arrays[1].reshape(-1, p["rows"], p["inner"])
    total = np.broadcast_to(arrays[4].reshape(-1) << p["bias_shift"], (*x.shape[:2], p["outputs"])).copy()
    for group, first in enumerate(range(0, p["inner"], size)):
        part = x[..., first : first + size]
        sums = part @ codes[:, first : first + size].T + part.sum(axis=-1, keepdims=True) * zeros[:, group]
        total += sums * scales[:, group]
    whole = np.stack([shifted(total[..., n], int(by)) for n, by in enumerate(arrays[5].reshape(-1))], axis=-1)
    results = (whole + p["zero"]).reshape(len(x), -1)
    return affine.limited(results, op, out) if out.domain == AFFINE else limited(results, 0, op, out)


DENSE = Kernel(
    Form("dense", weights=Weights.GROUPS),
    "constant rows of few bits times run-time rows, a scale for each group of weights, exact sum, one rounding",
    _execute,
    ("rows", "outputs", "inner", "size", "bias_shift", "zero"),
    codes=(0, 1, 2, 3, 4, 5),
    rounds=(),
)
KERNELS = (DENSE, *forms((DENSE,)))
