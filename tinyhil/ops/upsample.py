"""ConvTranspose (1-D and 2-D) and Interpolate, the linear part of Resize along one axis.

ConvTranspose computes each output by itself: the taps that fall on an input are summed exactly, the bias in the sum.
Interpolate is x[i] (1 - w) + x[i + 1] w with a table of i and of w in units of 2**-15: one rounding per axis, w wrong
by at most 2**-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyhil.formats import quire as sums
from tinyhil.formats.codec import requantize
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import CODED, INTEGER, Format
from tinyhil.language.arithmetic import rounded, sum_of_products
from tinyhil.language.form import Form
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import QUIRE
from tinyhil.language.lowering_context import Lowering, domain_of, loaded
from tinyhil.language.program import Op
from tinyhil.ops import window
from tinyhil.ops.operator import Arrays, Kernel, Operator, accumulator_bits, attr, by_domain, refuse, require_constants
from tinyhil.ops.sums import Constant, joining, proven
from tinyhil.ops.window import Window

WEIGHT_BITS = 15
MAX_OUTPUTS = 1 << 20


def _per_axis(node: Node, name: str, rank: int, default: int) -> list[int]:
    values = [int(v) for v in attr(node, name, None) or [default] * rank]
    if len(values) != rank or min(values) < default:
        raise refuse(node, f"{name} {values} for {rank} spatial axes", "the file is damaged")
    return values


def transposed_window(node: Node, x: Shape, kernel: Sequence[int]) -> Window:
    """Output (y, x) takes input row i by tap k where y + pad = i * stride + k * dilation.

    ModelError for what is not supported.
    """
    rank = len(x) - 2
    if rank not in (1, 2) or x[0] != 1 or len(kernel) != rank or min(kernel) < 1:
        raise refuse(
            node, f"input {list(x)}, kernel {list(kernel)}: 1-D or 2-D with a batch of 1 is supported", "reshape it"
        )
    strides, dilations = (_per_axis(node, name, rank, 1) for name in ("strides", "dilations"))
    more = _per_axis(node, "output_padding", rank, 0)
    pads = [int(v) for v in attr(node, "pads", None) or [0] * (2 * rank)]
    shape = attr(node, "output_shape", None)
    auto = attr(node, "auto_pad", b"NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else str(auto)
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER", "") or len(pads) != 2 * rank or min(pads) < 0:
        raise refuse(node, f"auto_pad {auto}, pads {pads}", "the file is damaged")
    outputs, front = [], []
    for axis in range(rank):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        full = (x[2 + axis] - 1) * strides[axis] + more[axis] + reach
        begin, end = (pads[axis], pads[axis + rank]) if auto in ("NOTSET", "") else (0, 0)
        if shape is not None or auto.startswith("SAME"):
            size = int(shape[axis]) if shape is not None else x[2 + axis] * strides[axis]
            total = max(full - size, 0)
            begin = total // 2 if auto == "SAME_UPPER" else total - total // 2
            end = full - size - begin
        outputs.append(full - begin - end)
        front.append(begin)
    if min(outputs) < 1 or max(outputs) > MAX_OUTPUTS:
        raise refuse(node, f"{outputs} outputs", "check pads and output_shape")
    (out_y, pad_y, k_y, s_y, d_y), (out_x, pad_x, k_x, s_x, d_x) = [(1, 0, 1, 1, 1)] * (2 - rank) + list(
        zip(outputs, front, kernel, strides, dilations, strict=True)
    )
    height, width = (1, x[2]) if rank == 1 else (x[2], x[3])
    return Window(x[1], height, width, out_y, out_x, k_y, k_x, s_y, s_x, pad_y, pad_x, d_y, d_x)


def _infer(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> list[Shape]:
    require_constants(node, values)
    x, w = shapes[0], shapes[1]
    groups = attr(node, "group", 1)
    if len(w) != len(x) or groups < 1 or len(x) < 3 or x[1] != w[0] or w[0] % groups:
        raise refuse(node, f"weights {list(w)} in {groups} groups for an input {list(x)}", "check the exported model")
    outputs = w[1] * groups
    if len(shapes) == 3 and shapes[2] != (outputs,):
        raise refuse(node, f"a bias {list(shapes[2])} for {outputs} channels", "check the exported model")
    return [window.output_shape(x, outputs, transposed_window(node, x, w[2:]))]


def _span(outputs: int, inputs: int, stride: int, offset: int) -> tuple[slice, slice]:
    """Outputs i * stride + offset that exist, and their inputs i."""
    first = max(0, -(offset // stride))
    end = min(inputs, (outputs - 1 - offset) // stride + 1)
    if end <= first:
        return slice(0, 0), slice(0, 0)
    return slice(first * stride + offset, (end - 1) * stride + offset + 1, stride), slice(first, end)


def _scatter(planes: np.ndarray, weights: np.ndarray, w: Window, groups: int) -> np.ndarray:
    """(samples, outputs, height, width) sums; `weights` (groups, inputs, outputs, kernel_y, kernel_x) of a group."""
    x = planes.reshape(len(planes), groups, -1, w.height, w.width)
    shape = (len(x), groups, weights.shape[2], w.out_height, w.out_width)
    out = np.zeros_like(x, np.result_type(x, weights), shape=shape)
    for k_y in range(w.kernel_y):
        to_y, from_y = _span(w.out_height, w.height, w.stride_y, k_y * w.dilation_y - w.pad_y)
        for k_x in range(w.kernel_x):
            to_x, from_x = _span(w.out_width, w.width, w.stride_x, k_x * w.dilation_x - w.pad_x)
            part = np.einsum("sgiyx,gio->sgoyx", x[..., from_y, from_x], weights[..., k_y, k_x])
            out[..., to_y, to_x] += part
    return out.reshape(len(x), -1, w.out_height, w.out_width)


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x, weights, groups = arrays[0], arrays[1][0], attr(node, "group", 1)
    w = transposed_window(node, x.shape[1:], weights.shape[2:])
    grouped = weights.reshape(groups, -1, weights.shape[1], w.kernel_y, w.kernel_x)
    out = _scatter(x.reshape(len(x), w.channels, w.height, w.width), grouped, w, groups)
    if len(arrays) == 3:
        out = out + arrays[2].reshape(1, -1, 1, 1)
    return [out.reshape(len(x), *window.output_shape(x.shape[1:], out.shape[1], w)).astype(np.float32)]


def _lower(node: Node, lowering: Lowering) -> None:
    weights = lowering.constant(node.inputs[1])
    bias = lowering.constant(node.inputs[2]) if len(node.inputs) == 3 else None
    assert weights is not None  # require_constants
    groups = attr(node, "group", 1)
    w = transposed_window(node, lowering.shape(node.inputs[0]), weights.shape[2:])
    # outputs in front: (groups * outputs, inputs of the group, kernel)
    grouped = weights.reshape(groups, -1, weights.shape[1], w.positions)
    in_front = grouped.transpose(0, 2, 1, 3).reshape(groups * weights.shape[1], -1)
    params = {**w.params(), "groups": groups, "outputs": len(in_front)}
    _emit(node, lowering, in_front, np.zeros(len(in_front)) if bias is None else bias, params)


def _emit(node: Node, lowering: Lowering, weights: np.ndarray, bias: np.ndarray, params: dict[str, int]) -> None:
    """The call for `weights` with the outputs in front. The bias is never finer than the unit of the sum it joins."""
    x, fmt = node.inputs[0], lowering.format(node.inputs[1])
    out = lowering.define(node.outputs[0])
    unit = lowering.loaded(x).exponent + loaded(fmt).exponent
    like = lowering.format(node.inputs[2]) if len(node.inputs) == 3 else Fixed(8, unit)  # zeros
    like, bias_shift = joining(like, unit, domain_of((fmt, lowering.format(x))))
    names = (
        lowering.add_constant(node.inputs[1], weights, fmt),
        lowering.operand(x),
        lowering.add_constant(node.inputs[2] if len(node.inputs) == 3 else f"{out.name}.bias", bias, like),
    )
    params = {**params, "bias_shift": bias_shift, "shift": out.format.exponent - unit}
    op = Op(CONV_TRANSPOSE.form, node.name, names, out.name, params)
    lowering.emit(node, proven(op, lowering, Constant(node.inputs[1], weights, fmt), (names[0], names[2]), x))


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    w, each = window.window_of(p), p["outputs"] // p["groups"]
    if op.domain != INTEGER:
        patches = _patches(arrays[1].reshape(-1, p["groups"], w.channels // p["groups"], w.height * w.width), w)
        factors, bias = arrays[0].reshape(p["groups"], each, -1), arrays[2].reshape(p["groups"], -1, 1)
        return rounded(*sum_of_products(op, factors, patches, bias + bias.dtype.type(0)), op, out)
    weights = arrays[0].reshape(p["groups"], each, -1, w.kernel_y, w.kernel_x).transpose(0, 2, 1, 3, 4)
    total = _scatter(arrays[1].reshape(-1, w.channels, w.height, w.width), weights, w, p["groups"])
    total = total + (arrays[2].reshape(1, -1, 1, 1) << p["bias_shift"])
    return requantize(total.reshape(len(total), -1), p["shift"], out)


def _patches(planes: np.ndarray, w: Window) -> np.ndarray:
    """(samples, groups, inputs * taps, pixels): what each tap meets, zeros where it meets nothing."""
    met = np.zeros((w.kernel_y, w.kernel_x, w.out_height, w.out_width), np.int64)  # 1 + its place in the plane
    places = np.arange(1, w.height * w.width + 1).reshape(w.height, w.width)
    for k_y in range(w.kernel_y):
        to_y, from_y = _span(w.out_height, w.height, w.stride_y, k_y * w.dilation_y - w.pad_y)
        for k_x in range(w.kernel_x):
            to_x, from_x = _span(w.out_width, w.width, w.stride_x, k_x * w.dilation_x - w.pad_x)
            met[k_y, k_x, to_y, to_x] = places[from_y, from_x]
    padded = np.concatenate([np.zeros_like(planes[..., :1]), planes], axis=-1)
    found = padded[..., met.reshape(w.positions, -1)]
    return found.reshape(*planes.shape[:2], -1, w.pixels)


# ---- Interpolate: attributes axis, low (positions) and weight (of the next element)


def _infer_interpolate(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axis = node.attrs["axis"]
    return [(*shapes[0][:axis], len(node.attrs["low"]), *shapes[0][axis + 1 :])]


def _pairs(low: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    return low, np.minimum(low + 1, size - 1)


def _evaluate_interpolate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x, axis = arrays[0], node.attrs["axis"] + 1
    low, high = _pairs(np.array(node.attrs["low"]), x.shape[axis])
    weight = np.array(node.attrs["weight"], np.float32).reshape(-1, *(1,) * (x.ndim - axis - 1))
    return [(np.take(x, low, axis) * (1 - weight) + np.take(x, high, axis) * weight).astype(np.float32)]


def _lower_interpolate(node: Node, lowering: Lowering) -> None:
    shape, axis = lowering.shape(node.inputs[0]), node.attrs["axis"]
    if shape[axis] > 1 << 16:
        raise refuse(node, f"an axis of {shape[axis]} elements, the limit is {1 << 16}", "resize outside of the model")
    x, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
    out = lowering.define(node.outputs[0])
    weights = np.floor(np.array(node.attrs["weight"]) * 2.0**WEIGHT_BITS + 0.5).astype(np.int64)
    table = lowering.add_table(f"{out.name}.positions", np.stack([node.attrs["low"], weights], axis=1).reshape(-1))
    shift = out.format.exponent - fmt.exponent + WEIGHT_BITS
    params = {
        "outer": element_count(shape[:axis]),
        "chosen": len(node.attrs["low"]),
        "size": shape[axis],
        "inner": element_count(shape[axis + 1 :]),
        "shift": shift,
    }
    bits = accumulator_bits(-fmt.lowest << WEIGHT_BITS, shift)
    op = Op(INTERPOLATE.form, node.name, (table, x), out.name, params, bits)
    if lowering.domain(node.inputs) == CODED:
        pairs = np.stack([(1 << WEIGHT_BITS) - weights, weights], axis=1).astype(np.float64)
        placed = sums.place(pairs, lowering.format(node.inputs[0]), lowering.observed(node.inputs[0]))
        op = replace(op, accumulator_bits=placed.bits, low=placed.low, guard=placed.guard)
    lowering.emit(node, op)


def _execute_interpolate(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[1].reshape(-1, p["outer"], p["size"], p["inner"])
    pairs = arrays[0].reshape(-1, 2)
    low, high = _pairs(pairs[:, 0], p["size"])
    weights = pairs[:, 1].astype(x.dtype)[:, None]
    both = ((x[:, :, low], (1 << WEIGHT_BITS) - weights), (x[:, :, high], weights))
    if op.domain != CODED:
        total = sum(np.multiply(*pair) for pair in both)
        return rounded(total, np.zeros(total.shape, np.int64), op, out)
    held = sums.Window(op.accumulator_bits, op.low, op.guard)
    (first, clipped), (second, also) = (held.multiply(*np.broadcast_arrays(*pair)) for pair in both)
    return rounded(held.value(first + second), clipped.astype(np.int64) + also, op, out)


CONV_TRANSPOSE = Kernel(
    Form("conv_transpose"),
    "each output the exact sum of the taps that fall on an input, plus a bias, one rounding",
    _execute,
    ("groups", "outputs", "shift", "bias_shift"),
    ("shift", "bias_shift"),
    coded=QUIRE,
    struct=("Window", window.FIELDS),
)
INTERPOLATE = Kernel(
    Form("interpolate"),
    "two neighbours by constant weights along one axis, one rounding",
    _execute_interpolate,
    ("outer", "chosen", "size", "inner", "shift"),
    ("shift",),
    coded=QUIRE,
)
KERNELS = (CONV_TRANSPOSE, INTERPOLATE)

OPERATORS = (
    Operator(
        "ConvTranspose",
        "1-D and 2-D; groups, dilations, strides, any padding; constant weights",
        _infer,
        _evaluate,
        by_domain(_lower),
        ("group", "output_padding", "output_shape", *window.ATTRIBUTES),
    ),
    Operator(
        "Interpolate",
        "linear Resize along one axis; weights to 2^-16",
        _infer_interpolate,
        _evaluate_interpolate,
        by_domain(_lower_interpolate),
        ("axis", "low", "weight"),
    ),
)
