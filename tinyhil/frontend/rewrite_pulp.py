"""Integers as the PULP platform's tools write them (QuantLib, Deeploy): RequantShift between layers of integers."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrite_quantized import known_kind
from tinyhil.language.graph import Node, Shape, element_count

PULP = "PACTOps"
MOST_BITS = 22  # of a divisor: what is beyond a result of 8 bits stays below 2**31
LOW, LEVELS = -128, 256  # of a byte
PRODUCT = "WholeProduct"
LIFT = 1 << 30  # of a sum whose quotient is rounded downwards: above 0 it is cut
MOST_SUM = 1 << 31  # of a sum times its factor, as PULP's kernels hold it


def _number(site: Site, name: str) -> int:
    """An attribute that is one whole number, in a tensor or not."""
    given = site.attr(name, None)
    if isinstance(given, onnx.TensorProto):
        given = numpy_helper.to_array(given)
    array = np.asarray(0.5 if given is None else given, np.float64).reshape(-1)
    if array.size != 1 or array[0] != np.rint(array[0]):
        raise site.refuse(f"'{name}' is no whole number", "the file is damaged")
    return int(array[0])


def _channels(site: Site, numbers: np.ndarray) -> tuple[np.ndarray, int]:
    """Factors or addends (channels,) and how many elements in turn each is for: along the channels of planes where they
    do not lie along the last axes. ModelError where they lie along several."""
    shape = site.shape(site.input(0))
    tail = zip(numbers.shape[::-1], shape[::-1], strict=False)
    lies = numbers.ndim <= len(shape) and all(own in (1, side) for own, side in tail)
    placed = numbers if lies else numbers.reshape(-1, *[1] * (len(shape) - 2))
    wide = [axis for axis, own in enumerate(placed.shape) if own > 1]
    if len(wide) > 1:
        raise site.refuse(f"factors {list(numbers.shape)} for {list(shape)}", "one for each channel is supported")
    return placed.reshape(-1), element_count(shape[len(shape) - placed.ndim + wide[0] + 1 :]) if wide else 1


def _requant_shift(site: Site) -> Results:
    """(x * mul + add) / div to the nearest whole number within the levels; products with bytes are one layer."""
    mul, add = (np.rint(site.static(index, what)) for index, what in ((1, "multiplier"), (2, "addend")))
    named = next(name for name in ("n_levels", "n_levels_out") if name in site.call.attrs or name == "n_levels_out")
    divisor, levels, is_signed = (_number(site, name) for name in ("div", named, "signed"))
    shift = divisor.bit_length() - 1
    if divisor < 1 or divisor != 1 << shift or shift > MOST_BITS or not 2 <= levels <= 256:
        raise site.refuse(
            f"a divisor of {divisor}, {levels} levels", "powers of two up to 2^22, 256 levels are supported"
        )
    low = -(levels // 2) if is_signed else 0
    ends = {"shift": shift, "low": low, "high": low + levels - 1}
    (factor, inner), (addend, added) = _channels(site, mul), _channels(site, add)
    if (addend == 0).all():
        if (factor == divisor).all() and low == LOW and levels == LEVELS and _is_byte(site, site.input(0)):
            return site.last("Identity", site.input(0))
        layer = _layer(site, factor, inner, ends) if low == LOW and levels == LEVELS else None
        if layer is not None:
            return layer
    if min(factor.size, addend.size) > 1 and (factor.size, inner) != (addend.size, added):
        raise site.refuse("factors and addends along different axes", "the file is damaged")
    count = max(factor.size, addend.size)
    names = [
        site.constant(what, np.broadcast_to(numbers, (count,)), np.int64)
        for what, numbers in (("factor", factor), ("addend", addend))
    ]
    kind = "int8" if low >= LOW and ends["high"] < LOW + LEVELS else "int16"
    return site.last("WholeRequant", site.input(0), *names, whole=kind, inner=max(inner, added), **ends)


def _is_byte(site: Site, name: str) -> bool:
    return known_kind(site.builder, name) == "int8"


def _is_whole(site: Site, name: str) -> bool:
    """Whether `name` is of a kind of whole numbers, as its maker or the model's input states, or constants are."""
    value = site.value(name)
    return bool(known_kind(site.builder, name)) if value is None else bool((value == np.rint(value)).all())


def _product(site: Site, name: str) -> tuple[Node, np.ndarray | None] | None:
    """The product behind `name`, and the bias that a sum gives to it; None if it is something else."""
    node, bias = site.builder.producer(name), None
    if node is not None and node.attrs.get("function") == "add":
        values = [site.value(one) for one in node.inputs]
        at = next((index for index, value in enumerate(values) if value is not None), None)
        if at is not None:
            bias, node = values[at], site.builder.producer(node.inputs[1 - at])
    return (node, bias) if node is not None and node.op == PRODUCT else None


def _layer(site: Site, factor: np.ndarray, inner: int, ends: dict[str, int]) -> Results:
    """A product with constant bytes and its requantization as one layer; None if it is something else."""
    found = _product(site, site.input(0))
    weights = site.value(found[0].inputs[1]) if found else None
    if found is None or weights is None or weights.ndim != 2 or not _is_byte(site, found[0].inputs[0]):
        return None
    node, bias = found
    outputs = weights.shape[1]
    start = np.zeros(1) if bias is None else bias.reshape(-1)
    most = np.abs(weights.astype(np.int64)).sum(axis=0).max() * -LOW + np.abs(start).max()
    whole = bool((weights == np.rint(weights)).all() and (start == np.rint(start)).all())
    fits = start.size in (1, outputs) and factor.size in (1, outputs) and inner == 1 and factor.min() > 0
    if not (whole and fits and np.abs(weights).max() <= -LOW and most * factor.max() < MOST_SUM):
        return None
    names = (
        site.constant("weights", weights, np.int64),
        site.constant("bias", np.broadcast_to(start, (outputs,)), np.int64),
        site.constant("factor", np.broadcast_to(factor, (outputs,)), np.int64),
    )
    return site.last("WholeDense", node.inputs[0], *names, whole="int8", **ends)


def _pair_of(op: str) -> Rewrite:
    """`op` of two whole numbers; of others as in ONNX."""

    def apply(site: Site) -> Results:
        a, b = site.input(0), site.input(1)
        if not (_is_whole(site, a) and _is_whole(site, b)):
            return site.last(op, a, b)
        out = np.broadcast_shapes(site.shape(a), site.shape(b))
        wide = [_lying(site, one, tuple(out)) for one in (a, b)]
        return site.last("WholePair", *wide, whole="int32", function=op.lower())

    return Rewrite(f"i{op}", f"{op} beside its operators, of whole numbers", apply, (), PULP)


def _lying(site: Site, name: str, out: Shape) -> str:
    """The operand as it is, if it is one number or lies along the last axes of `out`, else expanded to it."""
    own = site.shape(name)
    while own and own[0] == 1:
        own = own[1:]
    return name if own == out[len(out) - len(own) :] else site.make("Expand", name, site.constant("out", out, np.int64))


def _matmul(site: Site) -> Results:
    a, b = site.input(0), site.input(1)
    if not (_is_whole(site, a) and _is_whole(site, b)) or min(len(site.shape(one)) for one in (a, b)) < 2:
        return site.last("MatMul", a, b)
    return site.last(PRODUCT, a, b, whole="int32")


def _conv(site: Site) -> Results:
    """What each tap of the kernel sees, behind each other, times the weights; of others as in ONNX."""
    x, weights, bias = site.input(0), site.value(site.input(1)), site.input(2)
    shape, padding = site.shape(x), site.attr("auto_pad", "NOTSET")
    known = [one for one in (x, site.input(1), bias) if one]
    if weights is None or not all(_is_whole(site, one) for one in known) or shape[0] != 1 or padding != "NOTSET":
        return site.last("Conv", *known, **site.call.attrs)
    outputs, inner, *kernel = weights.shape
    axes, groups = len(kernel), int(site.attr("group", 1))
    steps, apart = ([int(n) for n in site.attr(name, None) or [1] * axes] for name in ("strides", "dilations"))
    pads = [int(n) for n in site.attr("pads", None) or [0] * 2 * axes]
    if any(pads):
        x = site.make("Pad", x, site.constant("pads", [0, 0, *pads[:axes], 0, 0, *pads[axes:]], np.int64))
    sides = [
        (side - (taps - 1) * gap - 1) // step + 1
        for side, taps, gap, step in zip(site.shape(x)[2:], kernel, apart, steps, strict=True)
    ]
    count = element_count(tuple(sides))
    seen = []
    for tap in np.ndindex(*kernel):
        starts = [at * gap for at, gap in zip(tap, apart, strict=True)]
        ends = [start + (side - 1) * step + 1 for start, side, step in zip(starts, sides, steps, strict=True)]
        bounds = (starts, ends, [*range(2, 2 + axes)], steps)
        cut = site.make("Slice", x, *(site.constant(f"cut{n}", one, np.int64) for n, one in enumerate(bounds)))
        seen.append(site.make("Reshape", cut, site.constant("planes", [groups, inner, count], np.int64)))
    columns = site.make("Concat", *seen, axis=1) if len(seen) > 1 else seen[0]
    by_tap = np.moveaxis(weights.reshape(groups, outputs // groups, inner, -1), 3, 2)  # taps before channels
    rows = site.constant("rows", by_tap.reshape(groups, outputs // groups, -1), np.int64)
    made = site.make(PRODUCT, rows, columns, whole="int32")
    if bias:
        wide = site.constant("bias", np.broadcast_to(site.static(2, "bias").reshape(-1, 1), (outputs, count)), np.int64)
        flat = site.make("Reshape", made, site.constant("flat", [outputs, count], np.int64))
        made = site.make("WholePair", flat, wide, whole="int32", function="add")
    return site.last("Reshape", made, site.constant("result", [1, outputs, *sides], np.int64))


def _gemm(site: Site) -> Results:
    """alpha a b + beta c, of whole numbers where factors are."""
    a, b, c = (site.input(index) for index in range(3))
    factors = [float(site.attr(name, 1.0)) for name in ("alpha", "beta")]
    plain = all(factor == int(factor) for factor in factors) and not int(site.attr("transA", 0))
    if not plain or not all(_is_whole(site, one) for one in (a, b, c) if one):
        return site.last("Gemm", *(one for one in (a, b, c) if one), **site.call.attrs)
    if int(site.attr("transB", 0)):
        b = site.make("Transpose", b, perm=[1, 0])
    made = _times(site, site.make(PRODUCT, a, b, whole="int32"), factors[0])
    if not c:
        return site.last("Identity", made)
    return site.last("WholePair", made, _times(site, c, factors[1]), whole="int32", function="add")


def _times(site: Site, value: str, factor: float) -> str:
    """Whole numbers times one."""
    known = site.value(value)
    if factor == 1.0:
        return value
    if known is not None:
        return site.constant("scaled", known * factor, np.int64)
    by = site.constant("factor", np.asarray(factor), np.int64)
    return site.make("WholePair", value, by, whole="int32", function="mul")


def _rms_norm(site: Site) -> Results:
    """x * weight / root of the mean square, in which 1 stands for what is nothing, divided by D."""
    divisor, levels = _number(site, "D"), _number(site, "n_levels")
    shift = divisor.bit_length() - 1
    if divisor < 1 or divisor != 1 << shift or not 2 <= levels <= LEVELS:
        raise site.refuse(f"a divisor of {divisor}, {levels} levels", "powers of two, 256 levels are supported")
    weight = site.constant("weight", np.rint(site.static(1, "weight")), np.int64)
    ends = {"shift": shift, "low": -(levels // 2), "high": levels - levels // 2 - 1}
    return site.last("WholeRmsNorm", site.input(0), weight, whole="int8", **ends)


def _softmax(site: Site) -> Results:
    """Exponentials as a parabola (x + b)^2 + c between halvings, and a row's shares of n_levels - 1."""
    a, b, c, log2, levels = (_number(site, name) for name in ("coeffA", "coeffB", "coeffC", "log2", "n_levels"))
    if a != 1 or log2 < 1 or not 2 <= levels <= LEVELS or not 0 <= b < 1 << 14 or not 0 <= c < 1 << 28:
        raise site.refuse(f"coefficients {a}, {b}, {c}, log2 {log2}", "the file is damaged")
    attrs = {"b": b, "c": c, "log2": log2, "most": levels - 1, "low": 0}
    return site.last("WholeSoftmax", site.input(0), whole="int16", **attrs)


def _ita_max(site: Site) -> Results:
    """Powers of two in place of exponentials, and a row's shares of n_levels - 1."""
    levels = _number(site, "n_levels")
    if not 2 <= levels <= LEVELS or site.axis(-1, len(site.shape(site.input(0)))) != len(site.shape(site.input(0))) - 1:
        raise site.refuse(f"{levels} levels", "256 levels along the last axis are supported")
    return site.last("WholeHalves", site.input(0), whole="int16", most=levels - 1, low=0)


def _layer_norm(site: Site) -> Results:
    """A row's distances from its mean, by their whole root of the mean square, times weights, plus a bias, over D."""
    divisor = _number(site, "D")
    shift = divisor.bit_length() - 1
    weight, bias = (np.rint(site.static(index, what)) for index, what in ((1, "weight"), (2, "bias")))
    if divisor < 1 or divisor != 1 << shift or max(np.abs(weight).max(), np.abs(bias).max()) >= MOST_SUM:
        raise site.refuse(f"a divisor of {divisor}", "powers of two, and 32 bits of weights are supported")
    names = [site.constant(what, array, np.int64) for what, array in (("weight", weight), ("bias", bias))]
    return site.last("WholeLayerNorm", site.input(0), *names, whole="int8", shift=shift)


def _gelu(site: Site) -> Results:
    """x (one + sign(x) (one - d^2)) / 2 rounded downwards, with d = min(|x|, -b) + b."""
    b, one, x = _number(site, "b"), _number(site, "one"), site.input(0)
    if not (0 < -b < 1 << 15 and b * b <= 2 * one < 1 << 16):
        raise site.refuse(f"coefficients {b} and {one}", "b below 0 and one of at least half its square are supported")

    def pair(function: str, left: str, right: str | int) -> str:
        name = right if isinstance(right, str) else site.constant(f"{function}{right}", np.asarray(right), np.int64)
        return site.make("WholePair", left, name, whole="int32", function=function)

    sign = pair("min", pair("max", x, -1), 1)
    d = pair("add", pair("min", pair("mul", sign, x), -b), b)
    level = pair("mul", sign, pair("add", pair("mul", pair("mul", d, d), -1), one))
    return (pair("mul", x, pair("div", pair("add", level, one), 2)),)


def _mean(site: Site) -> Results:
    """Along one axis, to the nearest."""
    x, given = site.input(0), site.attr("axes", None)
    axes = [int(axis) for axis in np.reshape(np.asarray(given if given is not None else []), -1)]
    shape = site.shape(x)
    if len(axes) != 1 or not -len(shape) <= axes[0] < len(shape):
        raise site.refuse(f"axes {axes} of {list(shape)}", "one axis is supported")
    axis = axes[0] % len(shape)
    order = [*(at for at in range(len(shape)) if at != axis), axis]
    rows = site.make("Transpose", x, perm=order) if order != sorted(order) else x
    made = site.make("WholeMean", rows, whole="int8" if _is_byte(site, x) else "int32")
    if not int(site.attr("keepdims", 1)):
        return (made,)
    sides = [1 if at == axis else side for at, side in enumerate(shape)]
    return site.last("Reshape", made, site.constant("kept", sides, np.int64))


def _division(site: Site) -> Results:
    """x * Delta * eta / (y * eta + eps) to the nearest, in 64 bits."""
    delta, eps, eta = (_number(site, name) for name in ("Delta", "eps", "eta"))
    if min(delta, eta) < 1 or not 0 <= eps < 1 << 30 or delta * eta >= 1 << 31:
        raise site.refuse(f"Delta {delta}, eta {eta}, eps {eps}", "the file is damaged")
    x, y = site.input(0), site.input(1)
    if site.shape(y) != site.shape(x):
        y = site.make("Expand", y, site.constant("shape", site.shape(x), np.int64))
    return site.last("WholeDivision", x, y, whole="int32", factor=delta * eta, more=eta, least=eps)


def _quotient(site: Site) -> Results:
    """x * Delta * eta / (y * eta + eps) with a constant y, in 64 bits."""
    delta, eps, eta, y = (_number(site, name) for name in ("Delta", "eps", "eta", "y"))
    if min(delta, eta, y * eta + eps) < 1 or delta * eta >= 1 << 40:
        raise site.refuse(f"Delta {delta}, eta {eta}, a divisor of {y * eta + eps}", "the file is damaged")
    return site.last("WholeQuotient", site.input(0), whole="int32", factor=delta, more=eta, divisor=y * eta + eps)


def _hard_swish(site: Site) -> Results:
    """x * min(max(x + three, 0), six) * one_over_six: all in integers of 32 bits."""
    x = site.input(0)
    value = x
    numbers = (("add", _number(site, "three")), ("max", 0), ("min", _number(site, "six")))
    for function, number in numbers:
        name = site.constant(function, np.asarray(number), np.int64)
        value = site.make("WholePair", value, name, whole="int32", function=function)
    value = site.make("WholePair", value, x, whole="int32", function="mul")
    sixth = site.constant("sixth", np.asarray(_number(site, "one_over_six")), np.int64)
    return site.last("WholePair", value, sixth, whole="int32", function="mul")


def _affine(site: Site) -> Results:
    """(x * weights + bias) * mul / D, rounded downwards, within the levels: iNoNorm."""
    x, weights, bias = site.input(0), *(np.rint(site.static(n, part)) for n, part in ((1, "weights"), (2, "bias")))
    factor, divisor, levels = (_number(site, name) for name in ("mul", "D", "n_levels"))
    most = (levels // 2 * np.abs(weights).max(initial=0) + np.abs(bias).max(initial=0)) * abs(factor)
    if divisor < 1 or LIFT % divisor or most >= LIFT or not 2 <= levels <= LEVELS:
        raise site.refuse(f"sums up to {most:.0f} over {divisor} of {levels} levels", f"the limit is {LIFT}")
    value = x
    steps = (("mul", weights), ("add", bias), ("mul", factor), ("add", LIFT), ("div", divisor))
    ends = (("sub", LIFT // divisor), ("max", -(levels // 2)), ("min", levels // 2 - 1))
    for at, (function, number) in enumerate((*steps, *ends)):
        name = site.constant(f"{function}{at}", np.asarray(number), np.int64)
        value = site.make("WholePair", value, name, whole="int32", function=function)
    return site.last("Identity", value)


REWRITES = (
    Rewrite(
        "iNoNorm",
        "(x * weights + bias) * mul / D of whole numbers",
        _affine,
        ("D", "mul", "n_levels"),
        PULP,
    ),
    *(_pair_of(op) for op in ("Add", "Sub", "Mul")),
    Rewrite(
        "iConv",
        "Conv beside its operators, of whole numbers",
        _conv,
        ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"),
        PULP,
    ),
    Rewrite("iMatMul", "MatMul beside its operators, of whole numbers", _matmul, (), PULP),
    Rewrite(
        "iGemm",
        "Gemm beside its operators, of whole numbers",
        _gemm,
        ("alpha", "beta", "transA", "transB"),
        PULP,
    ),
    Rewrite(
        "iRMSNorm",
        "whole numbers times weights by the whole root of their mean square",
        _rms_norm,
        ("D", "n_levels"),
        PULP,
    ),
    Rewrite(
        "iSoftmax",
        "exponentials by a parabola between halvings; along the last axis",
        _softmax,
        ("coeffA", "coeffB", "coeffC", "log2", "n_levels"),
        PULP,
    ),
    Rewrite(
        "ITAMax",
        "powers of two in place of exponentials; along the last axis",
        _ita_max,
        ("axis", "n_levels"),
        PULP,
    ),
    Rewrite(
        "iLayerNorm",
        "a row less its mean, by the whole root of its mean square, times weights, plus a bias",
        _layer_norm,
        ("D", "n_levels"),
        PULP,
    ),
    Rewrite("iGELU", "x times a parabola on both sides of 0", _gelu, ("b", "one"), PULP),
    Rewrite("IntegerMean", "along one axis, to the nearest", _mean, ("axes", "keepdims"), PULP),
    Rewrite("IntegerDiv", "by other whole numbers, in 64 bits", _division, ("Delta", "eps", "eta"), PULP),
    Rewrite(
        "TrueIntegerDiv",
        "by a constant, in 64 bits",
        _quotient,
        ("Delta", "eps", "eta", "y"),
        PULP,
    ),
    Rewrite(
        "iHardswish",
        "x * min(max(x + three, 0), six) * one_over_six of whole numbers",
        _hard_swish,
        ("one_over_six", "six", "three"),
        PULP,
    ),
    Rewrite(
        "RequantShift",
        "whole numbers times a factor, plus an addend, divided by a power of two, within levels",
        _requant_shift,
        ("div", "n_levels", "n_levels_out", "signed", "eps_in", "eps_out", "Delta", "quantization"),
        PULP,
    ),
)
