"""TensorFlow Lite file -> Model: its operators as ONNX's, planes first, quantized values with the file's own scales.

A tensor is held as it is in the file, (batch, height, width, channels), or as planes, (batch, channels, height, width),
or both: whoever reads it asks for the form it needs, and a Transpose is added where that form is not there yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import files
from tinyhil.errors import ModelError
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Call, Model
from tinyhil.frontend.ports import ANY_STREAM, Fill, Port, Stream, connect
from tinyhil.frontend.rewrite_quantized import KINDS
from tinyhil.frontend.rewrites import rewritten
from tinyhil.frontend.tflite_file import ACTIVATIONS, File, Operation, Tensor, read_file, whole

TO_PLANES, TO_FILE = (0, 3, 1, 2), (0, 2, 3, 1)
FILE, PLANES = "file", "planes"
SAME = 0
ENDS = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}


def load_tflite(path: Path, stream: Stream = ANY_STREAM) -> Model:
    """Read, check and convert a .tflite file; several inputs, outputs and states as ports.py says.

    ModelError on a damaged file, an unsupported operator or option, or values that are not finite.
    """
    data = files.read_bytes(path, "model", files.MOST_MODEL_BYTES, ModelError)
    try:
        return tflite_model(data, path, stream=stream)
    except ModelError as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())}") from None  # names may hold line breaks


def tflite_model(data: bytes, path: Path, output: int | None = None, stream: Stream = ANY_STREAM) -> Model:
    """The model in `data`, called after `path`; its result is tensor number `output` where that is given."""
    file = read_file(data)
    outputs = file.outputs if output is None else (output,)
    return whole(lambda: _model(file, path, hashlib.sha256(data).hexdigest(), outputs, stream))


def _model(file: File, path: Path, sha256: str, outputs: tuple[int, ...], stream: Stream) -> Model:
    numbers = {file.tensors[number].name: number for number in file.inputs}

    def start() -> tuple[Builder, Fill]:
        reader = _Reader(file)

        def fill(values: Mapping[str, str]) -> tuple[str, ...]:
            for name, value in values.items():
                reader.take_input(numbers[name], value)
            return reader.results(outputs)

        return reader.builder, fill

    ports = [_port(file.tensors[number]) for number in file.inputs]
    builder, ends = connect(start, ports, [file.tensors[number].name for number in outputs], stream)
    graph, listing = builder.finish(path.stem, ends)
    return Model(graph, path, sha256, listing, notes=ends.notes, stream=ends.stream)


def _port(tensor: Tensor) -> Port:
    if tensor.kind not in ("float32", *KINDS):
        raise ModelError(f"input '{tensor.name}' is {tensor.kind or 'of an unknown type'}; use float32 or int8")
    if tensor.kind == "float32":
        return Port(tensor.name, tensor.shape)
    if tensor.scales is None or tensor.zeros is None:
        raise ModelError(f"input '{tensor.name}' is {tensor.kind} without a scale; convert again")
    return Port(tensor.name, tensor.shape, tensor.kind, int(tensor.zeros.reshape(-1)[0]))


class _Reader:
    """Lives for one file. `values` are real numbers, `codes` the integers behind them, by tensor and form."""

    def __init__(self, file: File) -> None:
        self.file, self.builder = file, Builder(rewritten)
        self.values: dict[tuple[int, str], str] = {}
        self.codes: dict[tuple[int, str], str] = {}

    def take_input(self, number: int, value: str) -> None:
        """Input `number` is this value of the builder: real numbers, or codes of the tensor's kind."""
        if self.file.tensors[number].kind == "float32":
            self.values[number, FILE] = value
            return
        self.codes[number, FILE] = value
        self.values[number, FILE] = self._real(number, value, self._name(number))

    def results(self, outputs: tuple[int, ...]) -> tuple[str, ...]:
        """Add the operators that lead to the tensors `outputs`; their values."""
        for operation in self.file.operations:
            if set(outputs) <= {number for number, _ in self.values}:
                break
            convert = OPERATORS.get(operation.op)
            if convert is None:
                known = ", ".join(sorted(OPERATORS))
                raise ModelError(
                    f"node '{operation.name}': operator {operation.op} is not supported; known are {known}"
                )
            convert(self, operation)
        for number in outputs:
            self.value(number)  # in the file's form
        return tuple(self._result(number) for number in outputs)

    # ---- tensors

    def _result(self, number: int) -> str:
        """The codes of a quantized tensor, the values of another, as they lie in the file."""
        if (number, FILE) in self.codes or not self._quantized(number):
            return self.codes.get((number, FILE)) or self.values[number, FILE]
        return self.add("Transpose", self.codes[number, PLANES], out=f"{self._name(number)}.file", perm=TO_FILE)

    def value(self, number: int, form: str = FILE) -> str:
        """Name of the real values of a tensor; of a constant in the file's form."""
        if number < 0:
            return ""
        found = self.values.get((number, form))
        if found is None:
            tensor = self.file.tensors[number]
            if tensor.data is not None:
                found = self._constant(tensor, tensor.data, form)
            elif (number, PLANES if form == FILE else FILE) in self.values:
                other, order = (PLANES, TO_FILE) if form == FILE else (FILE, TO_PLANES)
                found = self.add("Transpose", self.values[number, other], out=f"{tensor.name}.{form}", perm=order)
            else:
                raise ModelError(f"tensor '{tensor.name}' is used but never computed; the file is damaged")
            self.values[number, form] = found
        return found

    def _constant(self, tensor: Tensor, data: np.ndarray, form: str) -> str:
        """A constant as real values; what it was quantized by is kept."""
        order = list(TO_PLANES) if form == PLANES and data.ndim == 4 else list(range(data.ndim))
        axis = order.index(tensor.axis) if tensor.axis < data.ndim else 0
        return self.weights(tensor, data.transpose(order), axis)

    def weights(self, tensor: Tensor, data: np.ndarray, axis: int) -> str:
        """`data`, moved so that the file's scales lie along `axis`, as real values."""
        name = self.builder.constant(tensor.name, data)
        if tensor.scales is None or tensor.zeros is None:
            return name
        # scales of a bias and of weights are the file's, whatever the formats around them
        zeros = tensor.zeros.astype(data.dtype)
        grid = [self.number(tensor.name, "scale", tensor.scales), self.number(tensor.name, "zero", zeros)]
        if tensor.scales.size == 1:
            grid = [self.builder.constant(n, self.builder.constants[n].reshape(())) for n in grid]
        return self.add("DequantizeLinear", name, *grid, out=f"{tensor.name}.real", axis=axis)

    def number(self, stem: str, part: str, array: Any) -> str:
        return self.builder.constant(f"{stem}.{part}", np.asarray(array))

    def whole_numbers(self, number: int) -> list[int]:
        """A constant list: a shape, axes, pads."""
        data = self.file.tensors[number].data if number >= 0 else None
        if data is None:
            raise ModelError(f"tensor {number} is computed at run time; convert with fixed shapes")
        return [int(value) for value in data.reshape(-1)]

    # ---- operators

    def add(self, op: str, *inputs: str, out: str, **attrs: Any) -> str:
        attrs = {name: list(value) if isinstance(value, tuple) else value for name, value in attrs.items()}
        return self.builder.add(Call(op, out, inputs, (out,), attrs))[0]

    def finish(self, operation: Operation, value: str, form: str) -> None:
        """`value` is the result of `operation`: activated, put on the grid of its tensor."""
        number = operation.outputs[0]
        tensor = self.file.tensors[number]
        kind = ACTIVATIONS.get(int(operation.options.get("FusedActivationFunction", 0)), "")
        if kind == "TANH":
            value = self.add("Tanh", value, out=f"{tensor.name}.tanh")
        elif kind in ENDS:
            value = self.clamped(value, *ENDS[kind], tensor.name)
        elif kind != "NONE":
            raise ModelError(f"node '{operation.name}': activation {kind or 'unknown'} is not supported")
        shape = self.builder.shapes[value]
        if form == PLANES and len(shape) == 4:
            shape = tuple(shape[axis] for axis in TO_FILE)
        if shape != tensor.shape:
            raise ModelError(
                f"node '{operation.name}': its result is {list(shape)}, the file says {list(tensor.shape)}; "
                "the file is damaged"
            )
        if self._quantized(number):
            self.codes[number, form] = self._to_codes(number, value)
            value = self._real(number, self.codes[number, form], f"{tensor.name}.real")
        self.values[number, form] = value

    def clamped(self, value: str, low: float, high: float | None, stem: str) -> str:
        if high is None:
            return self.add("Relu", value, out=f"{stem}.relu")
        ends = [self.number(stem, part, np.float32(end)) for part, end in (("low", low), ("high", high))]
        return self.add("Clip", value, *ends, out=f"{stem}.clip")

    def refuse(self, operation: Operation, what: str) -> ModelError:
        return ModelError(f"node '{operation.name}' ({operation.op}): {what} is not supported; convert without it")

    # ---- scales

    def _name(self, number: int) -> str:
        return self.file.tensors[number].name

    def _quantized(self, number: int) -> bool:
        tensor = self.file.tensors[number]
        if tensor.kind not in KINDS:
            return False
        if tensor.scales is None or tensor.scales.size != 1:
            raise ModelError(f"tensor '{tensor.name}' is {tensor.kind} without one scale; convert again")
        return True

    def _grid(self, number: int) -> list[str]:
        tensor = self.file.tensors[number]
        assert tensor.scales is not None
        assert tensor.zeros is not None
        zero = tensor.zeros.reshape(-1)[0].astype(tensor.kind)
        return [
            self.number(tensor.name, "scale", tensor.scales.reshape(-1)[0]),
            self.number(tensor.name, "zero", zero),
        ]

    def _to_codes(self, number: int, value: str) -> str:
        return self.add("QuantizeLinear", value, *self._grid(number), out=self._name(number))

    def _real(self, number: int, codes: str, wish: str) -> str:
        return self.add("DequantizeLinear", codes, *self._grid(number), out=f"{wish}.real")


# ---- layers


def _spatial(reader: _Reader, operation: Operation, kernel: tuple[int, int]) -> dict[str, Any]:
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


def _weights_of(reader: _Reader, operation: Operation) -> tuple[Tensor, np.ndarray]:
    tensor = reader.file.tensors[operation.inputs[1]]
    if tensor.data is None:
        raise reader.refuse(operation, "weights computed at run time")
    return tensor, tensor.data


def _bias(reader: _Reader, operation: Operation) -> list[str]:
    number = operation.inputs[2] if len(operation.inputs) > 2 else -1
    return [] if number < 0 else [reader.value(number)]


def _conv(reader: _Reader, operation: Operation) -> None:
    tensor, data = _weights_of(reader, operation)
    size = reader.file.tensors[operation.inputs[0]].shape
    if data.ndim != 4 or len(size) != 4:
        raise reader.refuse(operation, f"weights {list(data.shape)} for an input {list(size)}")
    attrs = _spatial(reader, operation, (data.shape[1], data.shape[2]))
    if operation.op == "DEPTHWISE_CONV_2D":  # (1, height, width, channels)
        attrs["group"] = size[3]
        data = data.transpose(3, 0, 1, 2)
    else:  # (outputs, height, width, channels)
        attrs["group"] = max(size[3] // data.shape[3], 1)
        data = data.transpose(0, 3, 1, 2)
    weights = reader.weights(tensor, data, 0)
    x, out = reader.value(operation.inputs[0], PLANES), f"{reader._name(operation.outputs[0])}.conv"
    reader.finish(operation, reader.add("Conv", x, weights, *_bias(reader, operation), out=out, **attrs), PLANES)


def _dense(reader: _Reader, operation: Operation) -> None:
    if int(operation.options["WeightsFormat"]):
        raise reader.refuse(operation, "a shuffled weights format")
    tensor, data = _weights_of(reader, operation)
    x, stem = reader.value(operation.inputs[0]), reader._name(operation.outputs[0])
    rows = reader.number(stem, "rows", np.array([-1, data.shape[1]], np.int64))
    if len(reader.builder.shapes[x]) != 2 or reader.builder.shapes[x][1] != data.shape[1]:
        x = reader.add("Reshape", x, rows, out=f"{stem}.rows")
    y = reader.add("Gemm", x, reader.weights(tensor, data, 0), *_bias(reader, operation), out=f"{stem}.gemm", transB=1)
    shape = reader.file.tensors[operation.outputs[0]].shape
    if reader.builder.shapes[y] != shape:
        y = reader.add("Reshape", y, reader.number(stem, "shape", np.array(shape, np.int64)), out=f"{stem}.shaped")
    reader.finish(operation, y, FILE)


def _pool(reader: _Reader, operation: Operation) -> None:
    kernel = (int(operation.options["FilterHeight"]), int(operation.options["FilterWidth"]))
    op = "AveragePool" if operation.op == "AVERAGE_POOL_2D" else "MaxPool"
    x = reader.value(operation.inputs[0], PLANES)
    attrs = _spatial(reader, operation, kernel)
    reader.finish(operation, reader.add(op, x, out=f"{reader._name(operation.outputs[0])}.pool", **attrs), PLANES)


# ---- element by element


def _form(reader: _Reader, operation: Operation) -> str:
    """Planes where an operand of four axes is there as planes, and all have four axes or are constant numbers."""
    tensors = [reader.file.tensors[number] for number in operation.inputs if number >= 0]
    fits = all(len(t.shape) == 4 or (t.data is not None and t.data.size == 1) for t in tensors)
    held = any((number, PLANES) in reader.values for number in operation.inputs)
    return PLANES if fits and held else FILE


def _by_element(op: str, **attrs: Any) -> Callable[[_Reader, Operation], None]:
    def convert(reader: _Reader, operation: Operation) -> None:
        form = _form(reader, operation)
        names = [reader.value(number, form) for number in operation.inputs]
        out = f"{reader._name(operation.outputs[0])}.{op.lower()}"
        reader.finish(operation, reader.add(op, *names, out=out, **attrs), form)

    return convert


def _activation(kind: str) -> Callable[[_Reader, Operation], None]:
    def convert(reader: _Reader, operation: Operation) -> None:
        form, name = _form(reader, operation), reader._name(operation.outputs[0])
        value = reader.clamped(reader.value(operation.inputs[0], form), *ENDS[kind], name)
        reader.finish(operation, value, form)

    return convert


def _leaky_relu(reader: _Reader, operation: Operation) -> None:
    _by_element("LeakyRelu", alpha=float(operation.options["Alpha"]))(reader, operation)


def _same(reader: _Reader, operation: Operation) -> None:
    """QUANTIZE and DEQUANTIZE: the value itself, on the grid of the result."""
    form = _form(reader, operation)
    reader.finish(operation, reader.value(operation.inputs[0], form), form)


# ---- along axes


def _softmax(reader: _Reader, operation: Operation) -> None:
    x, out = reader.value(operation.inputs[0]), f"{reader._name(operation.outputs[0])}.softmax"
    if float(operation.options["Beta"]) != 1.0:
        x = reader.add("Mul", x, reader.number(out, "beta", np.float32(operation.options["Beta"])), out=f"{out}.scaled")
    reader.finish(operation, reader.add("Softmax", x, out=out, axis=-1), FILE)


def _moved(axis: int, rank: int, form: str) -> int:
    """An axis of the file in `form`."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of {rank}")
    return TO_PLANES.index(axis % rank) if form == PLANES else axis % rank


def _concat(reader: _Reader, operation: Operation) -> None:
    form = _form(reader, operation)
    rank = len(reader.file.tensors[operation.outputs[0]].shape)
    names = [reader.value(number, form) for number in operation.inputs]
    axis = _moved(int(operation.options["Axis"]), rank, form)
    out = f"{reader._name(operation.outputs[0])}.concat"
    reader.finish(operation, reader.add("Concat", *names, out=out, axis=axis), form)


def _reduce(op: str) -> Callable[[_Reader, Operation], None]:
    def convert(reader: _Reader, operation: Operation) -> None:
        number = operation.inputs[0]
        keep = bool(operation.options["KeepDims"])
        form = PLANES if (number, PLANES) in reader.values else FILE
        rank = len(reader.file.tensors[number].shape)
        axes = sorted(_moved(axis, rank, form) for axis in reader.whole_numbers(operation.inputs[1]))
        out = f"{reader._name(operation.outputs[0])}.{op.lower()}"
        y = reader.add(op, reader.value(number, form), out=out, axes=axes, keepdims=int(keep))
        if form == PLANES and not keep and rank - len(axes) > 1 and axes != [2, 3]:
            raise reader.refuse(operation, f"axes {axes} that leave planes")
        reader.finish(operation, y, form if keep else FILE)

    return convert


def _reshape(reader: _Reader, operation: Operation) -> None:
    tensor = reader.file.tensors[operation.outputs[0]]
    shape = reader.number(tensor.name, "shape", np.array(tensor.shape, np.int64))
    x = reader.value(operation.inputs[0])
    reader.finish(operation, reader.add("Reshape", x, shape, out=f"{tensor.name}.shaped"), FILE)


def _transpose(reader: _Reader, operation: Operation) -> None:
    order = reader.whole_numbers(operation.inputs[1])
    out = f"{reader._name(operation.outputs[0])}.turned"
    reader.finish(operation, reader.add("Transpose", reader.value(operation.inputs[0]), out=out, perm=order), FILE)


def _pad(reader: _Reader, operation: Operation) -> None:
    number = operation.inputs[0]
    form = PLANES if (number, PLANES) in reader.values else FILE
    pairs = np.array(reader.whole_numbers(operation.inputs[1])).reshape(-1, 2)
    pairs = pairs[list(TO_PLANES)] if form == PLANES else pairs
    out = f"{reader._name(operation.outputs[0])}.padded"
    pads = reader.number(out, "pads", pairs.T.reshape(-1).astype(np.int64))
    filler = [reader.value(operation.inputs[2])] if len(operation.inputs) > 2 else []
    reader.finish(operation, reader.add("Pad", reader.value(number, form), pads, *filler, out=out), form)


OPERATORS: dict[str, Callable[[_Reader, Operation], None]] = {
    "ABS": _by_element("Abs"),
    "ADD": _by_element("Add"),
    "AVERAGE_POOL_2D": _pool,
    "CONCATENATION": _concat,
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _conv,
    "DEQUANTIZE": _same,
    "DIV": _by_element("Div"),
    "ELU": _by_element("Elu"),
    "EXP": _by_element("Exp"),
    "EXPAND_DIMS": _reshape,
    "FULLY_CONNECTED": _dense,
    "HARD_SWISH": _by_element("HardSwish"),
    "LEAKY_RELU": _leaky_relu,
    "LOGISTIC": _by_element("Sigmoid"),
    "MAXIMUM": _by_element("Max"),
    "MAX_POOL_2D": _pool,
    "MEAN": _reduce("ReduceMean"),
    "MINIMUM": _by_element("Min"),
    "MUL": _by_element("Mul"),
    "NEG": _by_element("Neg"),
    "PAD": _pad,
    "PADV2": _pad,
    "QUANTIZE": _same,
    "REDUCE_MAX": _reduce("ReduceMax"),
    "RELU": _activation("RELU"),
    "RELU6": _activation("RELU6"),
    "RELU_N1_TO_1": _activation("RELU_N1_TO_1"),
    "RESHAPE": _reshape,
    "SOFTMAX": _softmax,
    "SQRT": _by_element("Sqrt"),
    "SQUEEZE": _reshape,
    "SUB": _by_element("Sub"),
    "SUM": _reduce("ReduceSum"),
    "TANH": _by_element("Tanh"),
    "TRANSPOSE": _transpose,
}
