"""Small .tflite files, written field by field: convolution, pool, dense layer and softmax, in floats or in int8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers

FLOAT, INT32, INT8 = tflite.TensorType.FLOAT32, tflite.TensorType.INT32, tflite.TensorType.INT8
INT16, UINT8, BOOL = tflite.TensorType.INT16, tflite.TensorType.UINT8, tflite.TensorType.BOOL
INT64, RESOURCE = tflite.TensorType.INT64, tflite.TensorType.RESOURCE
UINT32, UINT64 = tflite.TensorType.UINT32, tflite.TensorType.UINT64
OPERATOR, OPTIONS = tflite.BuiltinOperator, tflite.BuiltinOptions
Grid = tuple[Sequence[float], Sequence[int], int]


def _several(numbers: int | Sequence[int]) -> Sequence[int]:
    return [numbers] if isinstance(numbers, int) else numbers


class Writer:
    def __init__(self) -> None:
        self.b = flatbuffers.Builder(4096)
        self.buffers = [self._buffer(None)]
        self.tensors: list[int] = []
        self.operators: list[int] = []
        self.codes: list[int | str] = []  # numbers, or names of custom ones
        self.metadata: list[int] = []
        self.graphs: list[int] = []

    def vector(self, numbers: Any, kind: type) -> int:
        return int(self.b.CreateNumpyVector(np.asarray(numbers, kind)))

    def offsets(self, items: Sequence[int]) -> int:
        self.b.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.b.PrependUOffsetTRelative(item)
        return int(self.b.EndVector())

    def table(self, name: str, **fields: Any) -> int:
        """`fields` by their names in the schema: numbers and offsets."""
        getattr(tflite, f"{name}Start")(self.b)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(self.b, value)
        return int(getattr(tflite, f"{name}End")(self.b))

    def _buffer(self, data: np.ndarray | None) -> int:
        fields = {} if data is None else {"Data": self.vector(np.frombuffer(data.tobytes(), np.uint8), np.uint8)}
        return self.table("Buffer", **fields)

    def tensor(
        self,
        name: str,
        shape: Sequence[int],
        kind: int,
        data: np.ndarray | None = None,
        grid: Grid | None = None,
        sparsity: int | None = None,
        is_variable: bool = False,
    ) -> int:
        fields: dict[str, int] = {
            "Name": self.b.CreateString(name),
            "Shape": self.vector(shape, np.int32),
            "Type": kind,
        }
        if data is not None:
            fields["Buffer"] = len(self.buffers)
            self.buffers.append(self._buffer(data))
        if grid is not None:
            scale, zero = self.vector(grid[0], np.float32), self.vector(grid[1], np.int64)
            made = self.table("QuantizationParameters", Scale=scale, ZeroPoint=zero, QuantizedDimension=grid[2])
            fields["Quantization"] = made
        if is_variable:
            fields["IsVariable"] = True
        if sparsity is not None:
            fields["Sparsity"] = sparsity
        self.tensors.append(self.table("Tensor", **fields))
        return len(self.tensors) - 1

    def custom(self, name: str, inputs: Sequence[int], outputs: int | Sequence[int], **options: Any) -> None:
        """A custom operator with its options as a FlexBuffer."""
        made = self.vector(np.frombuffer(bytes(flexbuffers.Dumps(options)), np.uint8), np.uint8)
        self.operator(name, inputs, outputs, custom=made)

    def operator(
        self,
        code: int | str,
        inputs: Sequence[int],
        outputs: int | Sequence[int],
        kind: str = "",
        custom: int = 0,
        **options: Any,
    ) -> None:
        if code not in self.codes:
            self.codes.append(code)
        fields = {"Inputs": self.vector(inputs, np.int32), "Outputs": self.vector(_several(outputs), np.int32)}
        if kind:
            fields |= {"BuiltinOptions": self.table(kind, **options), "BuiltinOptionsType": getattr(OPTIONS, kind)}
        if custom:
            fields["CustomOptions"] = custom
        self.operators.append(self.table("Operator", OpcodeIndex=self.codes.index(code), **fields))

    def _code(self, code: int | str) -> int:
        name = {"CustomCode": self.b.CreateString(code)} if isinstance(code, str) else {}
        number = OPERATOR.CUSTOM if isinstance(code, str) else code
        kind = {"BuiltinCode": number, "DeprecatedBuiltinCode": min(number, 127), "Version": 1}
        return self.table("OperatorCode", **kind, **name)

    def subgraph(self, sources: int | Sequence[int], outputs: int | Sequence[int]) -> None:
        """What was written since the last one; tensors that follow are numbered from 0 again."""
        tensors, operators = self.offsets(self.tensors), self.offsets(self.operators)
        ends = {"Inputs": self.vector(_several(sources), np.int32), "Outputs": self.vector(_several(outputs), np.int32)}
        self.graphs.append(self.table("SubGraph", Tensors=tensors, Operators=operators, **ends))
        self.tensors, self.operators = [], []

    def file(self, sources: int | Sequence[int], outputs: int | Sequence[int]) -> bytes:
        codes = [self._code(code) for code in self.codes]
        self.subgraph(sources, outputs)
        parts = {"Subgraphs": self.offsets(self.graphs), "OperatorCodes": self.offsets(codes)}
        if self.metadata:
            parts["Metadata"] = self.offsets(self.metadata)
        model = self.table("Model", Version=3, Buffers=self.offsets(self.buffers), **parts)
        self.b.Finish(model, b"TFL3")
        return bytes(self.b.Output())


def classifier(quantized: bool) -> bytes:
    """(1, 6, 5, 2) -> convolution of 3 channels, SAME, stride 2, RELU6 -> MEAN or pool -> dense of 4 -> softmax."""
    w, rng = Writer(), np.random.default_rng(5)

    def value(name: str, shape: Sequence[int], scale: float, zero: int = -128) -> int:
        return w.tensor(name, shape, INT8 if quantized else FLOAT, None, ([scale], [zero], 0) if quantized else None)

    def weights(name: str, shape: Sequence[int], scales: Sequence[float], source: float) -> list[int]:
        codes = rng.integers(-127, 128, shape)
        bias = rng.integers(-500, 500, shape[0])
        steps = np.asarray(scales)
        if quantized:
            first = w.tensor(name, shape, INT8, codes.astype(np.int8), (scales, [0] * len(scales), 0))
            grid = (source * steps, [0] * len(scales), 0)
            return [first, w.tensor(f"{name}_bias", [shape[0]], INT32, bias.astype(np.int32), grid)]
        real = codes * steps.reshape(-1, *[1] * (len(shape) - 1))
        first = w.tensor(name, shape, FLOAT, real.astype(np.float32))
        return [first, w.tensor(f"{name}_bias", [shape[0]], FLOAT, (bias * source * steps).astype(np.float32))]

    x = value("x", [1, 6, 5, 2], 0.05, 3)
    c = value("c", [1, 3, 3, 3], 6 / 255)
    p = value("p", [1, 1, 1, 3], 6 / 255)
    r, d, y = value("r", [1, 3], 6 / 255), value("d", [1, 4], 0.1, 5), value("y", [1, 4], 1 / 256)
    conv = {"StrideH": 2, "StrideW": 2, "Padding": 0, "FusedActivationFunction": 3}
    conv |= {"DilationHFactor": 1, "DilationWFactor": 1}
    w.operator(
        OPERATOR.CONV_2D, [x, *weights("w", [3, 3, 3, 2], [0.01, 0.02, 0.015], 0.05)], c, "Conv2DOptions", **conv
    )
    pool = {"StrideH": 3, "StrideW": 3, "Padding": 1, "FilterHeight": 3, "FilterWidth": 3}
    w.operator(OPERATOR.AVERAGE_POOL_2D, [c], p, "Pool2DOptions", **pool)
    shape = w.tensor("shape", [2], INT32, np.array([1, 3], np.int32))
    w.operator(OPERATOR.RESHAPE, [p, shape], r)
    dense = [r, *weights("v", [4, 3], [0.01], 6 / 255)]
    w.operator(OPERATOR.FULLY_CONNECTED, dense, d, "FullyConnectedOptions", FusedActivationFunction=0)
    w.operator(OPERATOR.SOFTMAX, [d], y, "SoftmaxOptions", Beta=1.0)
    return w.file(x, y)


def edited(change: Callable[[bytearray], Any], quantized: bool = True) -> bytes:
    data = bytearray(classifier(quantized))
    change(data)
    return bytes(data)
