"""Rewrites of arithmetic: powers, several operands, casts, choices, normalisations, products of matrices."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import onnx

from tinyhil.formats.e8m0 import E8M0, ROUNDINGS
from tinyhil.frontend.rewrite import MICROSOFT, Results, Rewrite, Site
from tinyhil.frontend.whole_types import CAST_FLOATS, INTEGERS, NARROW
from tinyhil.language.graph import Shape, element_count
from tinyhil.ops.integral import CLOSED, WHOLE
from tinyhil.ops.small_floats import FLOAT_CAST, SmallFloat, attributes_of, nearest_float

MOST_MULTIPLICATIONS = 16
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16)

# ---- powers and quotients


def _pow(site: Site) -> Results:
    base, exponent = site.call.inputs
    power, number = site.value(exponent), site.value(base)
    if power is not None and number is not None:
        with np.errstate(all="ignore"):
            return (site.constant("power", np.power(number.astype(np.float64), power)),)
    if power is not None and np.unique(power).size == 1:
        values = np.unique(power)
        if power.ndim > len(site.shape(base)) or power.size > element_count(site.shape(base)):
            raise site.refuse(f"exponents {list(power.shape)} for {list(site.shape(base))}", "use one exponent")
        return _constant_power(site, base, float(values[0]))
    if number is not None and number.size == 1 and float(number.reshape(-1)[0]) > 0:
        return site.last("Exp", exponent, factor=math.log(float(number.reshape(-1)[0])))
    return _run_time_power(site, base, exponent)


def _run_time_power(site: Site, base: str, exponent: str) -> Results:
    """exp(exponent log |base|); of a base below 0, which takes whole exponents alone, odd ones give what is below 0.
    Whole numbers of both are rounded."""
    size = site.make("Abs", base) if site.value(base) is None else site.constant("size", np.abs(site.static(0, "base")))
    grown = site.make("Exp", site.make("Mul", exponent, site.make("Log", size)))
    none = site.make("Equal", exponent, site.constant("nothing", 0))
    made = site.make("Where", none, site.constant("one", 1), grown)
    halves = site.make("Mul", exponent, site.constant("half", 0.5))
    is_odd = site.make("Not", site.make("Equal", site.make("Floor", halves), halves))
    is_below = site.make("And", is_odd, site.make("Less", base, site.constant("zero", 0)))
    made = site.make("Where", is_below, site.make("Neg", made), made)
    return site.last("Round" if is_whole(site, base) else "Identity", made)


def _constant_power(site: Site, base: str, power: float) -> Results:
    simple = {1.0: "Identity", 0.5: "Sqrt", -1.0: "Reciprocal"}
    if power in simple:
        return site.last(simple[power], base)
    if power == -0.5:
        return site.last("Reciprocal", site.make("Sqrt", base))
    if power == int(power) and 2 <= power <= MOST_MULTIPLICATIONS:
        return _whole_power(site, base, int(power))
    if power == 0:
        return site.last("Add", site.make("Mul", base, site.constant("zero", 0)), site.constant("one", 1))
    return site.last("Exp", site.make("Log", base), factor=power)


def _whole_power(site: Site, base: str, power: int) -> tuple[str]:
    """By squaring."""
    if power == 2:
        return site.last("Mul", base, base)
    product, square = "", base
    while power:
        if power % 2:
            product = site.make("Mul", product, square) if product else square
        power //= 2
        square = site.make("Mul", square, square) if power else square
    return site.last("Identity", product)


def _div(site: Site) -> Results:
    """By a constant: times its reciprocal, which needs no division on the board."""
    divisor = site.value(site.input(1))
    if all(site.value(name) is not None for name in site.call.inputs):
        return None
    if all(is_whole(site, name) for name in site.call.inputs):
        return site.last("FloorDiv", *site.call.inputs, fmod=1)
    if divisor is None:
        return None
    if not divisor.all():
        raise site.refuse("division by a constant 0", "check the exported model")
    return site.last("Mul", site.input(0), site.constant("reciprocal", 1 / divisor.astype(np.float64)))


def is_whole(site: Site, name: str) -> bool:
    """Whether `name` is of an integer type, as far as its operators tell; a Cast to float is an Identity."""
    value = site.value(name)
    if value is not None:
        return value.dtype.kind in "iu"
    if name in site.builder.whole:
        return True
    node = site.builder.producer(name)
    if node is None or node.op in ("Identity", "Dropout"):
        return False
    computed = [operand for operand in node.inputs if site.value(operand) is None]
    return node.op in WHOLE or (node.op in CLOSED and all(is_whole(site, operand) for operand in computed))


def _mean(site: Site) -> Results:
    total = reduce(lambda a, b: site.make("Add", a, b), site.call.inputs)
    return site.last("Mul", total, site.constant("share", 1 / len(site.call.inputs)))


def _of_several(op: str) -> Rewrite:
    def apply(site: Site) -> Results:
        inputs = site.call.inputs
        if site.call.op == op and len(inputs) == 2:
            return None
        if len(inputs) == 1:
            return site.last("Identity", inputs[0])
        return site.last(op, reduce(lambda a, b: site.make(op, a, b), inputs[:-1]), inputs[-1])

    name = {"Add": "Sum"}.get(op, op)
    return Rewrite(name, "of any number of operands; broadcast", apply)


def _xor(site: Site) -> Results:
    return site.last("Not", site.make("Equal", site.make("Not", site.input(0)), site.make("Not", site.input(1))))


def _celu(site: Site) -> Results:
    """alpha elu(x / alpha)."""
    alpha = float(site.attr("alpha", 1.0))
    if alpha == 0:
        raise site.refuse("alpha 0", "use Relu")
    bent = site.make("Elu", site.make("Mul", site.input(0), site.constant("share", 1 / alpha)))
    return site.last("Mul", bent, site.constant("alpha", alpha))


def _selu(site: Site) -> Results:
    """gamma elu(x) with alpha of its own."""
    alpha, gamma = (
        float(site.attr("alpha", 1.67326319217681884765625)),
        float(site.attr("gamma", 1.05070102214813232421875)),
    )
    return site.last("Mul", site.make("Elu", site.input(0), alpha=alpha), site.constant("gamma", gamma))


# ---- kinds of numbers, shapes


def _cast(site: Site) -> Results:
    to, source = int(site.attr("to", 0)), site.input(0)
    value = site.value(source)
    if to in FLOATS:
        return _typed(site, value.astype(np.float32)) if value is not None else site.last("Identity", source)
    if to == onnx.TensorProto.BOOL:
        if value is not None:
            return _typed(site, value.astype(bool))
        return site.last("Not", site.make("Not", source))
    if to in NARROW and NARROW[to][1] < 256:  # of wider types nothing is known to leave them
        return _narrowed(site, *NARROW[to])
    if to in INTEGERS:
        return _typed(site, np.trunc(value).astype(np.int64)) if value is not None else site.last("Truncate", source)
    if to in CAST_FLOATS:
        shape, saturate = _small_float(site, to), bool(site.attr("saturate", 1))
        if value is not None:
            return _typed(site, nearest_float(value.astype(np.float32), shape, saturate))
        return site.last(FLOAT_CAST, source, **attributes_of(shape, saturate))
    known = onnx.TensorProto.DataType.DESCRIPTOR.values_by_number.get(to)
    raise site.refuse(f"to {known.name if known else f'type {to}'}", "floats, integers and booleans are supported")


def _small_float(site: Site, to: int) -> SmallFloat:
    """The format that a Cast makes: E8M0 is rounded as it says."""
    shape = CAST_FLOATS[to]
    if not shape.towards:
        return shape
    towards = str(site.attr("round_mode", "up")).capitalize()
    if towards not in ROUNDINGS:
        raise site.refuse(f"round_mode {towards.lower()}", "up, down and nearest are supported")
    return E8M0(towards)


def _narrowed(site: Site, low: int, values: int) -> Results:
    """The integer whose lowest bits are kept."""
    source = site.input(0)
    value = site.value(source)
    if value is not None:
        return _typed(site, (np.trunc(value).astype(np.int64) - low) % values + low)
    moved = site.make("Sub", site.make("Truncate", source), site.constant("low", low))
    return site.last("Add", site.make("Mod", moved, site.constant("values", values)), site.constant("back", low))


def _typed(site: Site, array: np.ndarray) -> tuple[str]:
    return (site.builder.constant(site.call.outputs[0], array),)


def _shape(site: Site) -> Results:
    rank = len(site.shape(site.input(0)))
    start, end = int(site.attr("start", 0)), int(site.attr("end", rank))
    return _typed(site, np.array(site.shape(site.input(0))[start:end], np.int64))


def _size(site: Site) -> Results:
    return _typed(site, np.array(element_count(site.shape(site.input(0))), np.int64))


def _constant_of_shape(site: Site) -> Results:
    shape = tuple(int(dim) for dim in site.static(0, "shape"))
    tensor = site.call.attrs.get("value")
    filler = np.zeros(1, np.float32) if tensor is None else onnx.numpy_helper.to_array(tensor)
    if min(shape, default=1) < 0 or element_count(shape) > 1 << 24:
        raise site.refuse(f"shape {list(shape)}", "the file is damaged")
    kind = np.float32 if filler.dtype.kind == "f" else filler.dtype
    return _typed(site, np.full(shape, filler.reshape(-1)[0], kind))


def _range(site: Site) -> Results:
    given = [site.static(i, what).reshape(-1)[0] for i, what in enumerate(("start", "limit", "delta"))]
    start, limit, delta = (number.item() for number in given)
    if delta == 0 or abs((limit - start) / delta) > 1 << 20:
        raise site.refuse(f"from {start} to {limit} by {delta}", "the file is damaged")
    return _typed(site, np.arange(start, limit, delta).astype(given[0].dtype))


# ---- choices


def _gather(site: Site) -> Results:
    if site.value(site.input(1)) is not None:
        return None
    return site.last("GatherAt", *site.call.inputs, axis=site.attr("axis", 0))


def _arg_max(site: Site) -> Results:
    """The last of equals is the first of them from behind."""
    if not int(site.attr("select_last_index", 0)):
        return None
    x = site.input(0)
    axis = site.axis(0, len(site.shape(x)))
    ends = {"starts": [-1], "ends": [-(1 << 31)], "axes": [axis], "steps": [-1]}
    turned = site.make("Slice", x, *(site.constant(name, value, np.int64) for name, value in ends.items()))
    index = site.make("ArgMax", turned, axis=axis, keepdims=int(site.attr("keepdims", 1)))
    return site.last("Sub", site.constant("last", site.shape(x)[axis] - 1), index)


def _arg_min(site: Site) -> Results:
    return site.last("ArgMax", site.make("Neg", site.input(0)), **site.call.attrs)


def _dropout(site: Site) -> Results:
    """The mask of inference, and of a training that drops nothing, keeps everything."""
    training, ratio = (site.value(site.input(index)) if site.input(index) else None for index in (2, 1))
    drops = bool(site.input(2)) and (training is None or bool(training.any()))
    if (drops and (ratio is None or ratio.any())) or not (drops or site.wants(1)):
        return None
    x = site.input(0)
    made = site.named(0, "Identity", x)
    return (made, site.constant("mask", np.ones(site.shape(x)), bool)) if site.wants(1) else (made,)


def _pad(site: Site) -> Results:
    """Other modes than constant choose elements of the tensor itself."""
    mode, x = site.attr("mode", "constant"), site.input(0)
    if mode not in ("edge", "reflect", "wrap"):
        return None
    pads = [int(pad) for pad in site.static(1, "pads").reshape(-1)]
    rank = len(site.shape(x))
    axes = [int(axis) % rank for axis in site.static(3, "axes").reshape(-1)] if site.input(3) else list(range(rank))
    if len(pads) != 2 * len(axes) or max(map(abs, pads), default=0) > 1 << 16:
        raise site.refuse(f"pads {pads} for {len(axes)} axes", "the file is damaged")
    for axis, front, back in zip(axes, pads, pads[len(axes) :], strict=False):
        if front or back:
            side = site.shape(x)[axis]
            at = np.arange(-front, side + back)
            index = np.clip(at, 0, side - 1) if mode == "edge" else at % side
            if mode == "reflect":
                around = at % max(2 * side - 2, 1)
                index = np.minimum(around, 2 * side - 2 - around) if side > 1 else at * 0
            x = site.make("Gather", x, site.constant("positions", index, np.int64), axis=axis)
    return site.last("Identity", x)


# ---- normalisations


def _log_softmax(site: Site) -> Results:
    x = site.input(0)
    axis = site.axis(-1, len(site.shape(x)))
    distance = site.make("Sub", x, site.make("ReduceMax", x, axes=[axis], keepdims=1))
    total = site.make("ReduceSum", site.make("Exp", distance), axes=[axis], keepdims=1)
    return site.last("Sub", distance, site.make("Log", total))


def _scaled_and_moved(site: Site, normal: str, scale: str, bias: str) -> tuple[str]:
    if not bias:
        return site.last("Mul", normal, scale)
    return site.last("Add", site.make("Mul", normal, scale), bias)


def _layer_normalization(site: Site) -> Results:
    x, epsilon = site.input(0), float(site.attr("epsilon", 1e-5))
    rank = len(site.shape(x))
    attrs = {"axis": site.axis(-1, rank), "to_end": 1, "centre": 1, "mean": 1}
    normal = site.make("Normalize", x, **attrs, epsilon=epsilon)
    results = [_scaled_and_moved(site, normal, site.input(1), site.input(2))[0]]
    axes = list(range(attrs["axis"], rank))
    if site.wants(1) or site.wants(2):
        results.append(site.named(1, "ReduceMean", x, axes=axes, keepdims=1))
    if site.wants(2):
        distance = site.make("Sub", x, results[1])
        power = site.make("ReduceMean", site.make("Mul", distance, distance), axes=axes, keepdims=1)
        root = site.make("Sqrt", site.make("Add", power, site.constant("epsilon", epsilon)))
        results.append(site.named(2, "Reciprocal", root))
    return tuple(results)


def _rms_normalization(site: Site) -> Results:
    x = site.input(0)
    attrs = {"axis": site.axis(-1, len(site.shape(x))), "to_end": 1, "centre": 0, "mean": 1}
    normal = site.make("Normalize", x, **attrs, epsilon=float(site.attr("epsilon", 1e-5)))
    return site.last("Mul", normal, site.input(1))


def _instance_normalization(site: Site) -> Results:
    x = site.input(0)
    shape = site.shape(x)
    if len(shape) < 3:
        raise site.refuse(f"input {list(shape)}", "it needs spatial axes behind the channels")
    attrs = {"axis": 2, "to_end": 1, "centre": 1, "mean": 1, "epsilon": float(site.attr("epsilon", 1e-5))}
    normal = site.make("Normalize", x, **attrs)
    axes = site.constant("axes", range(1, len(shape) - 1), np.int64)
    scale, bias = (site.make("Unsqueeze", name, axes) for name in site.call.inputs[1:3])
    return _scaled_and_moved(site, normal, scale, bias)


def _lp_normalization(site: Site) -> Results:
    x, p = site.input(0), int(site.attr("p", 2))
    axis = site.axis(-1, len(site.shape(x)))
    if p == 1:
        return site.last("Div", x, site.make("ReduceSum", site.make("Abs", x), axes=[axis], keepdims=1))
    if p != 2:
        raise site.refuse(f"p = {p}", "p = 1 and p = 2 are supported")
    attrs = {"axis": axis, "to_end": 0, "centre": 0, "mean": 0, "epsilon": 0.0}
    return site.last("Normalize", x, **attrs)


# ---- products of matrices


def _matmul(site: Site) -> Results:
    """Batches of matrices, and vectors, which are a row or a column; everything else stands for itself."""
    a, b = (site.shape(name) for name in site.call.inputs)
    if not a or not b:
        return None
    if len(b) == 1 and b != (1,) and site.value(site.input(1)) is not None:
        column = site.make("Unsqueeze", site.input(1), site.constant("axis", [1], np.int64))
        row = [site.constant("axis", [0], np.int64)] if len(a) == 1 else []
        x = site.make("Unsqueeze", site.input(0), *row) if row else site.input(0)
        product = site.make("MatMul", x, column)
        return _shaped(site, product, a[:-1])
    in_batches = [element_count(shape[:-2]) > 1 for shape in (a, b)]
    if min(len(a), len(b)) == 1:
        return _vector_product(site, a, b) if any(in_batches) else None
    if in_batches[1]:
        return site.last("BatchMatMul", *site.call.inputs)
    if in_batches[0] and site.value(site.input(1)) is None:  # rows times one matrix
        rows = _resized(site, site.input(0), (element_count(a[:-1]), a[-1]))
        product = site.make("MatMul", rows, _resized(site, site.input(1), b[-2:]))
        return _shaped(site, product, (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1]))
    return None


def _vector_product(site: Site, a: Shape, b: Shape) -> Results:
    """A vector in front is a row of each product, one behind a column, and the result lacks its axis."""
    left = site.input(0) if len(a) > 1 else _resized(site, site.input(0), (1, *a))
    right = site.input(1) if len(b) > 1 else _resized(site, site.input(1), (*b, 1))
    return _shaped(site, site.make("MatMul", left, right), b[:-2] + b[-1:] if len(a) == 1 else a[:-1])


def _resized(site: Site, x: str, shape: Shape) -> str:
    return site.make("Reshape", x, site.constant("shape", shape, np.int64))


def _shaped(site: Site, x: str, shape: Shape) -> tuple[str]:
    return site.last("Reshape", x, site.constant("shape", shape, np.int64))


def _gemm(site: Site) -> Results:
    """What a layer of constant weights can not do: alpha, beta, transA, operands computed at run time."""
    alpha, beta = float(site.attr("alpha", 1.0)), float(site.attr("beta", 1.0))
    a, b, c = (site.input(i) for i in range(3))
    rows = site.shape(a)[site.attr("transA", 0)] if len(site.shape(a)) == 2 else 0
    by_row = bool(c) and len(site.shape(c)) == 2 and site.shape(c)[0] == rows and rows > 1
    constant = site.value(b) is not None and (not c or site.value(c) is not None)
    if len(site.shape(a)) != 2 or len(site.shape(b)) != 2:
        return None
    if alpha == beta == 1 and not site.attr("transA", 0) and constant and not by_row:
        return None
    a = site.make("Transpose", a, perm=[1, 0]) if site.attr("transA", 0) else a
    b = site.make("Transpose", b, perm=[1, 0]) if site.attr("transB", 0) else b
    if alpha != 1:  # into the constant factor, if there is one
        factor = site.constant("alpha", alpha)
        a, b = (a, site.make("Mul", b, factor)) if site.value(b) is not None else (site.make("Mul", a, factor), b)
    if not c:
        return site.last("MatMul", a, b)
    offset = c if beta == 1 else site.make("Mul", c, site.constant("beta", beta))
    return site.last("Add", site.make("MatMul", a, b), offset)


def _batch_normalization(site: Site) -> Results:
    """Of several samples that are one here: a factor and an offset per channel."""
    shape, constants = site.shape(site.input(0)), [site.value(site.input(index)) for index in range(1, 5)]
    if len(shape) < 2 or shape[0] == 1 or int(site.attr("training_mode", 0)) or any(one is None for one in constants):
        return None
    scale, bias, mean, variance = (np.asarray(one, np.float64).reshape(-1) for one in constants)
    factor = scale / np.sqrt(variance + float(site.attr("epsilon", 1e-5)))
    wide = (1, shape[1], *[1] * (len(shape) - 2))
    made = site.make("Mul", site.input(0), site.constant("factor", factor.reshape(wide)))
    return site.last("Add", made, site.constant("offset", (bias - mean * factor).reshape(wide)))


REWRITES = (
    Rewrite(
        "BatchNormalization",
        "inference; folded into a Conv or Gemm before it, else a factor and an offset per channel",
        _batch_normalization,
        ("epsilon", "momentum", "training_mode"),
    ),
    Rewrite("Pow", "constant exponents, or as Exp and Log; of whole numbers rounded", _pow),
    Rewrite(
        "Div",
        "exact quotient, by a constant times its reciprocal; of whole numbers towards 0; broadcast",
        _div,
    ),
    Rewrite("Mean", "of any number of operands; broadcast", _mean),
    _of_several("Add"),
    _of_several("Min"),
    _of_several("Max"),
    Rewrite("Celu", "as Elu", _celu, ("alpha",)),
    Rewrite("Selu", "as Elu", _selu, ("alpha", "gamma")),
    Rewrite("Xor", "one of two is not 0; broadcast", _xor),
    Rewrite(
        "Cast",
        "to floats, of 8 and 4 bits too, integers (towards zero) and booleans",
        _cast,
        ("to", "saturate", "round_mode"),
    ),
    Rewrite("Shape", "folded", _shape, ("start", "end")),
    Rewrite("Size", "folded", _size),
    Rewrite("ConstantOfShape", "folded", _constant_of_shape, ("value",)),
    Rewrite("Range", "folded", _range),
    Rewrite("Gather", "constant or computed indices; any axis", _gather, ("axis",)),
    Rewrite("ArgMax", "one axis, the first or last of equals", _arg_max, ("axis", "keepdims", "select_last_index")),
    Rewrite("Dropout", "the value itself (inference)", _dropout, ("seed", "ratio")),
    Rewrite("Pad", "constant, edge, reflect and wrap; constant pads", _pad, ("mode",)),
    Rewrite("ArgMin", "one axis, the first or last of equals", _arg_min, ("axis", "keepdims", "select_last_index")),
    Rewrite("LogSoftmax", "any axis", _log_softmax, ("axis",)),
    Rewrite("LayerNormalization", "normalized values", _layer_normalization, ("axis", "epsilon", "stash_type")),
    Rewrite("RMSNormalization", "any axis", _rms_normalization, ("axis", "epsilon", "stash_type")),
    Rewrite(
        "SimplifiedLayerNormalization",
        "as RMSNormalization; one result",
        _rms_normalization,
        ("axis", "epsilon", "stash_type"),
        MICROSOFT,
    ),
    Rewrite("InstanceNormalization", "any number of spatial axes", _instance_normalization, ("epsilon",)),
    Rewrite("LpNormalization", "p = 1 and p = 2", _lp_normalization, ("axis", "p")),
    Rewrite("MatMul", "matrix product; batches broadcast", _matmul),
    Rewrite("Gemm", "matrix product plus bias; weights constant or not", _gemm, ("alpha", "beta", "transA", "transB")),
)
