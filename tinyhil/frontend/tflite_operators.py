"""What the operators of a .tflite file become: layers, functions of elements, reductions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend import tflite_bytes as code
from tinyhil.frontend import tflite_cells as cells
from tinyhil.frontend import tflite_control as control
from tinyhil.frontend import tflite_moves as moves
from tinyhil.frontend.tflite_detection import detections
from tinyhil.frontend.tflite_reader import FILE, PLANES, TO_PLANES, Convert, Reader
from tinyhil.frontend.tflite_records import Operation, Tensor
from tinyhil.frontend.tflite_signal import SIGNAL, cast
from tinyhil.ops.limits import NARROW

SAME = 0


# ---- layers


def _spatial(reader: Reader, operation: Operation, kernel: tuple[int, int]) -> dict[str, Any]:
    """Strides, dilations and pads: SAME puts the odd one behind."""
    o = operation.options
    size = reader.file.tensors[operation.inputs[0]].shape
    if len(size) != 4:
        raise reader.refuse(operation, f"an input of {len(size)} axes")
    strides = [int(o["StrideH"]), int(o["StrideW"])]
    dilations = [int(o.get("DilationHFactor", 1)), int(o.get("DilationWFactor", 1))]
    if min(*strides, *dilations, *kernel) < 1:
        raise ModelError(f"node '{operation.name}': strides {strides}, dilations {dilations}; the file is damaged")
    front, back = [0, 0], [0, 0]
    if int(o["Padding"]) == SAME:
        for axis in range(2):
            side, reach = size[axis + 1], (kernel[axis] - 1) * dilations[axis] + 1
            pad = max((-(-side // strides[axis]) - 1) * strides[axis] + reach - side, 0)
            front[axis], back[axis] = pad // 2, pad - pad // 2
    attrs: dict[str, Any] = {"kernel_shape": list(kernel), "strides": strides, "pads": [*front, *back]}
    return attrs if dilations == [1, 1] else {**attrs, "dilations": dilations}


def _weights_of(reader: Reader, operation: Operation) -> tuple[Tensor, np.ndarray]:
    tensor = reader.file.tensors[operation.inputs[1]]
    if tensor.data is None:
        raise reader.refuse(operation, "weights computed at run time")
    return tensor, tensor.data


def _bias(reader: Reader, operation: Operation) -> list[str]:
    number = operation.inputs[2] if len(operation.inputs) > 2 else -1
    return [] if number < 0 else [reader.value(number)]


def _narrow(reader: Reader, operation: Operation) -> dict[str, int]:
    """Of a layer of int16 with a bias of 32 bits: so wide are its sums, too."""
    number = operation.inputs[2] if len(operation.inputs) > 2 else -1
    kinds = (reader.file.tensors[operation.inputs[0]].kind, reader.file.tensors[number].kind if number >= 0 else "")
    return {NARROW: 1} if kinds == ("int16", "int32") and operation.op != "DEPTHWISE_CONV_2D" else {}


def _conv(reader: Reader, operation: Operation) -> None:
    tensor, data = _weights_of(reader, operation)
    size = reader.file.tensors[operation.inputs[0]].shape
    if data.ndim != 4 or len(size) != 4:
        raise reader.refuse(operation, f"weights {list(data.shape)} for an input {list(size)}")
    attrs = _spatial(reader, operation, (data.shape[1], data.shape[2])) | _narrow(reader, operation)
    if operation.op == "DEPTHWISE_CONV_2D":  # (1, height, width, channels)
        attrs["group"] = size[3]
        data = data.transpose(3, 0, 1, 2)
    else:  # (outputs, height, width, channels)
        attrs["group"] = max(size[3] // data.shape[3], 1)
        data = data.transpose(0, 3, 1, 2)
    weights = reader.weights(tensor, data, 0)
    x, out = reader.value(operation.inputs[0], PLANES), f"{reader.name(operation.outputs[0])}.conv"
    reader.finish(operation, reader.add("Conv", x, weights, *_bias(reader, operation), out=out, **attrs), PLANES)


def _dense(reader: Reader, operation: Operation) -> None:
    if int(operation.options["WeightsFormat"]):
        raise reader.refuse(operation, "a shuffled weights format")
    tensor, data = _weights_of(reader, operation)
    x, stem = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
    kinds, narrow = (reader.file.tensors[operation.inputs[0]].kind, tensor.kind), _narrow(reader, operation)
    if reader.file.rounds_twice and (kinds == ("int8", "int8") or narrow):
        value = _dense_of_two_roundings(reader, operation, x)
        reader.finish(replace(operation, options={}), value)  # activated already: where it becomes one with its layer
        return
    rows = reader.number(stem, "rows", np.array([-1, data.shape[1]], np.int64))
    if len(reader.builder.shapes[x]) != 2 or reader.builder.shapes[x][1] != data.shape[1]:
        x = reader.add("Reshape", x, rows, out=f"{stem}.rows")
    if kinds[0] == "int16" and not reader.file.rounds_twice:  # LiteRT's sums have 32 bits, whatever the bias has
        narrow = {NARROW: 1}
    operands = [x, reader.weights(tensor, data, 0), *_bias(reader, operation)]
    y = reader.add("Gemm", *operands, out=f"{stem}.gemm", transB=1, **narrow)
    shape = reader.file.tensors[operation.outputs[0]].shape
    if reader.builder.shapes[y] != shape:  # activated before: where it becomes one with its layer
        y, operation = reader.activated(operation, y), replace(operation, options={})
        y = reader.add("Reshape", y, reader.number(stem, "shape", np.array(shape, np.int64)), out=f"{stem}.shaped")
    reader.finish(operation, y, FILE)


def _dense_of_two_roundings(reader: Reader, operation: Operation, x: str) -> str:
    """Rows through a convolution of one column: our convolutions round twice, our dense layers once."""
    tensor, data = _weights_of(reader, operation)
    out, shape = f"{reader.name(operation.outputs[0])}.conv", reader.file.tensors[operation.outputs[0]].shape
    outputs, inner = data.shape
    rows = int(np.prod(reader.builder.shapes[x])) // inner
    weights = reader.weights(tensor, data.reshape(outputs, inner, 1, 1), 0)
    if rows > 1:
        x = reader.add(
            "Transpose", moves.shaped(reader, x, (rows, inner), f"{out}.rows"), out=f"{out}.turned", perm=(1, 0)
        )
    column = moves.shaped(reader, x, (1, inner, rows, 1), f"{out}.column")
    bias, narrow = _bias(reader, operation), _narrow(reader, operation)
    y = reader.add("Conv", column, weights, *bias, out=out, kernel_shape=[1, 1], **narrow)
    y = reader.activated(operation, y)
    if rows > 1:
        y = moves.shaped(reader, y, (outputs, rows), f"{out}.planes")
        y = reader.add("Transpose", y, out=f"{out}.back", perm=(1, 0))
    return moves.shaped(reader, y, shape, f"{out}.row")


def _transposed_conv(reader: Reader, operation: Operation) -> None:
    """TRANSPOSE_CONV: zeros between the elements, then a convolution with the weights turned round."""
    tensor = reader.file.tensors[operation.inputs[1]]
    if tensor.data is None or tensor.data.ndim != 4:
        raise reader.refuse(operation, "weights computed at run time")
    number, out, o = operation.inputs[2], reader.name(operation.outputs[0]), operation.options
    size, result = reader.file.tensors[number].shape, reader.file.tensors[operation.outputs[0]].shape
    strides, kernel = (int(o["StrideH"]), int(o["StrideW"])), tensor.data.shape[1:3]
    pads: list[tuple[int, int]] = []
    for axis in range(2):
        reach = (size[axis + 1] - 1) * strides[axis] + kernel[axis]
        front = max(reach - result[axis + 1], 0) // 2 if int(o["Padding"]) == SAME else 0
        pads.append((kernel[axis] - 1 - front, result[axis + 1] - reach + front + kernel[axis] - 1))
    if min(strides) < 1 or min(pad for pair in pads for pad in pair) < 0:
        raise reader.refuse(operation, f"strides {strides} with a result of {list(result)}")
    x = _spread(reader, reader.value(number, PLANES), strides, f"{out}.spread")
    weights = reader.weights(tensor, data=tensor.data[:, ::-1, ::-1].transpose(0, 3, 1, 2), axis=0)
    bias = [reader.value(operation.inputs[3])] if len(operation.inputs) > 3 and operation.inputs[3] >= 0 else []
    front, back = ([pair[side] for pair in pads] for side in range(2))
    y = reader.add("Conv", x, weights, *bias, out=f"{out}.conv", kernel_shape=list(kernel), pads=[*front, *back])
    reader.finish(operation, y, PLANES)


def _spread(reader: Reader, value: str, strides: tuple[int, int], out: str) -> str:
    """Planes with strides - 1 zeros between neighbours."""
    shape = reader.builder.shapes[value]
    if strides == (1, 1):
        return value
    sides = [(side - 1) * stride + 1 for side, stride in zip(shape[2:], strides, strict=True)]
    y = moves.shaped(reader, value, (*shape[:2], shape[2], 1, shape[3], 1), f"{out}.apart")
    pads = np.array([0] * 9 + [strides[0] - 1, 0, strides[1] - 1], np.int64)
    y = reader.add("Pad", y, reader.number(out, "pads", pads), out=f"{out}.padded")
    whole = (*shape[:2], *(side * stride for side, stride in zip(shape[2:], strides, strict=True)))
    y = moves.shaped(reader, y, whole, f"{out}.joined")
    ends = [reader.number(out, part, np.array(values)) for part, values in (("s", [0, 0]), ("e", sides), ("a", [2, 3]))]
    return reader.add("Slice", y, *ends, out=out)


def _pool(reader: Reader, operation: Operation) -> None:
    kernel = (int(operation.options["FilterHeight"]), int(operation.options["FilterWidth"]))
    op = "AveragePool" if operation.op == "AVERAGE_POOL_2D" else "MaxPool"
    x = reader.value(operation.inputs[0], PLANES)
    attrs, number = _spatial(reader, operation, kernel), operation.outputs[0]
    kind = reader.file.tensors[number].kind
    if op == "AveragePool" and kind == "uint8":
        attrs["origin"] = -128
    y = reader.add(op, x, out=f"{reader.name(number)}.pool", **attrs)
    if kind == "int16" and operation.options["FusedActivationFunction"]:
        y = reader.on_grid(number, y)  # codes of which the activation is a clamp
    reader.finish(operation, y, PLANES)


def _root_pool(reader: Reader, operation: Operation) -> None:
    """L2_POOL_2D: the root of the mean of squares."""
    kernel = (int(operation.options["FilterHeight"]), int(operation.options["FilterWidth"]))
    x, out = reader.value(operation.inputs[0], PLANES), reader.name(operation.outputs[0])
    squares = reader.add("Mul", x, x, out=f"{out}.squares")
    means = reader.add("AveragePool", squares, out=f"{out}.means", **_spatial(reader, operation, kernel))
    reader.finish(operation, reader.add("Sqrt", means, out=f"{out}.roots"), PLANES)


# ---- element by element


def _by_element(op: str, **attrs: Any) -> Convert:
    def convert(reader: Reader, operation: Operation) -> None:
        form = moves.form_of(reader, operation)
        names = [reader.value(number, form) for number in operation.inputs]
        out = f"{reader.name(operation.outputs[0])}.{op.lower()}"
        reader.finish(operation, reader.add(op, *names, out=out, **attrs), form)

    return convert


def _activation(kind: str) -> Convert:
    """From grid to grid by the multiplier of LEAKY_RELU, then within the ends; RELU6 of the micro runtime clamps codes
    and rescales none."""

    def convert(reader: Reader, operation: Operation) -> None:
        form, number = moves.form_of(reader, operation), operation.outputs[0]
        value, name = reader.value(operation.inputs[0], form), reader.name(number)
        if kind == "RELU6" and reader.file.rounds_twice and reader.is_quantized(operation):
            value = reader.clamped(value, *reader.ends(kind, operation.inputs[0]), name)
            value = reader.taken_as(operation, value)
            reader.finish(operation, value, form)
            return
        is_rescaled = reader.is_rescaled(operation)
        if is_rescaled:
            value = reader.add("LeakyRelu", value, out=f"{name}.rescaled", alpha=float(kind == "RELU_N1_TO_1"))
        if not is_rescaled or kind != "RELU":
            value = reader.on_grid(number, value) if is_rescaled else value
            value = reader.clamped(value, *reader.ends(kind, number), name)
        reader.finish(operation, value, form)

    return convert


def _leaky_relu(reader: Reader, operation: Operation) -> None:
    _by_element("LeakyRelu", alpha=float(operation.options["Alpha"]))(reader, operation)


def _same(reader: Reader, operation: Operation) -> None:
    """QUANTIZE and DEQUANTIZE: the value itself, on the grid of the result; from grid to grid by a multiplier."""
    form = moves.form_of(reader, operation)
    value = reader.value(operation.inputs[0], form)
    if reader.is_rescaled(operation):
        value = reader.add("LeakyRelu", value, out=f"{reader.name(operation.outputs[0])}.rescaled", alpha=1.0)
    reader.finish(operation, value, form)


def _softmax(reader: Reader, operation: Operation) -> None:
    x, out = reader.value(operation.inputs[0]), f"{reader.name(operation.outputs[0])}.softmax"
    if float(operation.options["Beta"]) != 1.0:
        x = reader.add("Mul", x, reader.number(out, "beta", np.float32(operation.options["Beta"])), out=f"{out}.scaled")
    reader.finish(operation, reader.add("Softmax", x, out=out, axis=-1), FILE)


def _reduce(op: str) -> Convert:
    def convert(reader: Reader, operation: Operation) -> None:
        number = operation.inputs[0]
        keep = bool(operation.options["KeepDims"])
        form = PLANES if (number, PLANES) in reader.values else FILE
        rank, given = len(reader.file.tensors[number].shape), reader.whole_numbers(operation.inputs[1])
        axes = sorted(moves.moved(axis, rank, form) for axis in given)
        if form == PLANES and not keep and rank - len(axes) > 1 and axes != [2, 3]:  # what is left is no plane
            form, axes = FILE, sorted(moves.moved(axis, rank, FILE) for axis in given)
        out = f"{reader.name(operation.outputs[0])}.{op.lower()}"
        y = reader.add(op, reader.value(number, form), out=out, axes=axes, keepdims=int(keep))
        reader.finish(operation, y, form if keep else FILE)

    return convert


def _chain(*ops: str) -> Convert:
    """Functions of one tensor, one after the other."""

    def convert(reader: Reader, operation: Operation) -> None:
        form, out = moves.form_of(reader, operation), reader.name(operation.outputs[0])
        value = reader.value(operation.inputs[0], form)
        for op in ops:
            value = reader.add(op, value, out=f"{out}.{op.lower()}")
        reader.finish(operation, value, form)

    return convert


def _pair(*ops: str, squared: bool = False) -> Convert:
    """A function of two tensors, then functions of its result."""

    def convert(reader: Reader, operation: Operation) -> None:
        form, out = moves.form_of(reader, operation), reader.name(operation.outputs[0])
        first, *others = operation.inputs
        names = [reader.value(first, form), *(reader.value(number, form) for number in others or (first,))]
        value = reader.add(ops[0], *names, out=f"{out}.{ops[0].lower()}")
        for op in ops[1:]:
            value = reader.add(op, value, out=f"{out}.{op.lower()}")
        if squared:
            value = reader.add("Mul", value, value, out=f"{out}.squared")
        reader.finish(operation, value, form)

    return convert


def _add_all(reader: Reader, operation: Operation) -> None:
    form, out = moves.form_of(reader, operation), reader.name(operation.outputs[0])
    value, *others = (reader.value(number, form) for number in operation.inputs)
    for other in others:
        value = reader.add("Add", value, other, out=f"{out}.sum")
    reader.finish(operation, value, form)


def _extreme_index(op: str) -> Convert:
    """ARG_MAX and ARG_MIN: the first of equals."""

    def convert(reader: Reader, operation: Operation) -> None:
        (axis,) = reader.whole_numbers(operation.inputs[1])
        x, out = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
        reader.finish(operation, reader.add(op, x, out=f"{out}.{op.lower()}", axis=axis, keepdims=0))

    return convert


def _along_last(op: str, **attrs: Any) -> Convert:
    def convert(reader: Reader, operation: Operation) -> None:
        x, out = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
        reader.finish(operation, reader.add(op, x, out=f"{out}.{op.lower()}", axis=-1, **attrs))

    return convert


def _cumulative_sum(reader: Reader, operation: Operation) -> None:
    attrs = {name.lower(): int(operation.options[name]) for name in ("Exclusive", "Reverse")}
    out = f"{reader.name(operation.outputs[0])}.sums"
    axis = reader.number(out, "axis", np.array(reader.whole_numbers(operation.inputs[1])[0], np.int64))
    reader.finish(operation, reader.add("CumSum", reader.value(operation.inputs[0]), axis, out=out, **attrs))


def _matrices(reader: Reader, operation: Operation) -> list[str]:
    """The operands of BATCH_MATMUL, turned where it says so."""
    out, names = reader.name(operation.outputs[0]), []
    for number, option in zip(operation.inputs[:2], ("AdjX", "AdjY"), strict=True):
        value = reader.value(number)
        if operation.options[option]:
            rank = len(reader.builder.shapes[value])
            order = (*range(rank - 2), rank - 1, rank - 2)
            value = reader.add("Transpose", value, out=f"{out}.{option.lower()}", perm=order)
        names.append(value)
    return names


def _batch_matmul(reader: Reader, operation: Operation) -> None:
    out = reader.name(operation.outputs[0])
    reader.finish(operation, reader.add("MatMul", *_matrices(reader, operation), out=f"{out}.matmul"))


def _prelu(reader: Reader, operation: Operation) -> None:
    """Of codes: those below zero as MUL has them, the others from grid to grid."""
    x, slopes = (reader.value(number) for number in operation.inputs[:2])
    number = operation.outputs[0]
    out = f"{reader.name(number)}.prelu"
    kinds = tuple(reader.file.tensors[one].kind for one in (number, operation.inputs[1]))
    if kinds not in (("int8", "int8"), ("int16", "int8")):
        reader.finish(operation, reader.add("PRelu", x, slopes, out=out))
        return
    below = reader.on_grid(number, reader.add("Mul", x, slopes, out=f"{out}.below"))
    above = reader.on_grid(number, reader.add("LeakyRelu", x, out=f"{out}.above", alpha=1.0))
    is_below = reader.add("Less", x, reader.number(out, "zero", np.float32(0)), out=f"{out}.less")
    reader.finish(operation, reader.add("Where", is_below, below, above, out=out))


def _resize(mode: str) -> Convert:
    def convert(reader: Reader, operation: Operation) -> None:
        shape, out = reader.file.tensors[operation.outputs[0]].shape, f"{reader.name(operation.outputs[0])}.resized"
        ends, middle = bool(operation.options["AlignCorners"]), bool(operation.options["HalfPixelCenters"])
        how = "align_corners" if ends else "half_pixel" if middle else "asymmetric"
        sizes = reader.number(out, "sizes", np.array([shape[axis] for axis in TO_PLANES], np.int64))
        attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
        if mode == "nearest":
            attrs["nearest_mode"] = "round_prefer_ceil" if ends or middle else "floor"
        y = reader.add("Resize", reader.value(operation.inputs[0], PLANES), "", "", sizes, out=out, **attrs)
        reader.finish(operation, y, PLANES)

    return convert


OPERATORS: dict[str, Convert] = {
    "ABS": _by_element("Abs"),
    "ADD": _by_element("Add"),
    "ADD_N": cells.add_all(_add_all),
    "ARG_MAX": _extreme_index("ArgMax"),
    "ARG_MIN": _extreme_index("ArgMin"),
    "ASSIGN_VARIABLE": moves.assign_variable,
    "AVERAGE_POOL_2D": _pool,
    "BATCH_MATMUL": code.batch_matmul(_matrices, _batch_matmul),
    "BATCH_TO_SPACE_ND": moves.batch_to_space,
    "BROADCAST_ARGS": moves.broadcast_args,
    "BROADCAST_TO": moves.broadcast_to,
    "CALL_ONCE": moves.nothing,
    "CAST": cast,
    "CEIL": _chain("Ceil"),
    "CIRCULAR_BUFFER": cells.circular_buffer,
    "CONCATENATION": moves.concat,
    "CONV_2D": _conv,
    "COS": _chain("Cos"),
    "CUMSUM": cells.cumulative_sum(_cumulative_sum),
    "DEPTHWISE_CONV_2D": _conv,
    "DEPTH_TO_SPACE": moves.depth("DepthToSpace"),
    "DEQUANTIZE": _same,
    "DIV": code.quotient(_by_element("Div")),
    "DYNAMIC_UPDATE_SLICE": moves.update_slice,
    "ELU": _by_element("Elu"),
    "EMBEDDING_LOOKUP": moves.embedding_lookup,
    "EQUAL": code.comparison("equal", False, _by_element("Equal")),
    "EXP": _by_element("Exp"),
    "EXPAND_DIMS": moves.reshape,
    "FILL": moves.broadcast_to,
    "FLOOR": _chain("Floor"),
    "FLOOR_DIV": _pair("FloorDiv"),
    "FLOOR_MOD": _pair("Mod"),
    "FULLY_CONNECTED": _dense,
    "GATHER": moves.gather,
    "GATHER_ND": moves.gather_nd,
    "GREATER": code.comparison("less", True, _by_element("Greater")),
    "GREATER_EQUAL": code.comparison("less_equal", True, _by_element("GreaterOrEqual")),
    "HARD_SWISH": cells.hard_swish(_by_element("HardSwish")),
    "IF": control.branch,
    "L2_NORMALIZATION": _along_last("LpNormalization", p=2),
    "L2_POOL_2D": _root_pool,
    "LEAKY_RELU": _leaky_relu,
    "LESS": code.comparison("less", False, _by_element("Less")),
    "LESS_EQUAL": code.comparison("less_equal", False, _by_element("LessOrEqual")),
    "LOG": _chain("Log"),
    "LOGICAL_AND": _by_element("And"),
    "LOGICAL_NOT": _by_element("Not"),
    "LOGICAL_OR": _by_element("Or"),
    "LOGISTIC": cells.word_function("Sigmoid", cells.curve_of_bytes(_by_element("Sigmoid"))),
    "LOG_SOFTMAX": code.log_softmax(_along_last("LogSoftmax")),
    "MAXIMUM": _by_element("Max"),
    "MAX_POOL_2D": _pool,
    "MEAN": code.total(True, _reduce("ReduceMean")),
    "MINIMUM": _by_element("Min"),
    "MIRROR_PAD": moves.mirror_pad,
    "MUL": _by_element("Mul"),
    "NEG": _by_element("Neg"),
    "NOT_EQUAL": code.comparison("not_equal", False, _pair("Equal", "Not")),
    "PACK": moves.pack,
    "PAD": moves.pad,
    "PADV2": moves.pad,
    "PRELU": _prelu,
    "QUANTIZE": cells.quantize(_same),
    "READ_VARIABLE": moves.read_variable,
    "REDUCE_ALL": _reduce("ReduceMin"),
    "REDUCE_MAX": _reduce("ReduceMax"),
    "REDUCE_MIN": _reduce("ReduceMin"),
    "RELU": _activation("RELU"),
    "RELU6": _activation("RELU6"),
    "RELU_N1_TO_1": _activation("RELU_N1_TO_1"),
    "RESHAPE": moves.reshape,
    "RESIZE_BILINEAR": cells.resize_bilinear(_resize("linear")),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest"),
    "REVERSE_V2": moves.reverse,
    "ROUND": _chain("Round"),
    "RSQRT": _chain("Sqrt", "Reciprocal"),
    "SELECT": _by_element("Where"),
    "SELECT_V2": _by_element("Where"),
    "SHAPE": moves.shape_of,
    "SIN": _chain("Sin"),
    "SLICE": moves.slice_,
    "SOFTMAX": code.softmax(_softmax),
    "SPACE_TO_BATCH_ND": moves.space_to_batch,
    "SPACE_TO_DEPTH": moves.depth("SpaceToDepth"),
    "SPLIT": moves.split,
    "SPLIT_V": moves.split,
    "SQRT": _by_element("Sqrt"),
    "SQUARE": _pair("Mul"),
    "SQUARED_DIFFERENCE": code.squared_difference(_pair("Sub", squared=True)),
    "SQUEEZE": moves.reshape,
    "STRIDED_SLICE": moves.strided_slice,
    "SUB": _by_element("Sub"),
    "SUM": code.total(False, _reduce("ReduceSum")),
    "SVDF": cells.svdf,
    "TANH": cells.word_function("Tanh", cells.curve_of_bytes(_by_element("Tanh"))),
    "TFLite_Detection_PostProcess": detections,
    "TRANSPOSE": moves.transpose,
    "TRANSPOSE_CONV": _transposed_conv,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": cells.lstm,
    "UNPACK": moves.unpack,
    "VAR_HANDLE": moves.nothing,
    "WHILE": control.loop,
    "ZEROS_LIKE": moves.zeros_like,
    **SIGNAL,
}
