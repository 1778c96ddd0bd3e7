"""The values of a .tflite file as it is read: real numbers and codes of a tensor, in the file's form and as planes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend.builder import Builder
from tinyhil.frontend.listing import Call
from tinyhil.frontend.rewrite_quantized import KINDS
from tinyhil.frontend.rewrites import rewritten
from tinyhil.frontend.tflite_file import ACTIVATIONS
from tinyhil.frontend.tflite_records import File, Operation, Tensor

TO_PLANES, TO_FILE = (0, 3, 1, 2), (0, 2, 3, 1)
FILE, PLANES = "file", "planes"
ENDS = {"RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
WHOLE_KINDS = ("int8", "int16", "int32", "uint32")  # of numbers that have no scale
REFUSED = {"ethos-u": "its layers are commands for an Ethos-U NPU by now: give the file as it was before Vela"}
Convert = Callable[["Reader", Operation], None]


class Reader:
    """Lives for one file. `values` are real numbers, `codes` the integers behind them, by tensor and form."""

    def __init__(
        self,
        file: File,
        operators: Mapping[str, Convert],
        of_wholes: Mapping[str, Convert],
        builder: Builder | None = None,
        inlined: list[int] | None = None,
    ) -> None:
        self.file, self.operators, self.of_wholes = file, operators, of_wholes
        self.builder = builder or Builder(rewritten)
        self.values: dict[tuple[int, str], str] = {}
        self.codes: dict[tuple[int, str], str] = {}
        self.held: dict[str, str] = {}  # state -> its value at this place: codes, or real numbers
        self.wholes: set[int] = set()  # tensors of whole numbers that are no codes
        self.inlined = [] if inlined is None else inlined  # subgraphs that were read where they are called
        self.banks: dict[int, tuple[list[str], int]] = {}  # sums of 64 bits: operands and channels

    def take(self, number: int, value: str) -> None:
        """Tensor `number` is this value of the builder: real numbers, or codes of the tensor's kind."""
        tensor = self.file.tensors[number]
        if tensor.kind not in KINDS or tensor.scales is None:
            self.values[number, FILE] = value
            self.wholes |= {number} if tensor.kind in KINDS else set()
            return
        self.codes[number, FILE] = value
        self.values[number, FILE] = self._real(number, value, self.name(number))

    def results(self, with_states: bool) -> tuple[str, ...]:
        """Add the operators that lead to the outputs, and to the states where these are wanted; the outputs' values.
        ModelError for an operator that nobody knows."""
        outputs = self.file.outputs
        for operation in self.file.operations:
            if not with_states and set(outputs) <= {number for number, _ in self.values}:
                break
            convert = self._converter(operation)
            if convert is None:
                why = REFUSED.get(operation.op, "`hil docs exporters` lists those that are")
                raise ModelError(f"node '{operation.name}': operator {operation.op} is not supported; {why}")
            convert(self, operation)
        for number in outputs:
            self.value(number)  # in the file's form
        return tuple(self.result(number) for number in outputs)

    def _converter(self, operation: Operation) -> Convert | None:
        """Of integers without a scale, if one of its operands is one; else of real numbers."""
        if operation.op in self.of_wholes and self.wholes.intersection(operation.inputs):
            return self.of_wholes[operation.op]
        return self.operators.get(operation.op)

    # ---- tensors

    def result(self, number: int) -> str:
        """The codes of a quantized tensor, the values of another, as they lie in the file."""
        if (number, FILE) in self.codes or not self._quantized(number):
            return self.codes.get((number, FILE)) or self.values[number, FILE]
        return self.add("Transpose", self.codes[number, PLANES], out=f"{self.name(number)}.file", perm=TO_FILE)

    def value(self, number: int, form: str = FILE) -> str:
        """Name of the real values of a tensor; of a constant in the file's form. ModelError if nothing computes it."""
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
        """Name of a new constant."""
        return self.builder.constant(f"{stem}.{part}", np.asarray(array))

    def whole_numbers(self, number: int) -> list[int]:
        """A constant list: a shape, axes, pads; ModelError if it is computed."""
        data = self.file.tensors[number].data if number >= 0 else None
        if data is None and (number, FILE) in self.values:
            data = self.builder.constants.get(self.values[number, FILE])
        if data is None:
            raise ModelError(f"tensor {number} is computed at run time; convert with fixed shapes")
        return [int(value) for value in data.reshape(-1)]

    # ---- operators

    def add(self, op: str, *inputs: str, out: str, **attrs: Any) -> str:
        """The result of a new node."""
        attrs = {name: list(value) if isinstance(value, tuple) else value for name, value in attrs.items()}
        return self.builder.add(Call(op, out, inputs, (out,), attrs))[0]

    def finish(self, operation: Operation, value: str, form: str = FILE, index: int = 0) -> None:
        """`value` is result `index` of `operation`: activated, put on the grid of its tensor. ModelError for
        activations that are not known."""
        number = operation.outputs[index]
        tensor = self.file.tensors[number]
        value = self.activated(operation, value)
        shape = self.builder.shapes[value]
        if form == PLANES and len(shape) == 4:
            shape = tuple(shape[axis] for axis in TO_FILE)
        if shape != tensor.shape:
            raise ModelError(
                f"node '{operation.name}': its result is {list(shape)}, the file says {list(tensor.shape)}; "
                "the file is damaged"
            )
        signal = operation.op.startswith("Signal") or self.wholes.intersection(operation.inputs)
        if signal and tensor.scales is None and tensor.kind in WHOLE_KINDS:
            self.wholes.add(number)
        if self._quantized(number):
            self.codes[number, form] = self.to_codes(number, value)
            value = self._real(number, self.codes[number, form], f"{tensor.name}.real")
        self.values[number, form] = value

    def activated(self, operation: Operation, value: str) -> str:
        """`value` behind the activation that `operation` names. ModelError for one that is not known."""
        kind = ACTIVATIONS.get(int(operation.options.get("FusedActivationFunction", 0)), "")
        stem = self.name(operation.outputs[0])
        if kind == "TANH":
            return self.add("Tanh", value, out=f"{stem}.tanh")
        if kind in ENDS:
            return self.clamped(value, *self.ends(kind, operation.outputs[0]), stem)
        if kind != "NONE":
            raise ModelError(f"node '{operation.name}': activation {kind or 'unknown'} is not supported")
        return value

    def clamped(self, value: str, low: float, high: float | None, stem: str) -> str:
        """`value` within its ends; None: no upper one."""
        if high is None:
            return self.add("Relu", value, out=f"{stem}.relu")
        ends = [self.number(stem, part, np.float32(end)) for part, end in (("low", low), ("high", high))]
        return self.add("Clip", value, *ends, out=f"{stem}.clip")

    def ends(self, kind: str, number: int) -> tuple[float, float | None]:
        """Of an activation, as the codes of the tensor `number` have them: in single precision, ties away from zero."""
        low, high = ENDS[kind]
        scales = self.file.tensors[number].scales if self._quantized(number) else None
        if scales is None or high is None:
            return low, high
        scale = np.float32(scales.reshape(-1)[0])
        units = [float(np.float32(end) / scale) for end in (low, high)]
        first, last = (math.copysign(math.floor(abs(unit) + 0.5), unit) * float(scale) for unit in units)
        return first, last

    def refuse(self, operation: Operation, what: str) -> ModelError:
        """The line for what of an operation is not supported."""
        return ModelError(f"node '{operation.name}' ({operation.op}): {what} is not supported; convert without it")

    # ---- scales

    def name(self, number: int) -> str:
        """Of a tensor."""
        return self.file.tensors[number].name

    def is_quantized(self, operation: Operation) -> bool:
        """Whether operand and result are codes."""
        return all(self._quantized(number) for number in (operation.inputs[0], operation.outputs[0]))

    def is_rescaled(self, operation: Operation) -> bool:
        """Whether operand and result are codes with different steps."""
        if not self.is_quantized(operation):
            return False
        first, second = (self.file.tensors[n].scales for n in (operation.inputs[0], operation.outputs[0]))
        return first is not None and second is not None and float(first[0]) != float(second[0])

    def taken_as(self, operation: Operation, value: str) -> str:
        """What the codes of `value` on the operand's grid are on the result's: RELU6 of the micro runtime, which
        clamps codes and rescales none."""
        codes = self.to_codes(operation.inputs[0], value, f"{self.name(operation.outputs[0])}.clamped")
        return self._real(operation.outputs[0], codes, f"{self.name(operation.outputs[0])}.taken")

    def _quantized(self, number: int) -> bool:
        tensor = self.file.tensors[number]
        if tensor.kind not in KINDS or number in self.wholes:
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

    def to_codes(self, number: int, value: str, out: str = "") -> str:
        """The codes of a quantized tensor that has the real values `value`, as its own or named `out`."""
        return self.add("QuantizeLinear", value, *self._grid(number), out=out or self.name(number))

    def on_grid(self, number: int, value: str) -> str:
        """`value` as the codes of the quantized tensor `number` have it."""
        return self._real(number, self.to_codes(number, value), value)

    def _real(self, number: int, codes: str, wish: str) -> str:
        return self.add("DequantizeLinear", codes, *self._grid(number), out=f"{wish}.real")
