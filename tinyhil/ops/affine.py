"""Asymmetric integers in the arithmetic of TensorFlow Lite: layers, Add, Sub and Mul (tinyhil/formats/affine.py).

Layers fold the input's zero point into the bias, sum w * (x - z) + b = sum w * x + (b - z * sum w), and pad with z.
A Relu, a Clip or the range of a quantized model behind one of them is a clamp of its codes, which does not count as
saturation. Pooling, moves and other functions of codes are in affine_moves.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.formats.affine import (
    MULTIPLIER_BITS,
    SMALLEST_RANGE,
    Affine,
    as_affine,
    fit,
    multiplier,
    rescale,
    rescale_once,
    rescale_wide,
    weight_scales,
)
from tinyhil.formats.codec import requantize
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import AFFINE, INTEGER, Format
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op, Tensor
from tinyhil.ops import window
from tinyhil.ops.limits import NARROW, forms, limited_form
from tinyhil.ops.movement import MOVE, block, repeated
from tinyhil.ops.operator import Arithmetic, Arrays, Form, Kernel, Limit, Lower, refuse, signed_bits

WORD = Fixed(32, 0)
HALF = Fixed(16, 0)
BYTE = Fixed(8, 0)
ADD_LIFT = 20  # of operands before they are aligned (tensorflow/lite/kernels/add.cc)
SUM_BITS = {8: 32, 16: 63}
SHORT_BITS = 24  # sums that one register less holds on an AVR
END = (1 << 31) - 1
MOST_STEPS = 2.0**62  # of a bias: beyond, no int64 holds it
EXACT_SINGLE_BITS = 24  # float32 products and sums of integers below 2**24 are exact in any order


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights (outputs, inner) as integers, bias (outputs,) as floats, under the name of the weights."""

    name: str
    codes: np.ndarray
    bias: np.ndarray
    scales: np.ndarray  # of the weights, one per output


def layer(
    node: Node, name: str, weights: tuple[np.ndarray, np.ndarray | None], bias: np.ndarray | None, x_scale: float
) -> Layer:
    """`weights`: outputs in front, and the scale of each element if the model states them: then its integers are
    taken as they are, less their zero point 9 bits at most. ModelError for scales along a summed axis."""
    array, steps = weights
    rows = array.reshape(len(array), -1).astype(np.float64)
    offset = np.zeros(len(rows)) if bias is None else bias
    if steps is None:
        scales = weight_scales(rows, offset, x_scale)
        return Layer(name, np.clip(np.rint(rows / scales[:, None]), -127, 127).astype(np.int64), offset, scales)
    by_row = steps.reshape(len(array), -1).astype(np.float64)
    if (by_row != by_row[:, :1]).any():
        raise refuse(node, f"'{name}' has scales along an axis that is summed over", "quantize it per output channel")
    return Layer(name, np.rint(rows / by_row).astype(np.int64), offset, by_row[:, 0])


def is_affine(*formats: Format, bits: int | None = None) -> bool:
    """Whether all are asymmetric integers, of `bits` if given."""
    return all(fmt.domain == AFFINE and bits in (None, fmt.bits) for fmt in formats)


def grid(fmt: Format) -> tuple[float, int] | None:
    """Scale and zero point of a result that layers can round to: asymmetric integers and fixed point."""
    return fmt.grid if fmt.domain in (AFFINE, INTEGER) else None


def whole_steps(bias: np.ndarray, units: np.ndarray, name: str) -> np.ndarray:
    """A bias in whole `units`; ModelError if these are so small that no integer counts them."""
    steps = np.rint(bias / units)
    if not (np.abs(steps) < MOST_STEPS).all():
        raise ModelError(
            f"node '{name}': a bias of {np.abs(steps).max():.3g} steps of its weights and inputs, more than "
            f"{MOST_STEPS:.3g}: their scales are damaged; convert the model again"
        )
    return steps.astype(np.int64)


def emit_layer(
    node: Node, lowering: Lowering, form: Form, x: str, made: Layer, params: dict[str, int], scratch: Tensor | None
) -> None:
    """One call of the form's base (DENSE's or CONV's) on `x`, asymmetric or of fixed point; `params` lacks what the
    scales decide."""
    source, out = lowering.format(x), lowering.define(node.outputs[0])
    x_scale, x_zero = grid(source) or (1.0, 0)
    target = out
    if grid(out.format) is None:  # through the finest integers that hold what was seen
        largest = math.ldexp(max(lowering.observed(node.outputs[0]), SMALLEST_RANGE), out.format.exponent)
        target = lowering.scratch(f"{out.name}.int16", out.count, fit(largest, 16))
    scale, zero = grid(target.format) or (1.0, 0)
    unit = x_scale * made.scales
    factors = np.ones(len(unit)) if target.format.is_sign else unit / scale  # a sum's sign needs no scale
    codes = made.codes
    bias = whole_steps(made.bias, unit, node.name) - x_zero * codes.sum(axis=1)
    weights = lowering.add_codes(made.name, codes.reshape(-1), BYTE if np.abs(codes + 0.5).max() < 128 else HALF)
    constants, bits = constants_of(node, lowering, np.abs(codes).sum(axis=1), bias, factors, 8 * source.storage_bytes)
    names = (weights, lowering.tensor(x), *constants)
    form, ends = limited_form(replace(form, arithmetic=Arithmetic.AFFINE), node, target.format)
    params = {**params, "zero": zero, "pad": x_zero, **ends}
    patch = scratch.name if scratch is not None else ""
    if scratch is not None and source.domain == INTEGER:  # patches are of codes
        lowering.tensors[patch] = replace(scratch, format=BYTE if source.storage_bytes == 1 else HALF)
    lowering.emit(node, Op(form, node.name, names, target.name, params, bits, patch))
    if target is not out:
        whole = {**block(node, [out.count], [1], 0), "shift": out.format.exponent}
        lowering.emit(node, Op(MOVE.form, node.name, (target.name,), out.name, whole))


def constants_of(
    node: Node, lowering: Lowering, sizes: np.ndarray, bias: np.ndarray, factors: np.ndarray, x_bits: int = 8
) -> tuple[tuple[str, str, str], int]:
    """Names of the biases, multipliers and shifts of a layer's outputs, and the width of its sums. `sizes`: the sum of
    the magnitudes of each output's weights; `factors`: from its unit to the result's scale."""
    pairs = [multiplier(float(factor)) for factor in factors]
    bits = _sum_bits(node, x_bits, sizes, bias, pairs)
    of = node.outputs[0]
    names = (
        lowering.add_codes(f"{of}.bias", bias, WORD),
        lowering.add_codes(f"{of}.multipliers", np.array([m for m, _ in pairs]), WORD),
        lowering.add_codes(f"{of}.shifts", np.array([shift for _, shift in pairs]), BYTE),
    )
    return names, bits


def _sum_bits(node: Node, x_bits: int, sizes: np.ndarray, bias: np.ndarray, pairs: list[tuple[int, int]]) -> int:
    """Width of the sums; ModelError where a sum, a bias or a rescaled sum does not fit."""
    bounds = (sizes << x_bits - 1) + np.abs(bias)
    lefts = [max(shift, 0) for _, shift in pairs]
    left, bits = max(lefts), SUM_BITS[x_bits]
    widest = max(int(bound) << by for bound, by in zip(bounds, lefts, strict=True))
    if NARROW in node.attrs and signed_bits(widest) <= SUM_BITS[8]:  # a file's own width, by which it is rounded
        bits = SUM_BITS[8]
    elif bits == SUM_BITS[8]:
        needed = signed_bits(widest)
        bits = SHORT_BITS if needed <= SHORT_BITS else bits if needed <= bits else SUM_BITS[16]
    else:
        bits = max(SUM_BITS[8] + 1, signed_bits(int(np.ceil(bounds.max()))))  # rounded as wide sums are
    factors = [m * 2.0 ** (shift - MULTIPLIER_BITS) for m, shift in pairs]
    results = max(int(bound) * factor for bound, factor in zip(bounds, factors, strict=True))
    if np.abs(bias).max() > END or signed_bits(int(bounds.max())) > 47 or results >= END / 2 or left > 14:
        what = f"sums of up to {int(bounds.max())} units do not fit 48 bits, or their results 31"
        raise refuse(node, what, "use fixed16 for its input and weights")
    return bits


def _finished(
    sums: np.ndarray, arrays: Arrays, op: Op, out: Format, narrow: Callable[..., np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(samples, rows, outputs) sums to codes; `narrow` rescales 32-bit sums."""
    zero = op.params["zero"]
    scale = narrow if op.accumulator_bits <= SUM_BITS[8] else rescale_wide
    codes = scale(sums, arrays[3].reshape(-1), arrays[4].reshape(-1)) + zero
    return limited(codes, op, out)


def limited(codes: np.ndarray, op: Op, out: Format) -> tuple[np.ndarray, np.ndarray]:
    """Clamped if there is an activation inside, then saturated; of signs nothing is."""
    codes = codes.reshape(len(codes), -1)
    if out.is_sign:
        return requantize(codes, 0, out)
    half = 1 << (out.bits - 1)
    if "low" in op.params:
        codes = np.clip(codes, op.params["low"], op.params["high"])
    clipped = np.clip(codes, -half, half - 1)
    return clipped, clipped != codes


def _execute_dense(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[1].reshape(-1, p["rows"], p["inner"])
    sums = x @ arrays[0].reshape(p["outputs"], p["inner"]).T + arrays[2].reshape(-1)
    return _finished(sums, arrays, op, out, rescale_once)


def _execute_conv(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, w = op.params, window.window_of(op.params)
    planes = arrays[1].reshape(-1, w.channels, w.height, w.width)
    inner = arrays[0].size // p["outputs"]
    factors = arrays[0].reshape(p["groups"], -1, inner)
    largest = max(int(np.abs(planes).max(initial=0)), abs(p["pad"]))
    is_small = int(np.abs(factors).sum(axis=2).max()) * largest < 1 << EXACT_SINGLE_BITS
    number = np.float32 if is_small else np.float64  # exact in any order
    factors = factors.astype(number)
    sums = np.empty((len(planes), p["outputs"], w.pixels), np.int64)
    for part in window.batches(len(planes), w.channels * w.positions * w.pixels):
        patches = w.patches(planes[part].astype(number), p["pad"]).reshape(-1, p["groups"], inner, w.pixels)
        sums[part] = np.matmul(factors, patches).reshape(-1, p["outputs"], w.pixels)
    sums = (sums + arrays[2].reshape(1, -1, 1)).transpose(0, 2, 1)
    codes, clipped = _finished(sums, arrays, op, out, rescale)
    shape = (len(planes), w.pixels, p["outputs"])
    codes, clipped = (a.reshape(shape).transpose(0, 2, 1).reshape(len(planes), -1) for a in (codes, clipped))
    return codes, clipped


# ---- Add, Sub, Mul


def _operands(node: Node, lowering: Lowering) -> tuple[tuple[str, ...], list[int], Affine, Affine, Tensor]:
    names, periods = zip(*(repeated(node, lowering, value) for value in node.inputs), strict=True)
    out = lowering.define(node.outputs[0])
    a, b = (as_affine(lowering.format(value)) for value in node.inputs)
    return names, list(periods), a, b, out


def _shared(out: Tensor, periods: list[int], a: Affine, b: Affine) -> dict[str, int]:
    keys = ("count", "a_period", "b_period", "a_zero", "b_zero", "zero")
    return dict(zip(keys, (out.count, *periods, a.zero, b.zero, as_affine(out.format).zero), strict=True))


def lower_sum(sign: int) -> Lower:
    """What lowers Add (`sign` 1) and Sub (-1) of asymmetric integers of 8 bits."""

    def lower(node: Node, lowering: Lowering) -> None:
        names, periods, a, b, out = _operands(node, lowering)
        twice = 2 * max(a.scale, b.scale)
        factors = (a.scale / twice, b.scale / twice, twice / ((1 << ADD_LIFT) * as_affine(out.format).scale))
        form, ends = limited_form(SUM.form, node, out.format)
        params = {**_shared(out, periods, a, b), "sign": sign, **ends}
        for key, factor in zip("abo", factors, strict=True):
            params[f"{key}_multiplier"], params[f"{key}_shift"] = multiplier(factor)
        lowering.emit(node, Op(form, node.name, names, out.name, params))

    return lower


def _tiled(op: Op, arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.tile(array, (1, op.params["count"] // array.shape[1])) for array in arrays)
    return a - op.params["a_zero"], b - op.params["b_zero"]


def _execute_sum(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    return limited(units_of_sum(op.params, *_tiled(op, arrays)), op, out)


def units_of_sum(p: Mapping[str, int], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Results of a sum with the params `p` before they are limited; `a`, `b`: codes less their zero points."""
    left = rescale(a << ADD_LIFT, p["a_multiplier"], p["a_shift"])
    right = rescale(b << ADD_LIFT, p["b_multiplier"], p["b_shift"])
    return rescale(left + p["sign"] * right, p["o_multiplier"], p["o_shift"]) + p["zero"]


def lower_mul(node: Node, lowering: Lowering) -> None:
    """Mul of asymmetric integers of 8 bits."""
    names, periods, a, b, out = _operands(node, lowering)
    m, shift = multiplier(a.scale * b.scale / as_affine(out.format).scale)
    form, ends = limited_form(PRODUCT.form, node, out.format)
    params = {**_shared(out, periods, a, b), "multiplier": m, "by": shift, **ends}
    lowering.emit(node, Op(form, node.name, names, out.name, params))


def _execute_mul(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    return limited(units_of_product(op.params, *_tiled(op, arrays)), op, out)


def units_of_product(p: Mapping[str, int], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same of a product."""
    return rescale(a * b, p["multiplier"], p["by"]) + p["zero"]


_ALL = (0, 1, 2, 3, 4)
DENSE = Kernel(
    Form("dense", Arithmetic.AFFINE),
    "constant rows times codes, multiplier and shift per output",
    _execute_dense,
    ("rows", "outputs", "inner", "zero"),
    ("zero",),
    is_sum=True,
    codes=_ALL,
)
CONV = Kernel(
    Form("conv", Arithmetic.AFFINE),
    "windows times constant weights, multiplier and shift per channel",
    _execute_conv,
    ("groups", "outputs", "zero", "pad"),
    ("zero", "pad"),
    is_sum=True,
    struct=("Window", window.FIELDS),
    codes=_ALL,
)
_PAIR = ("count", "a_period", "b_period", "a_zero", "b_zero", "zero")
_SUM = tuple(f"{key}_{what}" for key in "abo" for what in ("multiplier", "shift"))
SUM = Kernel(
    Form("sum", Arithmetic.AFFINE),
    "a + b or a - b, each rescaled to a common scale",
    _execute_sum,
    (*_PAIR, "sign", *_SUM),
    (*_PAIR, "sign", *_SUM),
    in_place=True,
    codes=_ALL,
)
PRODUCT = Kernel(
    Form("mul", Arithmetic.AFFINE),
    "a * b, rescaled",
    _execute_mul,
    (*_PAIR, "multiplier", "by"),
    (*_PAIR, "multiplier", "by"),
    in_place=True,
    codes=_ALL,
)
KERNELS = (DENSE, CONV, SUM, PRODUCT, *forms((DENSE, CONV, SUM, PRODUCT), (Limit.CLIP,)))
