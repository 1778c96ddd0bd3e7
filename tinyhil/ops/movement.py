"""Moving elements: Concat, Slice, Split, Transpose, Pad, Expand and Gather with constant indices.

Two kernels do all of it: `move` reads with any strides and writes one element after the other, `place` reads one after
the other and writes a block of a larger tensor. Both rescale, since each value has a scale of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyhil.formats.codec import quantize, requantize
from tinyhil.formats.format import Format
from tinyhil.language.form import Form
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import REAL
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops.operator import Arrays, Kernel, Operator, accumulator_bits, attr, axis_of, broadcast, by_domain, refuse
from tinyhil.ops.scan import FILL

RANK = 4
FIELDS = ("offset", "size_0", "size_1", "size_2", "size_3", "stride_0", "stride_1", "stride_2", "stride_3")


def ints(node: Node, values: Sequence[np.ndarray | None], index: int, name: str) -> list[int] | None:
    """A list of integers: attribute `name` or constant input `index`; None if the node has neither.

    ModelError if it is computed.
    """
    if name in node.attrs:
        return [int(v) for v in node.attrs[name]]
    if index >= len(node.inputs) or not node.inputs[index]:
        return None
    array = values[index]
    if array is None:
        raise refuse(node, f"'{name}' is computed at run time", "export with constant shapes")
    return [int(v) for v in array.reshape(-1)]


def strides_of(shape: Shape) -> list[int]:
    """Elements from one index to the next, per axis."""
    return [element_count(shape[axis + 1 :]) for axis in range(len(shape))]


# ---- blocks: a tensor seen with other strides


def block(node: Node, sizes: Sequence[int], strides: Sequence[int], offset: int) -> dict[str, int]:
    """Parameters of `hil::Block`: neighbouring axes joined, axes of 1 dropped, four at most.

    ModelError for too many axes at once.
    """
    axes: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1] == size * stride:
            axes[-1] = (axes[-1][0] * size, stride)
        else:
            axes.append((size, stride))
    if len(axes) > RANK:
        raise refuse(node, f"rearranges {len(axes)} axes at once, the limit is {RANK}", "split it into two nodes")
    axes = [(1, 0)] * (RANK - len(axes)) + axes
    params = {"offset": offset}
    for axis, (size, stride) in enumerate(axes):
        params[f"size_{axis}"], params[f"stride_{axis}"] = size, stride
    return params


def straight(count: int) -> dict[str, int]:
    """The block of elements that follow each other."""
    axes = {f"{what}_{axis}": 1 for what in ("size", "stride") for axis in range(RANK)}
    return {**axes, "offset": 0, f"size_{RANK - 1}": count}


def indices(params: dict[str, int]) -> np.ndarray:
    """Flat positions a block touches, in its order."""
    at = np.array([params["offset"]])
    for axis in range(RANK):
        at = (at[:, None] + np.arange(params[f"size_{axis}"]) * params[f"stride_{axis}"]).reshape(-1)
    return at


def emit_move(node: Node, lowering: Lowering, output: str, params: dict[str, int], halvings: int = 0) -> None:
    """`output` takes the elements of the first input at the positions of the block, times 2**-halvings."""
    source, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
    out = lowering.define(output)
    shift = out.format.exponent - fmt.exponent + halvings
    bits = accumulator_bits(-fmt.lowest, shift)
    lowering.emit(node, Op(MOVE.form, node.name, (source,), out.name, {**params, "shift": shift}, bits))


def _emit_place(
    node: Node, lowering: Lowering, part: str, target: str, params: dict[str, int], first: bool, doublings: int = 0
) -> None:
    source, fmt, out = lowering.operand(part), lowering.loaded(part), lowering.tensors[target]
    shift = out.format.exponent - fmt.exponent - doublings
    inputs = (source,) if first else (source, target)
    kernel = PLACE if first else PLACE_MORE
    params = {**params, "count": out.count, "shift": shift}
    bits = accumulator_bits(-fmt.lowest, shift)
    lowering.emit(node, Op(kernel.form, node.name, inputs, target, params, bits))


def _execute_move(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    return requantize(arrays[0][:, indices(dict(op.params))], op.params["shift"], out)


def _execute_place(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    part, clipped = requantize(arrays[0], op.params["shift"], out)
    whole = arrays[1] if len(arrays) == 2 else np.zeros((1, op.params["count"]), np.int64)
    samples = max(len(part), len(whole))
    whole = np.broadcast_to(whole, (samples, whole.shape[1])).copy()
    whole[:, indices(dict(op.params))] = part
    return whole, np.broadcast_to(clipped, (samples, clipped.shape[1]))


# ---- Concat


def _infer_concat(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axis = axis_of(node, attr(node, "axis", 0), len(shapes[0]))
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rest) != 1 or len({len(shape) for shape in shapes}) != 1:
        raise refuse(node, f"shapes {', '.join(str(list(s)) for s in shapes)} along axis {axis}", "check the model")
    return [(*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])]


def doublings_of(node: Node) -> Sequence[int]:
    """By which power of two Concat multiplies each operand: where several outputs of a model share one tensor, they
    are brought to one scale (columns.py)."""
    given = node.attrs.get("doublings")
    return [0] * len(node.inputs) if given is None else [int(by) for by in given]


def _evaluate_concat(node: Node, arrays: Arrays) -> list[np.ndarray]:
    axis = axis_of(node, attr(node, "axis", 0), arrays[0].ndim - 1) + 1
    samples = max(len(array) for array in arrays)
    scaled = [np.ldexp(a, by) if by else a for a, by in zip(arrays, doublings_of(node), strict=True)]
    return [np.concatenate([np.broadcast_to(a, (samples, *a.shape[1:])) for a in scaled], axis=axis)]


def _lower_concat(node: Node, lowering: Lowering) -> None:
    shape = lowering.shape(node.outputs[0])
    axis = axis_of(node, attr(node, "axis", 0), len(shape))
    out, strides, offset = lowering.define(node.outputs[0]), strides_of(shape), 0
    for number, (part, by) in enumerate(zip(node.inputs, doublings_of(node), strict=True)):
        sizes = lowering.shape(part)
        _emit_place(node, lowering, part, out.name, block(node, sizes, strides, offset), number == 0, by)
        offset += sizes[axis] * strides[axis]


# ---- Slice and Split: settled into `begin`, `step` and `sizes` per axis, one list per output


def _settle_slice(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> Node:
    shape = shapes[0]
    starts, ends = ints(node, values, 1, "starts"), ints(node, values, 2, "ends")
    if starts is None or ends is None:
        raise refuse(node, "no starts or ends", "the file is damaged")
    axes = ints(node, values, 3, "axes") or list(range(len(starts)))
    steps = ints(node, values, 4, "steps") or [1] * len(starts)
    begin, step, sizes = [0] * len(shape), [1] * len(shape), list(shape)
    for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True):
        at = axis_of(node, axis, len(shape))
        taken = range(shape[at])[start:end:stride]  # clamps exactly as ONNX asks
        begin[at], step[at], sizes[at] = taken.start, stride, len(taken)
    return replace(node, inputs=node.inputs[:1], attrs={"parts": [(begin, step, sizes)]})


def _settle_split(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> Node:
    shape = shapes[0]
    axis = axis_of(node, attr(node, "axis", 0), len(shape))
    split = ints(node, values, 1, "split")
    if split is None:
        count = attr(node, "num_outputs", len(node.outputs))
        each = -(-shape[axis] // count)
        split = [min(each, shape[axis] - i * each) for i in range(count)]
    if sum(split) != shape[axis] or min(split) < 1 or len(split) != len(node.outputs):
        raise refuse(node, f"parts {split} of {shape[axis]} elements", "check the exported model")
    parts, at = [], 0
    for size in split:
        begin = [at if i == axis else 0 for i in range(len(shape))]
        parts.append((begin, [1] * len(shape), [size if i == axis else dim for i, dim in enumerate(shape)]))
        at += size
    return replace(node, inputs=node.inputs[:1], attrs={"parts": parts})


def _infer_parts(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [tuple(sizes) for _, _, sizes in node.attrs["parts"]]


def halvings_of(node: Node) -> int:
    """By which power of two what Slice takes is divided: one of several inputs of a model, of which each has a scale of
    its own (columns.py)."""
    return int(node.attrs.get("halvings", 0))


def _evaluate_parts(node: Node, arrays: Arrays) -> list[np.ndarray]:
    results = []
    for begin, step, sizes in node.attrs["parts"]:
        out = arrays[0]
        for axis, (first, stride, size) in enumerate(zip(begin, step, sizes, strict=True)):
            out = np.take(out, first + stride * np.arange(size), axis=axis + 1)
        results.append(np.ldexp(out, -halvings_of(node)) if halvings_of(node) else out)
    return results


def _lower_parts(node: Node, lowering: Lowering) -> None:
    strides = strides_of(lowering.shape(node.inputs[0]))
    for output, (begin, step, sizes) in zip(node.outputs, node.attrs["parts"], strict=False):
        offset = sum(first * stride for first, stride in zip(begin, strides, strict=True))
        steps = [stride * jump for stride, jump in zip(strides, step, strict=True)]
        emit_move(node, lowering, output, block(node, sizes, steps, offset), halvings_of(node))


# ---- Transpose


def _perm(node: Node, rank: int) -> list[int]:
    perm = list(attr(node, "perm", range(rank - 1, -1, -1)))
    if sorted(perm) != list(range(rank)):
        raise refuse(node, f"perm {perm} of {rank} axes", "the file is damaged")
    return perm


def _infer_transpose(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [tuple(shapes[0][axis] for axis in _perm(node, len(shapes[0])))]


def _evaluate_transpose(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [arrays[0].transpose(0, *(axis + 1 for axis in _perm(node, arrays[0].ndim - 1)))]


def _lower_transpose(node: Node, lowering: Lowering) -> None:
    shape = lowering.shape(node.inputs[0])
    strides, perm = strides_of(shape), _perm(node, len(shape))
    params = block(node, [shape[axis] for axis in perm], [strides[axis] for axis in perm], 0)
    emit_move(node, lowering, node.outputs[0], params)


# ---- Expand


def _settle_expand(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> Node:
    wanted = ints(node, values, 1, "shape")
    return replace(node, inputs=node.inputs[:1], attrs={"shape": broadcast(node, [shapes[0], tuple(wanted or ())])})


def _infer_expand(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    return [tuple(node.attrs["shape"])]


def _evaluate_expand(node: Node, arrays: Arrays) -> list[np.ndarray]:
    x, shape = arrays[0], tuple(node.attrs["shape"])
    x = x.reshape(len(x), *(1,) * (len(shape) - x.ndim + 1), *x.shape[1:])
    return [np.broadcast_to(x, (len(x), *shape))]


def _lower_expand(node: Node, lowering: Lowering) -> None:
    emit_move(node, lowering, node.outputs[0], expansion(node, lowering.shape(node.inputs[0]), node.attrs["shape"]))


def expansion(node: Node, shape: Shape, target: Shape) -> dict[str, int]:
    """The block that reads a tensor of `shape` as if it had been broadcast to `target`."""
    padded = (1,) * (len(target) - len(shape)) + tuple(shape)
    strides = [0 if dim == 1 else stride for dim, stride in zip(padded, strides_of(padded), strict=True)]
    return block(node, target, strides, 0)


def spread(node: Node, lowering: Lowering, value: str, target: Shape) -> str:
    """A tensor that holds run-time `value` broadcast to `target`."""
    fmt, source = lowering.format(value), lowering.tensor(value)
    tensor = lowering.scratch(f"{value}.spread", element_count(target), fmt)
    params = {**expansion(node, lowering.shape(value), target), "shift": 0}
    lowering.emit(node, Op(MOVE.form, f"{node.name}.spread", (source,), tensor.name, params, fmt.bits))
    return tensor.name


def repeated(node: Node, lowering: Lowering, value: str) -> tuple[str, int]:
    """Tensor of operand `value` and the elements after which it repeats: its own count if it broadcasts over leading
    axes only. Along inner axes it is spread out, a constant when the model is compiled."""
    shape = lowering.shape(value)
    trimmed = shape[next((i for i, dim in enumerate(shape) if dim != 1), len(shape)) :]
    target = lowering.shape(node.outputs[0])
    if not trimmed or trimmed == target[len(target) - len(trimmed) :]:
        return lowering.operand(value), element_count(trimmed)
    constant = lowering.constant(value)
    if constant is None:
        return spread(node, lowering, value, target), element_count(target)
    whole = np.broadcast_to(constant, target)
    return lowering.add_constant(value, whole, lowering.format(value)), whole.size


# ---- Pad


def _settle_pad(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> Node:
    mode = attr(node, "mode", b"constant")
    if (mode.decode() if isinstance(mode, bytes) else mode) != "constant":
        raise refuse(node, f"mode {mode!r}", "only constant padding is supported")
    given, rank = ints(node, values, 1, "pads"), len(shapes[0])
    if given is None or min(given, default=0) < 0:
        raise refuse(node, f"pads {given}", "cut the tensor with Slice")
    axes = [axis_of(node, axis, rank) for axis in ints(node, values, 3, "axes") or range(rank)]
    front, back = [0] * rank, [0] * rank
    for number, axis in enumerate(axes):
        front[axis], back[axis] = given[number], given[number + len(axes)]
    value = 0.0
    if len(node.inputs) > 2 and node.inputs[2]:
        fill = values[2]
        if fill is None:
            raise refuse(node, "the padding value is computed at run time", "use a constant")
        value = float(fill.reshape(-1)[0])
    return replace(node, inputs=node.inputs[:1], attrs={"front": front, "back": back, "value": value})


def _infer_pad(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    sides = zip(shapes[0], node.attrs["front"], node.attrs["back"], strict=True)
    return [tuple(dim + front + back for dim, front, back in sides)]


def _evaluate_pad(node: Node, arrays: Arrays) -> list[np.ndarray]:
    sides = [(0, 0), *zip(node.attrs["front"], node.attrs["back"], strict=True)]
    return [np.pad(arrays[0], sides, constant_values=node.attrs["value"])]


def _lower_pad(node: Node, lowering: Lowering) -> None:
    out = lowering.define(node.outputs[0])
    value = int(quantize(np.array([node.attrs["value"]]), out.format)[0][0])
    lowering.append(Op(FILL.form, f"{node.name}.value", (), out.name, {"count": out.count, "value": value}))
    strides = strides_of(lowering.shape(node.outputs[0]))
    offset = sum(front * stride for front, stride in zip(node.attrs["front"], strides, strict=True))
    params = block(node, lowering.shape(node.inputs[0]), strides, offset)
    _emit_place(node, lowering, node.inputs[0], out.name, params, first=False)


# ---- Gather


def _settle_gather(node: Node, shapes: Sequence[Shape], values: Sequence[np.ndarray | None]) -> Node:
    chosen = values[1]
    if chosen is None:
        raise refuse(node, "the indices are computed at run time", "only constant indices are supported")
    axis = axis_of(node, attr(node, "axis", 0), len(shapes[0]))
    size = shapes[0][axis]
    if chosen.size and not -size <= int(chosen.min()) <= int(chosen.max()) < size:
        raise refuse(node, f"indices {chosen.min()} to {chosen.max()} of {size} elements", "check the exported model")
    attrs = {"axis": axis, "indices": np.asarray(chosen, np.int64) % size}
    return replace(node, inputs=node.inputs[:1], attrs=attrs)


def _infer_gather(node: Node, shapes: Sequence[Shape], _: Sequence[np.ndarray | None]) -> list[Shape]:
    axis = node.attrs["axis"]
    return [(*shapes[0][:axis], *node.attrs["indices"].shape, *shapes[0][axis + 1 :])]


def _evaluate_gather(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [np.take(arrays[0], node.attrs["indices"], axis=node.attrs["axis"] + 1)]


def _lower_gather(node: Node, lowering: Lowering) -> None:
    shape, axis = lowering.shape(node.inputs[0]), node.attrs["axis"]
    if shape[axis] > 1 << 16:
        raise refuse(node, f"chooses of {shape[axis]} elements, the limit is {1 << 16}", "gather outside of the model")
    source, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
    out = lowering.define(node.outputs[0])
    chosen = node.attrs["indices"].reshape(-1)
    table = lowering.add_table(f"{out.name}.indices", chosen)
    shift = out.format.exponent - fmt.exponent
    params = {
        "outer": element_count(shape[:axis]),
        "chosen": chosen.size,
        "size": shape[axis],
        "inner": element_count(shape[axis + 1 :]),
        "shift": shift,
    }
    bits = accumulator_bits(-fmt.lowest, shift)
    lowering.emit(node, Op(GATHER.form, node.name, (table, source), out.name, params, bits))


def _execute_gather(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    x = arrays[1].reshape(-1, p["outer"], p["size"], p["inner"])
    return requantize(x[:, :, arrays[0].reshape(-1)].reshape(len(x), -1), p["shift"], out)


_BLOCK = ("Block", FIELDS)
MOVE = Kernel(
    Form("move"),
    "read with strides",
    _execute_move,
    ("shift",),
    ("shift",),
    struct=_BLOCK,
    coded=REAL,
)
PLACE = Kernel(
    Form("place"),
    "write a block of a larger tensor",
    _execute_place,
    ("shift",),
    ("shift",),
    struct=_BLOCK,
    coded=REAL,
)
PLACE_MORE = Kernel(
    Form("place_more"),
    "place beside what is there already",
    _execute_place,
    ("shift",),
    ("shift",),
    struct=_BLOCK,
    coded=REAL,
    codes=(1,),
)
GATHER = Kernel(
    Form("gather_rows"),
    "rows chosen by a constant table",
    _execute_gather,
    ("outer", "chosen", "size", "inner", "shift"),
    ("shift",),
    coded=REAL,
)
KERNELS = (MOVE, PLACE, PLACE_MORE, GATHER)


OPERATORS = (
    Operator("Concat", "any axis", _infer_concat, _evaluate_concat, by_domain(_lower_concat), ("axis",)),
    Operator(
        "Slice",
        "constant bounds, any steps",
        _infer_parts,
        _evaluate_parts,
        by_domain(_lower_parts),
        settle=_settle_slice,
    ),
    Operator(
        "Split",
        "constant parts",
        _infer_parts,
        _evaluate_parts,
        by_domain(_lower_parts),
        ("axis", "num_outputs"),
        settle=_settle_split,
    ),
    Operator(
        "Transpose",
        "any order of the axes",
        _infer_transpose,
        _evaluate_transpose,
        by_domain(_lower_transpose),
        ("perm",),
    ),
    Operator(
        "Expand", "constant shape", _infer_expand, _evaluate_expand, by_domain(_lower_expand), settle=_settle_expand
    ),
    Operator(
        "Pad",
        "constant mode, constant pads",
        _infer_pad,
        _evaluate_pad,
        by_domain(_lower_pad),
        ("mode",),
        settle=_settle_pad,
    ),
    Operator(
        "Gather",
        "constant indices, any axis",
        _infer_gather,
        _evaluate_gather,
        by_domain(_lower_gather),
        ("axis",),
        settle=_settle_gather,
    ),
)
