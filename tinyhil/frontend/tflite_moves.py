"""Operators of a .tflite file that move elements: shapes, slices, pads; and states, which are read and assigned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend.tflite_reader import FILE, PLANES, TO_PLANES, Convert, Reader
from tinyhil.frontend.tflite_records import Operation

ALL = np.iinfo(np.int64).max  # an end of Slice beyond every axis


def form_of(reader: Reader, operation: Operation) -> str:
    """Planes where an operand of four axes is there as planes, and all have four axes or are constant numbers."""
    tensors = [reader.file.tensors[number] for number in operation.inputs if number >= 0]
    fits = all(len(t.shape) == 4 or (t.data is not None and t.data.size == 1) for t in tensors)
    held = any((number, PLANES) in reader.values for number in operation.inputs)
    return PLANES if fits and held else FILE


def _held(reader: Reader, number: int) -> str:
    """The form in which tensor `number` is there."""
    return PLANES if (number, PLANES) in reader.values else FILE


def moved(axis: int, rank: int, form: str) -> int:
    """An axis of the file in `form`; ValueError if there is none."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of {rank}")
    return TO_PLANES.index(axis % rank) if form == PLANES else axis % rank


def _rank(reader: Reader, number: int) -> int:
    return len(reader.file.tensors[number].shape)


def shaped(reader: Reader, value: str, shape: Sequence[int], out: str) -> str:
    """`value` with another shape."""
    if reader.builder.shapes[value] == tuple(shape):
        return value
    return reader.add("Reshape", value, reader.number(out, "shape", np.array(shape, np.int64)), out=out)


# ---- shapes


def reshape(reader: Reader, operation: Operation) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the file says the result's shape."""
    tensor = reader.file.tensors[operation.outputs[0]]
    shape = reader.number(tensor.name, "shape", np.array(tensor.shape, np.int64))
    x = reader.value(operation.inputs[0])
    reader.finish(operation, reader.add("Reshape", x, shape, out=f"{tensor.name}.shaped"))


def shape_of(reader: Reader, operation: Operation) -> None:
    """SHAPE: shapes are known."""
    shape = np.array(reader.file.tensors[operation.inputs[0]].shape, np.int64)
    reader.finish(operation, reader.number(reader.name(operation.outputs[0]), "shape", shape))


def broadcast_to(reader: Reader, operation: Operation) -> None:
    """BROADCAST_TO, and FILL with its operands the other way round."""
    source = operation.inputs[1 if operation.op == "FILL" else 0]
    tensor = reader.file.tensors[operation.outputs[0]]
    shape = reader.number(tensor.name, "shape", np.array(tensor.shape, np.int64))
    reader.finish(operation, reader.add("Expand", reader.value(source), shape, out=f"{tensor.name}.expanded"))


def broadcast_args(reader: Reader, operation: Operation) -> None:
    """BROADCAST_ARGS: the shape of two shapes."""
    shape = np.broadcast_shapes(*(tuple(reader.whole_numbers(number)) for number in operation.inputs))
    reader.finish(operation, reader.number(reader.name(operation.outputs[0]), "shape", np.array(shape, np.int64)))


def zeros_like(reader: Reader, operation: Operation) -> None:
    """ZEROS_LIKE: of int8 the code 0, whatever its zero point."""
    tensor = reader.file.tensors[operation.outputs[0]]
    value = 0.0
    if tensor.scales is not None and tensor.zeros is not None:
        value = -float(tensor.zeros.reshape(-1)[0]) * float(tensor.scales.reshape(-1)[0])
    reader.finish(operation, reader.number(tensor.name, "zeros", np.full(tensor.shape, value, np.float32)))


# ---- parts


def strided_slice(reader: Reader, operation: Operation) -> None:
    """STRIDED_SLICE with constant ends: masks drop an end, a shrunk axis takes its begin alone. ModelError
    for what is refused, ValueError in a damaged file."""
    options = {name: int(value) for name, value in operation.options.items()}
    if options["EllipsisMask"] or options["NewAxisMask"]:
        raise reader.refuse(operation, "an ellipsis or a new axis")
    number, ends = operation.inputs[0], [reader.whole_numbers(index) for index in operation.inputs[1:4]]
    shape, form = reader.file.tensors[number].shape, _held(reader, number)
    if len({len(end) for end in ends}) != 1 or len(ends[0]) > len(shape):
        raise ValueError(f"slices {ends} of {list(shape)}")
    starts, stops, steps, axes = [], [], [], []
    for axis, (begin, end, step) in enumerate(zip(*ends, strict=True)):
        if options["ShrinkAxisMask"] >> axis & 1:
            at = begin % shape[axis] if -shape[axis] <= begin < shape[axis] else shape[axis]
            first, stop, step = at, at + 1, 1
        else:
            limits = (
                None if options["BeginMask"] >> axis & 1 else begin,
                None if options["EndMask"] >> axis & 1 else end,
            )
            first, stop, step = slice(*limits, step).indices(shape[axis])
        starts.append(first)
        stops.append(stop if stop >= 0 else -ALL)
        steps.append(step)
        axes.append(moved(axis, len(shape), form))
    _sliced(reader, operation, (number, form), (starts, stops, axes, steps))


def _sliced(
    reader: Reader, operation: Operation, source: tuple[int, str], ends: tuple[Sequence[int], ...], index: int = 0
) -> None:
    """Result `index` is what lies between `ends` (starts, stops, axes, steps) of tensor and form `source`."""
    number, form = source
    out = f"{reader.name(operation.outputs[index])}.slice"
    names = [
        reader.number(out, part, np.array(values, np.int64))
        for part, values in zip(("starts", "ends", "axes", "steps"), ends, strict=True)
    ]
    y = reader.add("Slice", reader.value(number, form), *names, out=out)
    shape = reader.file.tensors[operation.outputs[index]].shape
    if len(shape) != len(reader.builder.shapes[y]):
        if form == PLANES:
            y = reader.add("Transpose", y, out=f"{out}.file", perm=(0, 2, 3, 1))
        y, form = shaped(reader, y, shape, f"{out}.shrunk"), FILE
    reader.finish(operation, y, form, index)


def slice_(reader: Reader, operation: Operation) -> None:
    """SLICE: begins and sizes, -1 for what is left."""
    number = operation.inputs[0]
    shape, form = reader.file.tensors[number].shape, _held(reader, number)
    begins, sizes = (reader.whole_numbers(index) for index in operation.inputs[1:3])
    stops = [begin + size if size >= 0 else side for begin, size, side in zip(begins, sizes, shape, strict=True)]
    axes = [moved(axis, len(shape), form) for axis in range(len(shape))]
    _sliced(reader, operation, (number, form), (begins, stops, axes, [1] * len(shape)))


def split(reader: Reader, operation: Operation) -> None:
    """SPLIT (axis, x) and SPLIT_V (x, sizes, axis); ValueError in a damaged file."""
    is_even = operation.op == "SPLIT"
    number, axis_number = operation.inputs[1 if is_even else 0], operation.inputs[0 if is_even else 2]
    shape, form, count = reader.file.tensors[number].shape, _held(reader, number), len(operation.outputs)
    (given,) = reader.whole_numbers(axis_number)
    side = shape[range(len(shape))[given]]
    sizes = [side // count] * count if is_even else reader.whole_numbers(operation.inputs[1])
    if -1 in sizes:
        sizes[sizes.index(-1)] = side - sum(sizes) - 1
    if sum(sizes) != side or len(sizes) != count or min(sizes) < 1:
        raise ValueError(f"parts {sizes} of {side}")
    begin = 0
    for index, size in enumerate(sizes):
        ends = ([begin], [begin + size], [moved(given, len(shape), form)], [1])
        _sliced(reader, operation, (number, form), ends, index)
        begin += size


def unpack(reader: Reader, operation: Operation) -> None:
    """UNPACK: the rows along an axis, without it."""
    number = operation.inputs[0]
    rank, form = _rank(reader, number), _held(reader, number)
    axis = moved(int(operation.options["Axis"]), rank, form)
    for index in range(len(operation.outputs)):
        _sliced(reader, operation, (number, form), ([index], [index + 1], [axis], [1]), index)


def pack(reader: Reader, operation: Operation) -> None:
    """PACK: tensors along a new axis."""
    out, shape = f"{reader.name(operation.outputs[0])}.pack", reader.file.tensors[operation.outputs[0]].shape
    axis = range(len(shape))[int(operation.options["Axis"])]
    rows = []
    for number in operation.inputs:
        value = reader.value(number)
        given = reader.builder.shapes[value]
        rows.append(shaped(reader, value, (*given[:axis], 1, *given[axis:]), f"{out}.row"))
    reader.finish(operation, reader.add("Concat", *rows, out=out, axis=axis))


def update_slice(reader: Reader, operation: Operation) -> None:
    """DYNAMIC_UPDATE_SLICE: its place is moved so that the update fits; ValueError in a damaged file."""
    x, update, at = (reader.value(number) for number in operation.inputs[:3])
    sides, parts = (reader.builder.shapes[value] for value in (x, update))
    if not reader.builder.shapes[at] == (len(sides),) == (len(parts),) or any(
        p > s for p, s in zip(parts, sides, strict=True)
    ):
        raise ValueError(f"an update {list(parts)} of {list(sides)}")
    out = f"{reader.name(operation.outputs[0])}.updated"
    if at in reader.builder.constants:
        starts = reader.whole_numbers(operation.inputs[2])
        places = [min(max(start, 0), s - p) for start, s, p in zip(starts, sides, parts, strict=True)]
        reader.finish(operation, _updated(reader, x, update, places, out))
        return
    reader.finish(operation, _updated_at(reader, x, update, at, out))


def _updated_at(reader: Reader, x: str, update: str, at: str, out: str) -> str:
    """The same from places `at` that are computed at run time: rows are chosen of the whole and what replaces it."""
    sides, parts = (reader.builder.shapes[value] for value in (x, update))
    axis = next((axis for axis, (s, p) in enumerate(zip(sides, parts, strict=True)) if p < s), None)
    if axis is None:
        return update
    side, part = sides[axis], parts[axis]

    def paired(op: str, first: str | np.ndarray | int, second: str | np.ndarray | int) -> str:
        names = [v if isinstance(v, str) else reader.number(out, "n", np.asarray(v, np.int32)) for v in (first, second)]
        return reader.add(op, *names, out=f"{out}.{op.lower()}")

    def within(value: str, low: int, high: int) -> str:
        return paired("Min", paired("Max", value, low), high)

    place = within(_taken(reader, at, np.array([axis]), 0, f"{out}.at"), 0, side - part)
    middle = _updated_at(reader, _taken(reader, x, paired("Add", place, np.arange(part)), axis, out), update, at, out)
    joined = reader.add("Concat", x, middle, out=out, axis=axis)
    behind = paired("Sub", np.arange(side), place)
    is_inside = paired("Mul", within(paired("Add", behind, 1), 0, 1), within(paired("Sub", part, behind), 0, 1))
    jump = paired("Mul", is_inside, paired("Sub", side, place))
    return _taken(reader, joined, paired("Add", jump, np.arange(side)), axis, out)


def _updated(reader: Reader, x: str, update: str, places: Sequence[int], out: str) -> str:
    """`x` with `update` in its place: what lies before and behind it along the first axis where it is shorter."""
    sides, parts = (reader.builder.shapes[value] for value in (x, update))
    axis = next((axis for axis, (s, p) in enumerate(zip(sides, parts, strict=True)) if p < s), None)
    if axis is None:
        return update
    first, last = places[axis], places[axis] + parts[axis]

    def part(begin: int, end: int) -> str:
        names = [
            reader.number(out, name, np.array([at])) for name, at in (("from", begin), ("to", end), ("along", axis))
        ]
        return reader.add("Slice", x, *names, out=f"{out}.part")

    middle = _updated(reader, part(first, last), update, places, out)
    rows = [part(0, first)] if first else []
    rows += [middle, *([part(last, sides[axis])] if last < sides[axis] else [])]
    return reader.add("Concat", *rows, out=out, axis=axis)


def concat(reader: Reader, operation: Operation) -> None:
    """CONCATENATION."""
    form = form_of(reader, operation)
    names = [reader.value(number, form) for number in operation.inputs]
    axis = moved(int(operation.options["Axis"]), _rank(reader, operation.outputs[0]), form)
    out = f"{reader.name(operation.outputs[0])}.concat"
    reader.finish(operation, reader.add("Concat", *names, out=out, axis=axis), form)


# ---- rows by their numbers


def _taken(reader: Reader, value: str, rows: np.ndarray | str, axis: int, out: str) -> str:
    if not isinstance(rows, str):
        rows = reader.number(out, "rows", rows.astype(np.int64))
    return reader.add("Gather", value, rows, out=out, axis=axis)


def gather(reader: Reader, operation: Operation) -> None:
    """GATHER along an axis; ModelError with batch dimensions."""
    if int(operation.options["BatchDims"]):
        raise reader.refuse(operation, "batch dimensions")
    x, rows = (reader.value(number) for number in operation.inputs[:2])
    axis = moved(int(operation.options["Axis"]), _rank(reader, operation.inputs[0]), FILE)
    reader.finish(operation, _taken(reader, x, rows, axis, f"{reader.name(operation.outputs[0])}.rows"))


def embedding_lookup(reader: Reader, operation: Operation) -> None:
    """EMBEDDING_LOOKUP: rows of a table."""
    rows, table = (reader.value(number) for number in operation.inputs[:2])
    reader.finish(operation, _taken(reader, table, rows, 0, f"{reader.name(operation.outputs[0])}.rows"))


def gather_nd(reader: Reader, operation: Operation) -> None:
    """GATHER_ND with constant indices."""
    number = operation.inputs[0]
    shape, wanted = reader.file.tensors[number].shape, reader.file.tensors[operation.inputs[1]]
    places = np.array(reader.whole_numbers(operation.inputs[1])).reshape(wanted.shape)
    depth = places.shape[-1]
    rows = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), shape[:depth])
    out = f"{reader.name(operation.outputs[0])}.rows"
    x = shaped(reader, reader.value(number), (int(np.prod(shape[:depth])), *shape[depth:]), f"{out}.flat")
    y = _taken(reader, x, np.atleast_1d(rows), 0, out)
    reader.finish(operation, shaped(reader, y, reader.file.tensors[operation.outputs[0]].shape, f"{out}.shaped"))


def mirror_pad(reader: Reader, operation: Operation) -> None:
    """MIRROR_PAD, with the edge (symmetric) or without (reflect)."""
    number = operation.inputs[0]
    shape, form = reader.file.tensors[number].shape, _held(reader, number)
    value, out = reader.value(number, form), f"{reader.name(operation.outputs[0])}.mirror"
    pairs = np.array(reader.whole_numbers(operation.inputs[1])).reshape(-1, 2)
    mode = "symmetric" if int(operation.options["Mode"]) else "reflect"
    for axis, (front, back) in enumerate(pairs):
        if front or back:
            rows = np.pad(np.arange(shape[axis]), (front, back), mode)  # type: ignore[call-overload]
            value = _taken(reader, value, rows, moved(axis, len(shape), form), out)
    reader.finish(operation, value, form)


def reverse(reader: Reader, operation: Operation) -> None:
    """REVERSE_V2."""
    number = operation.inputs[0]
    shape, form = reader.file.tensors[number].shape, _held(reader, number)
    value, out = reader.value(number, form), f"{reader.name(operation.outputs[0])}.reversed"
    for axis in reader.whole_numbers(operation.inputs[1]):
        rows = np.arange(shape[axis])[::-1]
        value = _taken(reader, value, rows, moved(axis, len(shape), form), out)
    reader.finish(operation, value, form)


# ---- orders


def transpose(reader: Reader, operation: Operation) -> None:
    """TRANSPOSE."""
    order = reader.whole_numbers(operation.inputs[1])
    out = f"{reader.name(operation.outputs[0])}.turned"
    reader.finish(operation, reader.add("Transpose", reader.value(operation.inputs[0]), out=out, perm=order))


def depth(op: str) -> Convert:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH: a block's rows, its columns, then channels."""

    def convert(reader: Reader, operation: Operation) -> None:
        x, out = reader.value(operation.inputs[0], PLANES), f"{reader.name(operation.outputs[0])}.blocks"
        y = reader.add(op, x, out=out, blocksize=int(operation.options["BlockSize"]))
        reader.finish(operation, y, PLANES)

    return convert


def space_to_batch(reader: Reader, operation: Operation) -> None:
    """SPACE_TO_BATCH_ND: int8 is padded with the code 0."""
    number = operation.inputs[0]
    tensor, out = reader.file.tensors[number], f"{reader.name(operation.outputs[0])}.blocks"
    blocks = reader.whole_numbers(operation.inputs[1])
    pairs = np.array([[0, 0], *np.array(reader.whole_numbers(operation.inputs[2])).reshape(-1, 2)])
    count = len(blocks)
    rest = tensor.shape[1 + count :]
    x = reader.value(number)
    if pairs.any():
        pads = np.concatenate([pairs, np.zeros((len(rest), 2), int)]).T.reshape(-1)
        names = [reader.number(out, "pads", pads.astype(np.int64))]
        if tensor.scales is not None and tensor.zeros is not None:
            filler = -float(tensor.zeros.reshape(-1)[0]) * float(tensor.scales.reshape(-1)[0])
            names.append(reader.number(out, "filler", np.float32(filler)))
        x = reader.add("Pad", x, *names, out=f"{out}.padded")
    shape = reader.builder.shapes[x]
    cut = [part for side, block in zip(shape[1 : 1 + count], blocks, strict=True) for part in (side // block, block)]
    x = shaped(reader, x, (shape[0], *cut, *rest), f"{out}.cut")
    order = (*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, 2 * count + 1 + len(rest)))
    y = reader.add("Transpose", x, out=f"{out}.turned", perm=order)
    reader.finish(operation, shaped(reader, y, reader.file.tensors[operation.outputs[0]].shape, out))


def batch_to_space(reader: Reader, operation: Operation) -> None:
    """BATCH_TO_SPACE_ND."""
    number = operation.inputs[0]
    shape, out = reader.file.tensors[number].shape, f"{reader.name(operation.outputs[0])}.blocks"
    blocks = reader.whole_numbers(operation.inputs[1])
    crops = np.array(reader.whole_numbers(operation.inputs[2])).reshape(-1, 2)
    count, rest = len(blocks), shape[1 + len(blocks) :]
    batch = shape[0] // int(np.prod(blocks))
    x = shaped(reader, reader.value(number), (*blocks, batch, *shape[1:]), f"{out}.cut")
    order = [count, *(axis for index in range(count) for axis in (count + 1 + index, index))]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    y = reader.add("Transpose", x, out=f"{out}.turned", perm=order)
    sides = [side * block for side, block in zip(shape[1 : 1 + count], blocks, strict=True)]
    y = shaped(reader, y, (batch, *sides, *rest), f"{out}.joined")
    if crops.any():
        ends = (
            [int(front) for front, _ in crops],
            [side - int(back) for side, (_, back) in zip(sides, crops, strict=True)],
        )
        names = [
            reader.number(out, part, np.array(values, np.int64))
            for part, values in zip(("starts", "ends", "axes"), (*ends, range(1, 1 + count)), strict=True)
        ]
        y = reader.add("Slice", y, *names, out=out)
    reader.finish(operation, y)


def pad(reader: Reader, operation: Operation) -> None:
    """PAD and PADV2."""
    number = operation.inputs[0]
    form = _held(reader, number)
    pairs = np.array(reader.whole_numbers(operation.inputs[1])).reshape(-1, 2)
    pairs = pairs[list(TO_PLANES)] if form == PLANES else pairs
    out = f"{reader.name(operation.outputs[0])}.padded"
    pads = reader.number(out, "pads", pairs.T.reshape(-1).astype(np.int64))
    filler = [reader.value(operation.inputs[2])] if len(operation.inputs) > 2 else []
    reader.finish(operation, reader.add("Pad", reader.value(number, form), pads, *filler, out=out), form)


# ---- states


def nothing(reader: Reader, operation: Operation) -> None:
    """VAR_HANDLE, whose name is known, and CALL_ONCE, which the states begin with."""


def _variable(reader: Reader, operation: Operation) -> str:
    name = reader.file.handles.get(operation.inputs[0], "")
    if not name:
        raise ModelError(f"node '{operation.name}' ({operation.op}): its variable is not known; the file is damaged")
    return name


def read_variable(reader: Reader, operation: Operation) -> None:
    """READ_VARIABLE: what was assigned before, in the order of the operators."""
    reader.take(operation.outputs[0], reader.held[_variable(reader, operation)])


def assign_variable(reader: Reader, operation: Operation) -> None:
    """ASSIGN_VARIABLE."""
    reader.value(operation.inputs[1])
    reader.held[_variable(reader, operation)] = reader.result(operation.inputs[1])
