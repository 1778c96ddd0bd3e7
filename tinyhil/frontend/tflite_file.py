"""A .tflite file as plain records, every size checked: the flatbuffer is read through the package `tflite`.

A flatbuffer is offsets into itself, and a damaged one points anywhere; the package reads what it is pointed at. So
whatever it stumbles over is the file's fault, and counts are bounded by the file's length before anything is walked.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import tflite

from tinyhil.errors import ModelError
from tinyhil.language.graph import Shape, element_count

IDENTIFIER = b"TFL3"
TYPES = {0: "float32", 1: "float16", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8", 16: "uint16"}
VARIABLES = {"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE"}
STATES_REMEDY = "convert the model with each state as an input and an output and name them with --state IN=OUT"
TYPE_NAMES = {number: name for name, number in vars(tflite.TensorType).items() if isinstance(number, int)}
ACTIVATIONS = {number: name for name, number in vars(tflite.ActivationFunctionType).items() if isinstance(number, int)}
COMPRESSED = b"COMPRESSION_METADATA"
INTEGERS = ("uint8", "int8", "int16", "int32", "uint16")
LEAST_SCALE, MOST_SCALE = 2.0**-100, 2.0**60  # a step; of a bias the product of two
MAX_AXES = 8
DAMAGE = (
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    AssertionError,
)
Read = TypeVar("Read")

# options that an operator needs, by the tables they are in
CONV = ("FusedActivationFunction", "Padding", "StrideH", "StrideW", "DilationHFactor", "DilationWFactor")
POOL = ("FusedActivationFunction", "Padding", "StrideH", "StrideW", "FilterHeight", "FilterWidth")
OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ADD": ("AddOptions", ("FusedActivationFunction",)),
    "AVERAGE_POOL_2D": ("Pool2DOptions", POOL),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", "FusedActivationFunction")),
    "CONV_2D": ("Conv2DOptions", CONV),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", CONV),
    "DIV": ("DivOptions", ("FusedActivationFunction",)),
    "FULLY_CONNECTED": ("FullyConnectedOptions", ("FusedActivationFunction", "WeightsFormat")),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    "MAX_POOL_2D": ("Pool2DOptions", POOL),
    "MEAN": ("ReducerOptions", ("KeepDims",)),
    "MUL": ("MulOptions", ("FusedActivationFunction",)),
    "REDUCE_MAX": ("ReducerOptions", ("KeepDims",)),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "SUB": ("SubOptions", ("FusedActivationFunction",)),
    "SUM": ("ReducerOptions", ("KeepDims",)),
}


@dataclass(frozen=True, slots=True)
class Tensor:
    """`data` is None for what is computed; `scales` is None for what is not quantized."""

    name: str
    shape: Shape
    kind: str
    data: np.ndarray | None
    scales: np.ndarray | None
    zeros: np.ndarray | None
    axis: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operator; inputs are numbers of tensors, -1 where one is left out."""

    op: str
    number: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the node it becomes: what it does and its number in the file."""
        return f"{self.op.lower()}_{self.number}"


@dataclass(frozen=True, slots=True)
class File:
    """Tensors and operations of a TensorFlow Lite file."""

    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_file(data: bytes) -> File:
    """The main subgraph; ModelError if the file is damaged, or holds what has no place here."""
    if data[4:8] != IDENTIFIER:
        raise ModelError("not a valid TensorFlow Lite model (no 'TFL3' at its fifth byte)")
    return whole(lambda: _read(data))


def whole(read: Callable[[], Read]) -> Read:
    """What `read` returns; whatever it stumbles over is the file's fault. ModelError if it is damaged."""
    try:
        return read()
    except ModelError:
        raise
    except DAMAGE as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise ModelError(f"not a valid TensorFlow Lite model ({reason})") from None


def _read(data: bytes) -> File:
    model = tflite.Model.GetRootAs(data, 0)
    if model.OperatorCodesLength() > len(data) // 4:
        raise ValueError("more entries than bytes")
    used = {_name_of(model.OperatorCodes(index)) for index in range(model.OperatorCodesLength())}
    if used & VARIABLES:
        raise ModelError(f"it keeps a state in variables ({', '.join(sorted(used & VARIABLES))}); {STATES_REMEDY}")
    if model.SubgraphsLength() != 1:
        raise ModelError(f"{model.SubgraphsLength()} subgraphs; models with control flow are not supported")
    graph = model.Subgraphs(0)
    _require_uncompressed(model, len(data))
    counts = graph.TensorsLength(), graph.OperatorsLength(), model.BuffersLength(), model.OperatorCodesLength()
    if max(*counts, graph.InputsLength(), graph.OutputsLength()) > len(data) // 4:
        raise ValueError("more entries than bytes")
    tensors = tuple(_tensor(model, graph.Tensors(number), number, len(data)) for number in range(counts[0]))
    operations = tuple(_operation(model, graph.Operators(number), number, len(tensors)) for number in range(counts[1]))
    inputs = tuple(int(graph.Inputs(index)) for index in range(graph.InputsLength()))
    outputs = tuple(int(graph.Outputs(index)) for index in range(graph.OutputsLength()))
    if not all(0 <= number < len(tensors) for number in (*inputs, *outputs)):
        raise ValueError("an input or output that is no tensor")
    return File(tensors, operations, inputs, outputs)


def _require_uncompressed(model: Any, limit: int) -> None:
    """TensorFlow Lite Micro keeps weights as codes of a lookup table or a Huffman tree, and says so in the metadata."""
    if model.MetadataLength() > limit // 4:
        raise ValueError("more entries than bytes")
    if COMPRESSED in {model.Metadata(index).Name() for index in range(model.MetadataLength())}:
        raise ModelError("its weights are compressed (lookup table or Huffman codes); give the file before compression")


def _scales(quantization: Any, name: str, kind: str, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps and zero points of a tensor, along one axis or for all of it."""
    if quantization.DetailsType():
        raise ModelError(f"tensor '{name}' has a quantization of its own kind; only scales and zero points are known")
    if max(quantization.ScaleLength(), quantization.ZeroPointLength()) > limit // 4:
        raise ValueError("more scales than bytes")
    scales = np.array(quantization.ScaleAsNumpy(), np.float32)
    zeros = np.array(quantization.ZeroPointAsNumpy() if quantization.ZeroPointLength() else [0], np.int64)
    if zeros.size not in (1, scales.size):
        raise ValueError(f"{scales.size} scales and {zeros.size} zero points of '{name}'")
    wrong = scales[~((scales >= LEAST_SCALE) & (scales <= MOST_SCALE))]  # a NaN is in no range
    if wrong.size:
        raise ModelError(f"tensor '{name}' has the scale {wrong[0]:g}, which no calibration gives; the file is damaged")
    codes = np.iinfo(kind) if kind in INTEGERS else np.iinfo(np.int32)
    if zeros.min() < codes.min or zeros.max() > codes.max:
        raise ModelError(f"tensor '{name}' has a zero point beyond {kind}; the file is damaged")
    return scales, zeros


def _tensor(model: Any, tensor: Any, number: int, limit: int) -> Tensor:
    name = (tensor.Name() or b"").decode("utf-8", "replace") or f"tensor{number}"
    if tensor.ShapeLength() > MAX_AXES:
        raise ValueError(f"a tensor of {tensor.ShapeLength()} axes")
    shape = tuple(int(tensor.Shape(axis)) for axis in range(tensor.ShapeLength()))
    if min(shape, default=1) < 1:
        raise ModelError(f"tensor '{name}' has the shape {list(shape)}; convert with a fixed shape")
    kind = TYPES.get(tensor.Type(), "")
    if tensor.IsVariable():
        raise ModelError(f"tensor '{name}' keeps its value between samples; {STATES_REMEDY}")
    if tensor.Sparsity() is not None:
        raise ModelError(f"tensor '{name}' is sparse; store the weights densely")
    data = _data(model, tensor, name, shape, kind)
    quantization = tensor.Quantization()
    if quantization is None or not quantization.ScaleLength():
        return Tensor(name, shape, kind, data, None, None, 0)
    scales, zeros = _scales(quantization, name, kind, limit)
    axis = int(quantization.QuantizedDimension())
    if scales.size > 1 and (not 0 <= axis < len(shape) or shape[axis] != scales.size):
        raise ValueError(f"{scales.size} scales for '{name}' {list(shape)}")
    return Tensor(name, shape, kind, data, scales, zeros, axis)


def _data(model: Any, tensor: Any, name: str, shape: Shape, kind: str) -> np.ndarray | None:
    if not 0 <= tensor.Buffer() < model.BuffersLength():
        raise ValueError(f"'{name}' is in a buffer that is not there")
    buffer = model.Buffers(tensor.Buffer())
    if buffer.DataIsNone() or buffer.DataLength() == 0:
        if buffer.Size() > 1:
            raise ModelError(f"weights '{name}' lie behind the flatbuffer; convert a model of less than 2 GB")
        return None
    if not kind:
        known = TYPE_NAMES.get(tensor.Type(), tensor.Type())
        raise ModelError(f"weights '{name}' are {known}; supported are {', '.join(TYPES.values())}")
    if element_count(shape) * np.dtype(kind).itemsize != buffer.DataLength():
        raise ValueError(f"'{name}' {list(shape)} of {kind} in {buffer.DataLength()} B")
    values = np.frombuffer(buffer.DataAsNumpy().tobytes(), np.dtype(kind).newbyteorder("<")).reshape(shape)
    return values.astype(np.float32 if kind.startswith("float") else kind)


def _name_of(code: Any) -> str:
    kind = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())  # newer files have both, older ones the second alone
    return str(tflite.BUILTIN_OPCODE2NAME.get(kind, f"{kind}"))


def _operation(model: Any, operator: Any, number: int, tensors: int) -> Operation:
    if not 0 <= operator.OpcodeIndex() < model.OperatorCodesLength():
        raise ValueError("an operator of no kind")
    op = _name_of(model.OperatorCodes(operator.OpcodeIndex()))
    if max(operator.InputsLength(), operator.OutputsLength()) > tensors:
        raise ValueError("more operands than tensors")
    inputs = tuple(int(operator.Inputs(index)) for index in range(operator.InputsLength()))
    outputs = tuple(int(operator.Outputs(index)) for index in range(operator.OutputsLength()))
    if not all(-1 <= i < tensors for i in inputs) or not all(0 <= i < tensors for i in outputs) or not outputs:
        raise ValueError("an operand that is no tensor")
    options: dict[str, Any] = {}
    table, names = OPTIONS.get(op, ("", ()))
    if table:
        found, given = getattr(tflite, table)(), operator.BuiltinOptions()
        if given is None:
            raise ValueError(f"{op} without options")
        found.Init(given.Bytes, given.Pos)
        options = {name: getattr(found, name)() for name in names}
    return Operation(op, number, inputs, outputs, options)
