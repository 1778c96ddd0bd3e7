"""Random chains of operators as .tflite files, of the types that TensorFlow Lite Micro computes with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tflite_files import BOOL, FLOAT, INT8, INT16, INT32, INT64, OPERATOR, UINT8, Writer

CODE, WORD, REAL, BYTE = "int8", "int16", "float", "uint8"
KINDS = {CODE: INT8, WORD: INT16, REAL: FLOAT, BYTE: UINT8}
MOST_ELEMENTS = 3000
NO_MASKS = {"BeginMask": 0, "EndMask": 0, "EllipsisMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0}


@dataclass(frozen=True)
class Value:
    """A tensor of the file: its kind, shape, scale and zero point."""

    number: int
    kind: str
    shape: tuple[int, ...]
    scale: float = 1.0
    zero: int = 0


class Chain:
    """A file as it grows; every choice comes from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng, self.w, self.count = np.random.default_rng(seed), Writer(), 0
        self.operators: list[str] = []

    def any(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def one(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def value(self, kind: str, shape: Sequence[int], scale: float | None = None, zero: int | None = None) -> Value:
        """A new run-time tensor, of a random grid where none is given."""
        if kind == REAL:
            return Value(self.w.tensor(self.name(), list(shape), FLOAT), kind, tuple(shape))
        scale = self.any(0.01, 0.1) * (0.01 if kind == WORD else 1) if scale is None else scale
        least = np.iinfo(kind).min
        zero = 0 if kind == WORD else int(self.rng.integers(least, least + 256)) if zero is None else zero
        number = self.w.tensor(self.name(), list(shape), KINDS[kind], None, ([scale], [zero], 0))
        return Value(number, kind, tuple(shape), scale, zero)

    def like(self, x: Value, shape: Sequence[int]) -> Value:
        return self.value(x.kind, shape, x.scale, x.zero)

    def constant(self, kind: str, shape: Sequence[int], scale: float, zero: int) -> int:
        if kind == REAL:
            return self.w.tensor(self.name(), list(shape), FLOAT, self.rng.normal(size=shape).astype(np.float32))
        ends = np.iinfo(kind)
        numbers = self.rng.integers(ends.min, ends.max + 1, shape).astype(kind)
        return self.w.tensor(self.name(), list(shape), KINDS[kind], numbers, ([scale], [zero], 0))

    def whole(self, numbers: Any) -> int:
        array = np.asarray(numbers, np.int32)
        return self.w.tensor(self.name(), array.shape, INT32, array)

    def weights(self, shape: Sequence[int], axis: int, x: Value, widths: Sequence[int] = (INT64,)) -> list[int]:
        """Weights with a scale for each index of `axis`, and a bias, of int16 of one of `widths`."""
        codes, count = self.rng.integers(-127, 128, shape), shape[axis]
        scales = [self.any(0.002, 0.02) for _ in range(count)]
        bias = self.rng.integers(-800, 800, count)
        if x.kind == REAL:
            real = [(codes * 0.01).astype(np.float32), (bias * 0.001).astype(np.float32)]
            return [self.w.tensor(self.name(), array.shape, FLOAT, array) for array in real]
        grid = (scales, [0] * count, axis)
        first = self.w.tensor(self.name(), list(shape), INT8, codes.astype(np.int8), grid)
        wide = self.one(*widths) if x.kind == WORD else INT32
        kind = np.int64 if wide == INT64 else np.int32
        of_bias = ([x.scale * scale for scale in scales], [0] * count, 0)
        return [first, self.w.tensor(self.name(), [count], wide, bias.astype(kind), of_bias)]

    def activation(self) -> int:
        """None, Relu or Relu6."""
        return int(self.one(0, 0, 1, 3))

    def op(self, name: str, inputs: Sequence[int], y: Value | Sequence[Value], kind: str = "", **options: Any) -> Any:
        self.operators.append(name)
        ends = [y] if isinstance(y, Value) else y
        self.w.operator(getattr(OPERATOR, name), inputs, [end.number for end in ends], kind, **options)
        return y


Step = Callable[[Chain, Value], "Value | None"]  # None: not of this shape


# ---- element by element


def _beside(op: str, options: str = "", activated: bool = True, shared: bool = False) -> Step:
    def step(c: Chain, x: Value) -> Value:
        shape = c.one(list(x.shape), [1] * (len(x.shape) - 1) + [x.shape[-1]], [1] * len(x.shape))
        small = 0.01 if x.kind == WORD else 1.0
        other = c.constant(
            x.kind, shape, x.scale if shared else c.any(0.01, 0.05) * small,
            x.zero if shared or x.kind == WORD else int(c.rng.integers(-60, 60)),
        )  # fmt: skip
        y = c.like(x, x.shape) if shared else c.value(x.kind, x.shape, c.any(0.02, 0.2) * small)
        given = {"FusedActivationFunction": c.activation()} if activated else {}
        return c.op(op, c.one([x.number, other], [other, x.number]), y, options, **given)

    return step


def _multiply_twice(c: Chain, x: Value) -> Value:
    return c.op("MUL", [x.number] * 2, c.value(x.kind, x.shape), "MulOptions", FusedActivationFunction=c.activation())


def _add_twice(c: Chain, x: Value) -> Value:
    return c.op("ADD", [x.number] * 2, c.value(x.kind, x.shape), "AddOptions", FusedActivationFunction=c.activation())


def _add_all(c: Chain, x: Value) -> Value:
    return c.op("ADD_N", [x.number] * int(c.one(2, 3, 20)), c.value(x.kind, x.shape))


def _residual(c: Chain, x: Value) -> Value:
    """The sum, difference or product of two run-time tensors of different grids."""
    other = c.op("LEAKY_RELU", [x.number], c.value(x.kind, x.shape), "LeakyReluOptions", Alpha=c.any(-0.5, 2.0))
    op, options = c.one(("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"))
    operands = c.one([x.number, other.number], [other.number, x.number])
    return c.op(op, operands, c.value(x.kind, x.shape), options, FusedActivationFunction=c.activation())


def _function(op: str, options: str = "", own_grid: bool = True, **given: Any) -> Step:
    def step(c: Chain, x: Value) -> Value:
        y = c.value(x.kind, x.shape) if own_grid and c.one(0, 1, 1) else c.like(x, x.shape)
        return c.op(op, [x.number], y, options, **given)

    return step


def _leaky(c: Chain, x: Value) -> Value:
    return c.op("LEAKY_RELU", [x.number], c.value(x.kind, x.shape), "LeakyReluOptions", Alpha=c.any(-0.5, 2.0))


def _prelu(c: Chain, x: Value) -> Value:
    shape = [1] * (len(x.shape) - 1) + [x.shape[-1]]
    alpha = c.constant(REAL if x.kind == REAL else CODE, shape, c.any(0.005, 0.02), int(c.rng.integers(-60, 60)))
    return c.op("PRELU", [x.number, alpha], c.value(x.kind, x.shape))


def _bounded(op: str, code: tuple[float, int], word: float, options: str = "") -> Step:
    """Of the one format of the result."""

    def step(c: Chain, x: Value) -> Value:
        y = c.value(x.kind, x.shape, *(code if x.kind == CODE else (word, 0)))
        return c.op(op, [x.number], y, options)

    return step


def _softmax(c: Chain, x: Value) -> Value:
    kind = c.one(CODE, WORD) if x.kind == CODE else x.kind
    grid = {(CODE, CODE): (1 / 256, -128), (CODE, WORD): (1 / 65536, -32768), (WORD, WORD): (1 / 32768, 0)}
    scale, zero = grid.get((x.kind, kind), (1.0, 0))
    if kind == REAL or zero != -32768:
        y = c.value(kind, x.shape, scale, zero)
    else:
        y = Value(c.w.tensor(c.name(), list(x.shape), INT16, None, ([scale], [zero], 0)), kind, x.shape, scale, zero)
    c.op("SOFTMAX", [x.number], y, "SoftmaxOptions", Beta=float(c.one(1.0, 1.0, 0.5, 0.7, 3.0)))
    return c.op("QUANTIZE", [y.number], c.value(CODE, x.shape)) if zero == -32768 else y


def _quantize(c: Chain, x: Value) -> Value | None:
    if x.kind == REAL:
        return None
    return c.op("QUANTIZE", [x.number], c.value(c.one(CODE, WORD), x.shape))


def _compared(c: Chain, x: Value) -> Value:
    """What of a comparison with a constant is chosen from two tensors of one grid."""
    is_code = x.kind == CODE
    other = c.constant(x.kind, x.shape, c.any(0.01, 0.1) if is_code else 1.0, int(c.rng.integers(-60, 60)))
    mask = c.w.tensor(c.name(), list(x.shape), BOOL)
    op = c.one("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")
    c.op(op, [x.number, other], Value(mask, "bool", x.shape))
    pick = c.constant(x.kind, x.shape, x.scale, x.zero)
    return c.op("SELECT_V2", [mask, x.number, pick], c.like(x, x.shape))


# ---- moves


def _reshape(c: Chain, x: Value) -> Value:
    total = int(np.prod(x.shape))
    shape = c.one([1, total], [1, x.shape[1], total // x.shape[1]])
    return c.op("RESHAPE", [x.number, c.whole(shape)], c.like(x, shape))


def _transpose(c: Chain, x: Value) -> Value:
    order = [0, *(1 + c.rng.permutation(len(x.shape) - 1)).tolist()]
    return c.op("TRANSPOSE", [x.number, c.whole(order)], c.like(x, [x.shape[axis] for axis in order]))


def _slice(c: Chain, x: Value) -> Value:
    begin = [0, *(int(c.rng.integers(0, max(1, size // 2))) for size in x.shape[1:])]
    steps = [1, *(int(c.one(1, 1, 2)) for _ in x.shape[1:])]
    shape = [-(-(size - first) // step) for size, first, step in zip(x.shape, begin, steps, strict=True)]
    operands = [x.number, *(c.whole(part) for part in (begin, x.shape, steps))]
    return c.op("STRIDED_SLICE", operands, c.like(x, shape), "StridedSliceOptions", **NO_MASKS)


def _exchange(c: Chain, x: Value) -> Value | None:
    axis = int(c.rng.integers(1, len(x.shape)))
    if x.shape[axis] % 2:
        return None
    shape = list(x.shape)
    shape[axis] //= 2
    halves = [c.like(x, shape), c.like(x, shape)]
    c.op("SPLIT", [c.whole(axis), x.number], halves, "SplitOptions", NumSplits=2)
    options = {"Axis": axis, "FusedActivationFunction": 0}
    return c.op(
        "CONCATENATION", [halves[1].number, halves[0].number], c.like(x, x.shape), "ConcatenationOptions", **options
    )


def _gather(c: Chain, x: Value) -> Value:
    axis = int(c.rng.integers(1, len(x.shape)))
    shape = [*x.shape[:axis], 3, *x.shape[axis + 1 :]]
    chosen = c.whole(c.rng.integers(0, x.shape[axis], 3))
    return c.op("GATHER", [x.number, chosen], c.like(x, shape), "GatherOptions", Axis=axis)


def _pack(c: Chain, x: Value) -> Value | None:
    if len(x.shape) > 3:
        return None
    y = c.like(x, [1, 2, *x.shape[1:]])
    return c.op("PACK", [x.number] * 2, y, "PackOptions", ValuesCount=2, Axis=1)


def _reverse(c: Chain, x: Value) -> Value:
    axis = int(c.rng.integers(1, len(x.shape)))
    return c.op("REVERSE_V2", [x.number, c.whole([axis])], c.like(x, x.shape), "ReverseV2Options")


def _pad(op: str, options: str) -> Step:
    def step(c: Chain, x: Value) -> Value:
        pads = [[0, 0], *([int(v) for v in c.rng.integers(0, min(2, size), 2)] for size in x.shape[1:])]
        shape = [size + sum(pair) for size, pair in zip(x.shape, pads, strict=True)]
        given = {"Mode": int(c.rng.integers(2))} if op == "MIRROR_PAD" else {}
        return c.op(op, [x.number, c.whole(pads)], c.like(x, shape), options, **given)

    return step


def _to_channels(c: Chain, x: Value) -> Value | None:
    _, h, w, channels = x.shape
    if h % 2 or w % 2:
        return None
    y = c.like(x, [1, h // 2, w // 2, channels * 4])
    return c.op("SPACE_TO_DEPTH", [x.number], y, "SpaceToDepthOptions", BlockSize=2)


def _from_channels(c: Chain, x: Value) -> Value | None:
    _, h, w, channels = x.shape
    if channels % 4:
        return None
    y = c.like(x, [1, h * 2, w * 2, channels // 4])
    return c.op("DEPTH_TO_SPACE", [x.number], y, "DepthToSpaceOptions", BlockSize=2)


def _to_batches(c: Chain, x: Value) -> Value | None:
    _, h, w, channels = x.shape
    if h % 2 or w % 2:
        return None
    apart = c.like(x, [4, h // 2, w // 2, channels])
    c.op("SPACE_TO_BATCH_ND", [x.number, c.whole([2, 2]), c.whole([[0, 0]] * 2)], apart)
    return c.op("BATCH_TO_SPACE_ND", [apart.number, c.whole([2, 2]), c.whole([[0, 0]] * 2)], c.like(x, x.shape))


def _part(c: Chain, x: Value) -> Value:
    begin = [0, *(int(c.rng.integers(0, size)) for size in x.shape[1:])]
    sizes = [1, *(int(c.rng.integers(1, size - at + 1)) for size, at in zip(x.shape[1:], begin[1:], strict=True))]
    return c.op("SLICE", [x.number, c.whole(begin), c.whole(sizes)], c.like(x, sizes), "SliceOptions")


def _unpack(c: Chain, x: Value) -> Value | None:
    axis = int(c.rng.integers(1, len(x.shape)))
    if len(x.shape) < 3:
        return None
    parts = [c.like(x, [*x.shape[:axis], *x.shape[axis + 1 :]]) for _ in range(x.shape[axis])]
    c.op("UNPACK", [x.number], parts, "UnpackOptions", Axis=axis, Num=len(parts))
    return c.one(*parts)


# ---- sums along axes


def _reduce(op: str, own_grid: bool) -> Step:
    def step(c: Chain, x: Value) -> Value:
        last = len(x.shape) - 1
        axes = c.one([1, 2], [1], [2], [last]) if last == 3 else [int(c.rng.integers(1, last + 1))]
        keep = bool(c.rng.integers(2)) or len(x.shape) == 2
        shape = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keep or axis not in axes]
        y = c.value(x.kind, shape) if own_grid else c.like(x, shape)
        return c.op(op, [x.number, c.whole(axes)], y, "ReducerOptions", KeepDims=keep)

    return step


def _running(c: Chain, x: Value) -> Value:
    axis = c.whole(int(c.rng.integers(1, len(x.shape))))
    options = {"Exclusive": bool(c.rng.integers(2)), "Reverse": bool(c.rng.integers(2))}
    return c.op("CUMSUM", [x.number, axis], c.value(x.kind, x.shape), "CumsumOptions", **options)


# ---- layers


def _windows(c: Chain, x: Value, dilated: bool) -> tuple[dict[str, int], list[int], list[int]]:
    """Options of a window, its sides and those of the result."""
    sides, strides, same = x.shape[1:3], [int(c.one(1, 2)) for _ in range(2)], int(c.rng.integers(2)) == 0
    kernel, dilation = [min(side, int(c.rng.integers(1, 4))) for side in sides], 1
    if dilated and c.one(0, 0, 1) and min(sides) >= 2 * max(kernel) - 1:
        strides, dilation = [1, 1], 2
    out = [
        -(-side // stride) if same else (side - 1 - (reach - 1) * dilation) // stride + 1
        for side, reach, stride in zip(sides, kernel, strides, strict=True)
    ]
    options = {"StrideH": strides[0], "StrideW": strides[1], "Padding": int(not same)}
    options["FusedActivationFunction"] = c.activation()
    return options | ({"DilationHFactor": dilation, "DilationWFactor": dilation} if dilated else {}), kernel, out


def _conv(c: Chain, x: Value) -> Value:
    options, kernel, out = _windows(c, x, True)
    outputs = int(c.rng.integers(1, 9))
    y = c.value(x.kind, [1, *out, outputs], c.any(0.1, 0.6) * (0.01 if x.kind == WORD else 1))
    operands = [x.number, *c.weights([outputs, *kernel, x.shape[3]], 0, x, (INT32, INT64))]
    return c.op("CONV_2D", operands, y, "Conv2DOptions", **options)


def _depthwise(c: Chain, x: Value) -> Value:
    options, kernel, out = _windows(c, x, True)
    times = int(c.one(1, 1, 2))
    y = c.value(x.kind, [1, *out, x.shape[3] * times], c.any(0.05, 0.3) * (0.01 if x.kind == WORD else 1))
    operands = [x.number, *c.weights([1, *kernel, x.shape[3] * times], 3, x)]
    return c.op("DEPTHWISE_CONV_2D", operands, y, "DepthwiseConv2DOptions", DepthMultiplier=times, **options)


def _turned_conv(c: Chain, x: Value) -> Value:
    outputs = int(c.rng.integers(1, 5))
    shape = [1, x.shape[1] * 2, x.shape[2] * 2, outputs]
    y = c.value(x.kind, shape, c.any(0.1, 0.4) * (0.01 if x.kind == WORD else 1))
    weights, bias = c.weights([outputs, 3, 3, x.shape[3]], 0, x)
    options = {"StrideH": 2, "StrideW": 2, "Padding": 0, "FusedActivationFunction": 0}
    return c.op("TRANSPOSE_CONV", [c.whole(shape), weights, x.number, bias], y, "TransposeConvOptions", **options)


def _pool(op: str) -> Step:
    def step(c: Chain, x: Value) -> Value:
        options, kernel, out = _windows(c, x, False)
        options |= {"FilterHeight": kernel[0], "FilterWidth": kernel[1]}
        return c.op(op, [x.number], c.like(x, [1, *out, x.shape[3]]), "Pool2DOptions", **options)

    return step


def _resize(op: str, options: str) -> Step:
    def step(c: Chain, x: Value) -> Value:
        sides, how = [c.one(x.shape[1] * 2, x.shape[1] + 1), x.shape[2] + 2], int(c.rng.integers(3))
        y = c.like(x, [1, *sides, x.shape[3]])
        return c.op(op, [x.number, c.whole(sides)], y, options, AlignCorners=how == 1, HalfPixelCenters=how == 2)

    return step


def _dense(c: Chain, x: Value) -> Value:
    outputs = int(c.rng.integers(1, 9))
    y = c.value(x.kind, [*x.shape[:-1], outputs], c.any(0.1, 0.5) * (0.01 if x.kind == WORD else 1))
    operands = [x.number, *c.weights([outputs, x.shape[-1]], 0, x, (INT32, INT64))]
    options = {"FusedActivationFunction": c.activation(), "KeepNumDims": True}
    return c.op("FULLY_CONNECTED", operands, y, "FullyConnectedOptions", **options)


def _matmul(c: Chain, x: Value) -> Value | None:
    if len(x.shape) != 3:
        return None
    small, columns = 0.01 if x.kind == WORD else 1.0, int(c.rng.integers(1, 6))
    other = c.constant(x.kind, [1, x.shape[2], columns], c.any(0.01, 0.05) * small, 0)
    y = c.value(x.kind, [1, x.shape[1], columns], c.any(0.1, 0.5) * small)
    return c.op("BATCH_MATMUL", [x.number, other], y, "BatchMatMulOptions")


def divided(c: Chain, x: Value) -> Value:
    """int8 by a constant of at most 15 units, the quotient's unit a quarter of that of the operands' or less: then the
    runtime shifts by at most 31 bits, even for 0. It may shift by more elsewhere, which C++ leaves open."""
    scale, zero = c.any(0.01, 0.05), int(c.rng.integers(-60, 60))
    shape = c.one(list(x.shape), [1] * (len(x.shape) - 1) + [x.shape[-1]], [1] * len(x.shape))
    codes = (zero + c.rng.integers(1, 16, shape) * c.rng.choice([-1, 1], shape)).astype(np.int8)
    other = c.w.tensor(c.name(), list(shape), INT8, codes, ([scale], [zero], 0))
    y = c.value(CODE, x.shape, x.scale / (scale * c.any(4.1, 12.0)))
    return c.op("DIV", [x.number, other], y, "DivOptions", FusedActivationFunction=c.activation())


EVERY, FLOATS, INTEGERS = (CODE, WORD, REAL), (CODE, REAL), (CODE, WORD)
STEPS: dict[str, tuple[Step, tuple[str, ...]]] = {  # of any rank
    "add": (_beside("ADD", "AddOptions"), EVERY),
    "sub": (_beside("SUB", "SubOptions"), EVERY),
    "mul": (_beside("MUL", "MulOptions"), EVERY),
    "add_twice": (_add_twice, EVERY),
    "mul_twice": (_multiply_twice, EVERY),
    "residual": (_residual, (*EVERY, BYTE)),
    "add_all": (_add_all, FLOATS),
    "squared_difference": (_beside("SQUARED_DIFFERENCE", activated=False), EVERY),
    "maximum": (_beside("MAXIMUM", "MaximumMinimumOptions", activated=False, shared=True), EVERY),
    "minimum": (_beside("MINIMUM", "MaximumMinimumOptions", activated=False, shared=True), EVERY),
    "relu": (_function("RELU"), (*EVERY, BYTE)),
    "relu6": (_function("RELU6"), (*EVERY, BYTE)),
    "leaky_relu": (_leaky, (*EVERY, BYTE)),
    "prelu": (_prelu, EVERY),
    "abs": (_function("ABS"), EVERY),
    "neg": (_function("NEG"), (REAL,)),
    "elu": (_function("ELU"), FLOATS),
    "hard_swish": (_function("HARD_SWISH"), (*FLOATS, BYTE)),
    "tanh": (_bounded("TANH", (1 / 128, 0), 1 / 32768), EVERY),
    "logistic": (_bounded("LOGISTIC", (1 / 256, -128), 1 / 32768), EVERY),
    "log_softmax": (_bounded("LOG_SOFTMAX", (16 / 256, 127), 0.0), FLOATS),
    "l2_normalization": (_bounded("L2_NORMALIZATION", (1 / 128, 0), 0.0, "L2NormOptions"), FLOATS),
    "softmax": (_softmax, EVERY),
    "quantize": (_quantize, INTEGERS),
    "compared": (_compared, FLOATS),
    "reshape": (_reshape, EVERY),
    "transpose": (_transpose, EVERY),
    "strided_slice": (_slice, EVERY),
    "slice": (_part, EVERY),
    "unpack": (_unpack, EVERY),
    "exchange": (_exchange, EVERY),
    "gather": (_gather, FLOATS),
    "pack": (_pack, EVERY),
    "reverse": (_reverse, EVERY),
    "pad": (_pad("PAD", "PadOptions"), EVERY),
    "mirror_pad": (_pad("MIRROR_PAD", "MirrorPadOptions"), FLOATS),
    "sum": (_reduce("SUM", True), (*EVERY, BYTE)),
    "mean": (_reduce("MEAN", True), (*EVERY, BYTE)),
    "reduce_max": (_reduce("REDUCE_MAX", False), FLOATS),
    "reduce_min": (_reduce("REDUCE_MIN", False), FLOATS),
    "cumsum": (_running, FLOATS),
    "fully_connected": (_dense, EVERY),
    "batch_matmul": (_matmul, EVERY),
}
OF_PLANES: dict[str, tuple[Step, tuple[str, ...]]] = {  # of four axes
    "conv_2d": (_conv, EVERY),
    "depthwise_conv_2d": (_depthwise, EVERY),
    "transpose_conv": (_turned_conv, EVERY),
    "average_pool_2d": (_pool("AVERAGE_POOL_2D"), (*EVERY, BYTE)),
    "max_pool_2d": (_pool("MAX_POOL_2D"), (*EVERY, BYTE)),
    "resize_bilinear": (_resize("RESIZE_BILINEAR", "ResizeBilinearOptions"), (*FLOATS, BYTE)),
    "resize_nearest_neighbor": (_resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"), EVERY),
    "space_to_depth": (_to_channels, FLOATS),
    "depth_to_space": (_from_channels, FLOATS),
    "space_to_batch": (_to_batches, FLOATS),
}


def _start(seed: int, kind: str) -> tuple[Chain, Value]:
    c = Chain(seed)
    return c, c.value(kind, [1, *c.rng.integers(3, 9, 2).tolist(), int(c.one(1, 2, 3, 4, 8))])


def single(name: str, seed: int, kind: str) -> bytes:
    """A file of the one step `name` on a tensor of `kind`; empty where it does not take that."""
    step, kinds = {**STEPS, **OF_PLANES}[name]
    c, x = _start(seed, kind)
    y = step(c, x) if kind in kinds else None
    return b"" if y is None else c.w.file(x.number, y.number)


def chain(seed: int, kind: str, last: Step | None = None) -> tuple[bytes, list[str]]:
    """A file of one to six steps that begins with a tensor of `kind`, of int8 then `last`, and its operators."""
    c, x = _start(seed, kind)
    now, wanted = x, int(c.rng.integers(1, 7))
    while len(c.operators) < wanted and np.prod(now.shape) <= MOST_ELEMENTS:
        steps = {**STEPS, **(OF_PLANES if len(now.shape) == 4 else {})}
        able = [step for step, kinds in steps.values() if now.kind in kinds]
        now = able[int(c.rng.integers(len(able)))](c, now) or now
    now = last(c, now) or now if last is not None and now.kind == CODE else now
    return c.w.file(x.number, now.number), c.operators
