"""Quantized models, as pairs of QuantizeLinear and DequantizeLinear or with operators on integers: rewritten into real
arithmetic between FakeQuantize nodes, which keep the scales (tinyhil/ops/quantize.py).

An operator on integers is DequantizeLinear of its operands, the operator, QuantizeLinear of its result. What is
quantized and dequantized by the same numbers meets again here: nothing is left between the two operators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from tinyhil.compiler.pins import CHOOSING
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.rewrite import MICROSOFT, Results, Rewrite, Site
from tinyhil.frontend.rewrite_blocks import dequantized, spread
from tinyhil.frontend.whole_types import NARROW, SMALL_FLOATS
from tinyhil.language.graph import element_count
from tinyhil.ops import whole
from tinyhil.ops.quantize import FROM_CODES, TO_CODES, nearest
from tinyhil.ops.small_floats import FLOAT_CAST, attributes_of

# (bits, what ONNX's integers exceed ours by)
KINDS = {"int8": (8, 0), "uint8": (8, 128), "int16": (16, 0), "uint16": (16, 32768)}
LEVELS = 256  # of the smallest type that is a format
NHWC_POOL, NHWC_CONV = "NhwcMaxPool", "NhwcQLinearConv"  # the latter is QLinearConv of com.microsoft


@dataclass(frozen=True, slots=True)
class Grid:
    """Scale and zero point as the model has them; `kind` names the integer type, empty if nothing tells."""

    scale: np.ndarray
    zero: np.ndarray
    kind: str
    axis: int = 1

    def attrs(self) -> dict[str, Any]:
        """Of FakeQuantize and its kin: one scale."""
        bits, offset = KINDS[self.kind]
        zero = int(self.zero.reshape(-1)[0]) - offset
        return {"scale": float(self.scale.reshape(-1)[0]), "zero": zero, "bits": bits, "offset": offset}

    def along(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Scale and zero point with axes of 1 around the axis they belong to."""
        if self.scale.size == 1:
            return self.scale.reshape((1,) * rank), self.zero.reshape(-1)[:1].reshape((1,) * rank)
        shape = [1] * rank
        shape[self.axis % rank] = self.scale.size
        return self.scale.reshape(shape), np.broadcast_to(self.zero, self.scale.shape).reshape(shape)


def grid_of_inputs(site: Site, scale: int, zero: int, axis: int = 1, kind: str = "") -> Grid:
    """From the inputs at positions `scale` and `zero`; ModelError for those that are no constants, or make no sense."""
    steps = site.static(scale, "scale").astype(np.float32)
    point = site.static(zero, "zero point") if site.input(zero) else None
    if steps.size == 0 or not (steps > 0).all():
        raise site.refuse("a scale that is not positive", "the file is damaged")
    if point is None:
        return Grid(steps, np.zeros(1, np.int64), kind, axis)
    if point.size not in (1, steps.size):
        raise site.refuse(f"{point.size} zero points for {steps.size} scales", "the file is damaged")
    return Grid(steps, point.astype(np.int64), point.dtype.name, axis)


# ---- to integers


def _quantized(site: Site, x: str, grid: Grid) -> str:
    """Codes of the real value `x`."""
    value = site.value(x)
    if grid.kind not in KINDS:
        raise site.refuse(f"to {grid.kind}", f"{', '.join(KINDS)} are supported")
    if value is not None:
        kind = np.dtype(grid.kind)
        ends = (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        return site.constant("codes", nearest(value, *grid.along(value.ndim), ends), kind.type)
    if grid.scale.size != 1:
        raise site.refuse("a scale per channel for a value computed at run time", "quantize activations per tensor")
    return site.make(TO_CODES, site.make("FakeQuantize", x, **grid.attrs()), **grid.attrs())


def _quantize_linear(site: Site) -> Results:
    """Per tensor and in 8 or 16 bits the format of the value; else numbers of their own."""
    block, kind = int(site.attr("block_size", 0)), _kind_of_codes(site)
    if not block and not _has_constants(site, 1):
        return _rounded(site, kind, _around(site, 1), _around(site, 2) if site.input(2) else "")
    grid = grid_of_inputs(site, 1, 2, int(site.attr("axis", 1)), onnx.TensorProto.DataType.Name(kind).lower())
    is_known, has_few_bits = site.value(site.input(0)) is not None, NARROW.get(kind, (0, LEVELS))[1] < LEVELS
    if block or has_few_bits or kind in SMALL_FLOATS or (grid.scale.size != 1 and not is_known):
        return _by_elements(site, grid, block, kind)
    return (_quantized(site, site.input(0), grid),)


def _kind_of_codes(site: Site) -> int:
    """The element type of a QuantizeLinear's result: as it says, as its zero point has it, or uint8."""
    given, zero = int(site.attr("output_dtype", 0)), site.input(2)
    if given or not zero:
        return given or onnx.TensorProto.UINT8
    value = site.value(zero)
    if zero in site.builder.kinds or value is None:
        return site.builder.kinds.get(zero, onnx.TensorProto.UNDEFINED)
    names = onnx.TensorProto.DataType.keys()
    name = value.dtype.name.upper()
    return onnx.TensorProto.DataType.Value(name) if name in names else onnx.TensorProto.UNDEFINED


def _by_elements(site: Site, grid: Grid, block: int, kind: int) -> Results:
    """By scales that differ from element to element."""
    scale, zero = spread(site, grid.scale, block), spread(site, grid.zero, block)
    return _rounded(site, kind, site.constant("scale", scale), site.constant("zero", zero))


def _rounded(site: Site, kind: int, scale: str, zero: str) -> Results:
    """round(x / scale) + zero within the type, as numbers."""
    if kind in SMALL_FLOATS:
        units = site.make("Div", site.input(0), scale)
        return site.last(FLOAT_CAST, units, **attributes_of(SMALL_FLOATS[kind], bool(site.attr("saturate", 1))))
    if kind not in NARROW:
        name = onnx.TensorProto.DataType.Name(kind).lower()
        raise site.refuse(f"to {name}", "whole numbers of up to 16 bits are supported")
    low, values = NARROW[kind]
    units = site.make("Round", site.make("Div", site.input(0), scale))
    moved = site.make("Add", units, zero) if zero else units
    return site.last("Clip", moved, site.constant("low", low), site.constant("high", low + values - 1))


def _has_constants(site: Site, scale: int) -> bool:
    """Whether the scale at position `scale` and the zero point behind it are known when the model is read."""
    return all(not name or site.value(name) is not None for name in map(site.input, (scale, scale + 1)))


def _around(site: Site, index: int) -> str:
    """A scale or zero point, so that it broadcasts to the first input."""
    name, rank = site.input(index), len(site.shape(site.input(0)))
    size = element_count(site.shape(name))
    if size == 1:
        return name
    shape = [size if at == site.axis(1, rank) else 1 for at in range(rank)]
    return site.make("Reshape", name, site.constant(f"shape{index}", shape, np.int64))


# ---- and back


def real_value(site: Site, codes: str, grid: Grid) -> str:
    """The real value behind `codes`; ModelError for constants that are no numbers."""
    value = site.value(codes)
    if value is not None:
        return _constant(site, codes, value, grid)
    if grid.scale.size == 1:
        kind = grid.kind or known_kind(site.builder, codes)
        if kind in KINDS and known_kind(site.builder, codes) == kind:
            return _real(site, codes, replace(grid, kind=kind)) or site.make(
                FROM_CODES, codes, **replace(grid, kind=kind).attrs()
            )
    scale, zero = grid.along(len(site.shape(codes)))
    moved = site.make("Sub", codes, site.constant("zero", zero)) if zero.any() else codes
    return site.make("Mul", moved, site.constant("scale", scale))


def _constant(site: Site, codes: str, value: np.ndarray, grid: Grid) -> str:
    scale, zero = grid.along(value.ndim)
    if value.dtype.kind == "f":  # of 8 or 4 bits
        return site.constant("real", (value - zero) * scale)
    if value.dtype.kind not in "iu":
        raise site.refuse(f"'{codes}' holds {value.dtype} values", "numbers are supported")
    made = (value.astype(np.int64) - zero).astype(np.float32) * scale
    name = site.builder.constant(f"{codes}.real", made.astype(np.float32))
    site.builder.steps[name] = scale.astype(np.float64)
    if codes in site.builder.grouped:
        site.builder.grouped.add(name)
    return name


def known_kind(builder: Builder, codes: str) -> str:
    """The integer type of run-time `codes`, as far as their origin tells; empty if it does not."""
    while True:
        fmt, node = builder.pinned.get(codes), builder.producer(codes)
        if fmt is not None and fmt.grid is not None:
            made = fmt.bits, -fmt.grid[1]
            return next((kind for kind, known in KINDS.items() if known == made), "")
        if node is None or (node.op not in CHOOSING | {TO_CODES, "Pad"} and whole.KIND not in node.attrs):
            return ""
        if whole.KIND in node.attrs:
            return str(node.attrs[whole.KIND])
        if node.op == TO_CODES:
            bits, offset = int(node.attrs["bits"]), int(node.attrs["offset"])
            return next(kind for kind, made in KINDS.items() if made == (bits, offset))
        codes = node.inputs[0]


def _real(site: Site, codes: str, grid: Grid) -> str | None:
    """The real value that `codes` were made of by the same numbers, moved as they were; None if there is none."""
    builder = site.builder
    node = builder.producer(codes)
    if node is None or node.body is not None:
        return None
    if node.op == TO_CODES:
        return node.inputs[0] if dict(node.attrs) == grid.attrs() else None
    if node.op not in CHOOSING and node.op != "Pad":
        return None
    known = builder.reals.get((codes, *grid.attrs().values()))
    if known is not None:
        return known
    found = [_real(site, name, grid) for name in node.inputs]
    inputs = tuple(name for name in found if name is not None)
    if len(inputs) != len(found):
        return None
    attrs = dict(node.attrs)
    if node.op == "Pad":
        attrs["value"] = (attrs["value"] - float(grid.zero.reshape(-1)[0])) * float(grid.scale.reshape(-1)[0])
    made = tuple(builder.value(f"{name}.real", site.shape(name)) for name in node.outputs)
    builder.put(replace(node, inputs=inputs, outputs=made, attrs=attrs))
    for name, real in zip(node.outputs, made, strict=True):
        builder.reals[name, *grid.attrs().values()] = real
    return made[node.outputs.index(codes)]


def _dequantize_linear(site: Site) -> Results:
    codes, block = site.input(0), int(site.attr("block_size", 0))
    if not block and not _has_constants(site, 1):
        moved = site.make("Sub", codes, _around(site, 2)) if site.input(2) else codes
        return site.last("Mul", moved, _around(site, 1))
    if not block:
        return (real_value(site, codes, grid_of_inputs(site, 1, 2, int(site.attr("axis", 1)))),)
    return (dequantized(site, block),)


# ---- operators on integers


def _operand(site: Site, index: int, axis: int = 1) -> str:
    """The real value of three inputs from `index` on: codes, scale, zero point."""
    return real_value(site, site.input(index), grid_of_inputs(site, index + 1, index + 2, axis))


def _bias(site: Site, index: int, scales: np.ndarray) -> list[str]:
    """Integers in units of the product of both factors' scales."""
    if not site.input(index):
        return []
    value = site.static(index, "bias")
    return [_constant(site, site.input(index), value, Grid(scales.reshape(-1), np.zeros(1, np.int64), "", -1))]


def _scale_of(site: Site, *indices: int) -> np.ndarray:
    made = np.ones(1)
    for index in indices:
        made = made * site.static(index, "scale").astype(np.float64).reshape(-1)
    return made


def _in_planes(site: Site, op: str, x: str, *others: str) -> str:
    """What `op` makes of `x`; around it channels are moved to the front and back where they are the last axis."""
    attrs = {name: value for name, value in site.call.attrs.items() if name != "channels_last"}
    rank, is_last = len(site.shape(x)), site.call.op == NHWC_POOL or int(site.attr("channels_last", 0))
    if not is_last:
        return site.make(op, x, *others, **attrs)
    made = site.make(op, site.make("Transpose", x, perm=[0, rank - 1, *range(1, rank - 1)]), *others, **attrs)
    return site.make("Transpose", made, perm=[0, *range(2, rank), 1])


def _qlinear_conv(site: Site) -> Results:
    weights = _operand(site, 3, 0)
    bias = _bias(site, 8, _scale_of(site, 1, 4))
    y = _in_planes(site, "Conv", _operand(site, 0), weights, *bias)
    return (_quantized(site, y, grid_of_inputs(site, 6, 7)),)


def _nhwc_max_pool(site: Site) -> Results:
    return (_in_planes(site, "MaxPool", site.input(0)),)


def _qlinear_matmul(site: Site) -> Results:
    if site.static(1, "scale").size != 1:
        raise site.refuse("a scale per row of the first operand", "quantize it per tensor")
    return (
        _quantized(site, site.make("MatMul", _operand(site, 0), _operand(site, 3, -1)), grid_of_inputs(site, 6, 7)),
    )


def _q_gemm(site: Site) -> Results:
    turned, alpha = int(site.attr("transB", 0)), float(site.attr("alpha", 1.0))
    weights = _operand(site, 3, 0 if turned else 1)
    bias = _bias(site, 6, alpha * _scale_of(site, 1, 4))
    y = site.make("Gemm", _operand(site, 0), weights, *bias, **site.call.attrs)
    return (_quantized(site, y, grid_of_inputs(site, 7, 8)) if site.input(7) else y,)


def _of(op: str, operands: int) -> Rewrite:
    """`operands` triples, then scale and zero point of the result."""
    attributes = {"LeakyRelu": ("alpha",), "Softmax": ("axis", "opset")}.get(op, ())

    def apply(site: Site) -> Results:
        attrs = {name: value for name, value in site.call.attrs.items() if name != "opset"}
        y = site.make(op, *(_operand(site, 3 * index) for index in range(operands)), **attrs)
        return (_quantized(site, y, grid_of_inputs(site, 3 * operands, 3 * operands + 1)),)

    return Rewrite(f"QLinear{op}", f"as {op} between quantized values", apply, attributes, MICROSOFT)


POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides", "dilations")


def _pool(site: Site) -> Results:
    y = _in_planes(site, site.call.op.removeprefix("QLinear"), _operand(site, 0))
    return (_quantized(site, y, grid_of_inputs(site, 3, 4)),)


def _concat(site: Site) -> Results:
    parts = [_operand(site, index) for index in range(2, len(site.call.inputs), 3)]
    return (_quantized(site, site.make("Concat", *parts, axis=int(site.attr("axis", 0))), grid_of_inputs(site, 0, 1)),)


def _whole(site: Site, index: int, zero: int, axis: int) -> str:
    """Codes less their zero point, which may be one number per channel along `axis`."""
    codes = site.input(index)
    if site.input(zero) and site.value(site.input(zero)) is None and element_count(site.shape(site.input(zero))) == 1:
        return site.make("Sub", codes, site.input(zero))
    value, point = site.value(codes), site.static(zero, "zero point") if site.input(zero) else None
    points = np.zeros(1, np.int64) if point is None else point.reshape(-1).astype(np.int64)
    kind = point.dtype.name if point is not None else value.dtype.name if value is not None else ""
    return real_value(site, codes, Grid(np.ones(points.size, np.float32), points, kind, axis))


def _conv_integer(site: Site) -> Results:
    return site.last("Conv", _whole(site, 0, 2, 1), _whole(site, 1, 3, 0), **site.call.attrs)


def _matmul_integer(site: Site) -> Results:
    rank = len(site.shape(site.input(0)))
    return site.last("MatMul", _whole(site, 0, 2, rank - 2), _whole(site, 1, 3, -1))


def input_kind(element_type: int) -> str:
    """The kind of an input that is quantized already; empty for all others."""
    kind = onnx.TensorProto.DataType.DESCRIPTOR.values_by_number.get(element_type)
    name = kind.name.lower() if kind is not None else ""
    return name if name in KINDS else ""


CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_AXIS = ("axis", "block_size")
REWRITES = (
    Rewrite(
        "QuantizeLinear",
        "per tensor to 8 and 16 bits: the format of the value; per channel, block, at run time: as Div and Round",
        _quantize_linear,
        (*_AXIS, "output_dtype", "precision", "saturate"),
    ),
    Rewrite(
        "DequantizeLinear",
        "per tensor; constants, of 4 bits too (their integers are kept), per channel, and per block",
        _dequantize_linear,
        (*_AXIS, "output_dtype"),
    ),
    Rewrite(
        "QLinearConv",
        "as Conv between quantized values; weights per channel",
        _qlinear_conv,
        CONV,
    ),
    Rewrite(
        NHWC_CONV,
        "QLinearConv of onnxruntime, channels first or last",
        _qlinear_conv,
        (*CONV, "channels_last"),
        MICROSOFT,
    ),
    Rewrite(NHWC_POOL, "as MaxPool between Transpose", _nhwc_max_pool, POOL, MICROSOFT),
    Rewrite("QLinearMatMul", "as MatMul between quantized values; weights per column", _qlinear_matmul),
    Rewrite(
        "ConvInteger",
        "as Conv of codes less their zero points",
        _conv_integer,
        CONV,
    ),
    Rewrite("MatMulInteger", "as MatMul of codes less their zero points", _matmul_integer),
    Rewrite("QGemm", "as Gemm between quantized values", _q_gemm, ("alpha", "transA", "transB"), MICROSOFT),
    _of("Add", 2),
    _of("Mul", 2),
    _of("Sigmoid", 1),
    _of("LeakyRelu", 1),
    _of("Softmax", 1),
    Rewrite("QLinearAveragePool", "as AveragePool", _pool, (*POOL, "channels_last"), MICROSOFT),
    Rewrite("QLinearGlobalAveragePool", "as GlobalAveragePool", _pool, ("channels_last",), MICROSOFT),
    Rewrite("QLinearConcat", "as Concat between quantized values", _concat, ("axis",), MICROSOFT),
)
