"""A .tflite file of int8 layers as a program of ExecuTorch: its schema, the operators of its Cortex-M backend.

Nothing of torch is asked: layers, scales and codes are the file's, so that two engines compute the same network. What
ExecuTorch's exporter would decide is decided here: tensors in one memory, the largest placed first; multipliers of 31
bits; scratch of the size that CMSIS-NN asks for; a reshaped tensor is the same memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.frontend.tflite_file import File, Operation, Tensor
from tinyhil.harness.engines.rounding_rules import factors_of, limits_of, multiplier_of, pads_of, zero_of
from tinyhil.language.graph import element_count

SAME_MEMORY = ("RESHAPE", "SQUEEZE")
ALIGNMENT = 16
SCALAR = {"int8": "CHAR", "int32": "INT"}
ADD_SHIFT, SOFTMAX_BITS = 20, 5  # as TensorFlow Lite's and CMSIS-NN's kernels have them
HEADER = struct.Struct("<4sIQQQ")
HEADER_BYTES = 48  # with the root's offset and the identifier before it
IDENTIFIER = b"ET12"


@dataclass(slots=True)
class Buffer:
    """Planned memory: bytes, and the first and last instruction that needs it; `offset` once it is placed."""

    size: int
    first: int
    last: int
    offset: int = 0


@dataclass(slots=True)
class Draft:
    """A program while it is written. `places`: tensor of the file -> its value and its memory."""

    content: File
    has_dsp: bool
    values: list[dict[str, Any]] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)
    operators: list[str] = field(default_factory=list)
    calls: list[tuple[str, list[int]]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    owners: dict[int, int] = field(default_factory=dict)  # value -> buffer
    places: dict[int, int] = field(default_factory=dict)

    def value(self, kind: str, content: Mapping[str, Any]) -> int:
        """The number of a further value."""
        self.values.append({"val_type": kind, "val": dict(content)})
        return len(self.values) - 1

    def number(self, content: int) -> int:
        """Of an integer."""
        return self.value("Int", {"int_val": int(content)})

    def numbers(self, content: Sequence[int]) -> int:
        """Of a list of integers, which holds the numbers of its values."""
        return self.value("IntList", {"items": [self.number(one) for one in content]})

    def constant(self, array: np.ndarray) -> int:
        """Of a tensor whose bytes are the file's."""
        self.constants.append(np.ascontiguousarray(array).tobytes())
        return self.tensor(array.shape, SCALAR[str(array.dtype)], {"data_buffer_idx": len(self.constants)})

    def tensor(self, shape: Sequence[int], scalar: str, more: Mapping[str, Any]) -> int:
        """Of a tensor with its axes in order."""
        axes = {"sizes": [int(size) for size in shape], "dim_order": list(range(len(shape)))}
        return self.value("Tensor", {"scalar_type": scalar, **axes, **more})

    def scratch(self, size: int) -> int:
        """Of working memory of the next instruction."""
        number = self.tensor((size,), "CHAR", {})
        self.owners[number] = self._buffer(size)
        return number

    def activation(self, number: int) -> int:
        """Of a tensor of the file, needed by the next instruction; a map has its channels innermost.
        ModelError if it is no int8 of the run."""
        if number not in self.places:
            tensor, shape = self.content.tensors[number], self.content.tensors[number].shape
            if tensor.kind != "int8" or tensor.data is not None:
                raise ModelError(f"'{tensor.name}' is of {tensor.kind}; ExecuTorch's Cortex-M operators take int8")
            self.places[number] = self._of_shape(shape)
            self.owners[self.places[number]] = self._buffer(element_count(shape))
        value = self.places[number]
        self.buffers[self.owners[value]].last = len(self.calls)
        return value

    def reshaped(self, source: int, target: int) -> None:
        """The same memory under another shape."""
        owner = self.owners[self.activation(source)]
        self.places[target] = self._of_shape(self.content.tensors[target].shape)
        self.owners[self.places[target]] = owner

    def call(self, operator: str, arguments: Sequence[int], output: int) -> None:
        """An instruction; its output is its last argument and its result."""
        if operator not in self.operators:
            self.operators.append(operator)
        self.calls.append((operator, [*arguments, output, output]))

    def _of_shape(self, shape: Sequence[int]) -> int:
        if len(shape) != 4:
            return self.tensor(shape, "CHAR", {})
        sizes = {"sizes": [int(shape[axis]) for axis in (0, 3, 1, 2)], "dim_order": [0, 2, 3, 1]}
        return self.tensor(shape, "CHAR", sizes)

    def _buffer(self, size: int) -> int:
        self.buffers.append(Buffer(size, len(self.calls), len(self.calls)))
        return len(self.buffers) - 1


@dataclass(frozen=True, slots=True)
class Program:
    """`text`: in the words of schema/program.fbs, for flatc; `constants`: the segment behind it. `planned_bytes`: of
    its memory. `offsets`: where in it a tensor of the file is."""

    text: str
    constants: bytes
    operators: tuple[str, ...]
    planned_bytes: int
    offsets: Mapping[int, int]


def program_of(content: File, *, has_dsp: bool, shares: bool = True) -> Program:
    """The program for a core with or without DSP instructions; `shares` False: each tensor keeps its memory. ModelError
    for an operator that the Cortex-M backend has not."""
    draft = Draft(content, has_dsp)
    first = draft.activation(content.inputs[0])
    for one in content.operations:
        if one.op in SAME_MEMORY:
            draft.reshaped(one.inputs[0], one.outputs[0])
        elif one.op in LAYERS:
            LAYERS[one.op](draft, one)
        else:
            known = ", ".join(sorted((*LAYERS, *SAME_MEMORY)))
            raise ModelError(f"{one.name}: {one.op} is none of the operators written for ExecuTorch: {known}")
    last = draft.activation(content.outputs[0])
    planned = _placed(draft.buffers, shares=shares)
    for value, owner in draft.owners.items():
        place = {"memory_id": 1, "memory_offset_low": draft.buffers[owner].offset}
        draft.values[value]["val"]["allocation_info"] = place
    offsets = {number: draft.buffers[draft.owners[value]].offset for number, value in draft.places.items()}
    text = json.dumps(_schema(draft, first, last, planned))
    return Program(text, _segment(draft.constants)[0], tuple(draft.operators), planned, offsets)


def packed(flatbuffer: bytes, constants: bytes) -> bytes:
    """The .pte file: the extended header behind the identifier, the segment of constants behind the flatbuffer.
    ModelError if it is of another version."""
    if flatbuffer[4:8] != IDENTIFIER:
        raise ModelError(f"a program of ExecuTorch begins with {IDENTIFIER.decode()}; use the schema of this checkout")
    root = struct.unpack("<I", flatbuffer[:4])[0]
    size = len(flatbuffer) + HEADER_BYTES
    base = -(-size // ALIGNMENT) * ALIGNMENT
    header = HEADER.pack(b"eh00", HEADER.size, size, base, len(constants))
    head = struct.pack("<I", root + HEADER_BYTES) + IDENTIFIER + header
    return head.ljust(HEADER_BYTES + 8, b"\0") + flatbuffer[8:] + bytes(base - size) + constants


def _segment(constants: Sequence[bytes]) -> tuple[bytes, list[int]]:
    data, offsets = b"", [0]
    for one in constants:
        offsets.append(len(data))
        data += one + bytes(-len(one) % ALIGNMENT)
    return data, offsets


def _schema(draft: Draft, first: int, last: int, planned: int) -> dict[str, Any]:
    data, offsets = _segment(draft.constants)
    calls = [
        {"instr_args_type": "KernelCall", "instr_args": {"op_index": draft.operators.index(name), "args": arguments}}
        for name, arguments in draft.calls
    ]
    names = [dict(zip(("name", "overload"), name.split("."), strict=True)) for name in draft.operators]
    plan = {
        "name": "forward",
        "values": draft.values,
        "inputs": [first],
        "outputs": [last],
        "chains": [{"inputs": [], "outputs": [], "instructions": calls}],
        "operators": names,
        "delegates": [],
        "non_const_buffer_sizes": [0, planned],
    }
    segment = {"segments": [{"offset": 0, "size": len(data)}], "constant_segment": {"offsets": offsets}}
    return {"version": 0, "execution_plan": [plan], **segment}


def _placed(buffers: Sequence[Buffer], *, shares: bool) -> int:
    """Offsets, the largest buffer first, each as low as what lives beside it allows; the bytes of all."""
    done: list[Buffer] = []
    for one in sorted(buffers, key=lambda buffer: -buffer.size):
        beside = [b for b in done if not shares or (b.first <= one.last and one.first <= b.last)]
        for other in sorted(beside, key=lambda buffer: buffer.offset):
            if one.offset + one.size <= other.offset:
                break
            one.offset = max(one.offset, -(-(other.offset + other.size) // ALIGNMENT) * ALIGNMENT)
        done.append(one)
    return max(buffer.offset + buffer.size for buffer in buffers)


def _multipliers(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    made = np.array([multiplier_of(float(factor)) for factor in factors], np.int32)
    return made[:, 0], made[:, 1]


def _bias(draft: Draft, one: Operation) -> int:
    data = draft.content.tensors[one.inputs[2]].data if len(one.inputs) > 2 and one.inputs[2] >= 0 else None
    return draft.value("Null", {}) if data is None else draft.constant(data.astype(np.int32))


def _weights(draft: Draft, one: Operation) -> np.ndarray:
    tensor = draft.content.tensors[one.inputs[1]]
    if tensor.data is None or tensor.kind != "int8" or (tensor.zeros is not None and tensor.zeros.any()):
        raise ModelError(f"{one.name}: ExecuTorch's Cortex-M operators take constant int8 weights around zero")
    return tensor.data.astype(np.int8)


def _convolution(draft: Draft, one: Operation) -> None:
    source, target = (draft.content.tensors[number] for number in (one.inputs[0], one.outputs[0]))
    w, is_depthwise = _weights(draft, one), one.op == "DEPTHWISE_CONV_2D"
    steps = one.options["StrideH"], one.options["StrideW"]
    spread = one.options["DilationHFactor"], one.options["DilationWFactor"]
    pads = [pad[0] for pad in pads_of(one, source.shape[1:3], w.shape[1:3])]
    multipliers, shifts = _multipliers(factors_of(source, draft.content.tensors[one.inputs[1]], target))
    low, high = limits_of(one, target)
    arguments = [
        draft.activation(one.inputs[0]),
        draft.constant(w),
        _bias(draft, one),
        *(draft.numbers(pair) for pair in (steps, pads, spread)),
        *([draft.number(w.shape[3] // source.shape[3])] if is_depthwise else []),
        *(draft.number(offset) for offset in (-zero_of(source), zero_of(target))),
        *(draft.constant(np.resize(part, target.shape[3])) for part in (multipliers, shifts)),
        *(draft.number(limit) for limit in (low, high)),
        draft.scratch(_scratch_bytes(draft, one, source, w.shape, pads)),
    ]
    name = "depthwise_conv2d" if is_depthwise else "conv2d"
    draft.call(f"cortex_m::quantized_{name}.out", arguments, draft.activation(one.outputs[0]))


def _scratch_bytes(draft: Draft, one: Operation, source: Tensor, kernel: Sequence[int], pads: Sequence[int]) -> int:
    """What CMSIS-NN's arm_convolve_wrapper_s8 and arm_depthwise_conv_wrapper_s8 ask for on cores without MVE."""
    taps = kernel[1] * kernel[2] * source.shape[3]
    is_spread = (one.options["DilationHFactor"], one.options["DilationWFactor"]) != (1, 1)
    if one.op == "CONV_2D":
        is_point = (*kernel[1:3], *pads) == (1, 1, 0, 0) and not is_spread
        return 0 if is_point else 4 * (-(-taps // 4) * 4)
    is_three = tuple(kernel[1:3]) == (3, 3) and max(pads) <= 1
    plain = kernel[3] == source.shape[3] and not is_spread and not is_three
    return 2 * taps if plain and draft.has_dsp else 0


def _dense(draft: Draft, one: Operation) -> None:
    source, weights, target = (draft.content.tensors[n] for n in (*one.inputs[:2], one.outputs[0]))
    multipliers, shifts = _multipliers(factors_of(source, weights, target))
    if len(set(zip(multipliers.tolist(), shifts.tolist(), strict=True))) > 1:
        raise ModelError(f"{one.name}: ExecuTorch's quantized_linear has one scale for all weights")
    low, high = limits_of(one, target)
    w = _weights(draft, one)
    x = one.inputs[0]
    if source.shape[-1] != w.shape[1]:
        raise ModelError(f"{one.name}: its input of {source.shape} is no row of {w.shape[1]} numbers")
    arguments = [
        draft.activation(x),
        draft.constant(w),
        _bias(draft, one),
        draft.value("Null", {}),  # sums of weights, which Helium alone uses
        *(draft.number(offset) for offset in (-zero_of(source), 0, zero_of(target))),
        *(draft.numbers(part[:1].tolist()) for part in (multipliers, shifts)),
        *(draft.number(limit) for limit in (high, low)),
    ]
    draft.call("cortex_m::quantized_linear.out", arguments, draft.activation(one.outputs[0]))


def _pooling(draft: Draft, one: Operation) -> None:
    source, target = (draft.content.tensors[number] for number in (one.inputs[0], one.outputs[0]))
    if (_scale(source), zero_of(source)) != (_scale(target), zero_of(target)):
        raise ModelError(f"{one.name}: ExecuTorch's quantized pooling does not rescale")
    window = one.options["FilterHeight"], one.options["FilterWidth"]
    steps, pads = (one.options["StrideH"], one.options["StrideW"]), pads_of(one, source.shape[1:3], window)
    if any(before != after for before, after in pads):
        raise ModelError(f"{one.name}: ExecuTorch pads both sides of a pooled map alike")
    pairs = [draft.numbers(pair) for pair in (window, steps, [pad[0] for pad in pads])]
    low, high = limits_of(one, target)
    x, is_whole = draft.activation(one.inputs[0]), (low, high) == (-128, 127)
    if one.op == "AVERAGE_POOL_2D":
        if not is_whole:
            raise ModelError(f"{one.name}: ExecuTorch's quantized_avg_pool2d has no activation")
        rest = [draft.value("Bool", {"bool_val": False}), *map(draft.number, (zero_of(source), 1 << 30, 1))]
        scratch = draft.scratch(4 * source.shape[3] if draft.has_dsp else 0)
        draft.call("cortex_m::quantized_avg_pool2d.out", [x, *pairs, *rest, scratch], draft.activation(one.outputs[0]))
        return
    ends = map(draft.number, (zero_of(source), zero_of(target), low, high))
    rest = [draft.numbers((1, 1)), draft.value("Bool", {"bool_val": False}), *ends]
    draft.call("cortex_m::quantized_max_pool2d.out", [x, *pairs, *rest], draft.activation(one.outputs[0]))


def _add(draft: Draft, one: Operation) -> None:
    ends = [draft.content.tensors[number] for number in (*one.inputs, one.outputs[0])]
    left, right, target = (_scale(end) for end in ends)
    widest = 2 * max(left, right)
    factors = np.array([left / widest, right / widest, widest / ((1 << ADD_SHIFT) * target)])
    multipliers, shifts = _multipliers(factors)
    zeros = [zero_of(end) for end in ends]
    rescales = [list(map(draft.number, row)) for row in zip(zeros, multipliers, shifts, strict=True)]
    x, y = (draft.activation(number) for number in one.inputs)
    limits = map(draft.number, limits_of(one, ends[2]))
    arguments = [x, *rescales[0], y, *rescales[1], *rescales[2], *limits]
    draft.call("cortex_m::quantized_add.out", arguments, draft.activation(one.outputs[0]))


def _softmax(draft: Draft, one: Operation) -> None:
    source, target = (draft.content.tensors[number] for number in (one.inputs[0], one.outputs[0]))
    factor = min(float(one.options["Beta"]) * _scale(source) * (1 << (31 - SOFTMAX_BITS)), 2.0**31 - 1)
    multiplier, shift = multiplier_of(factor)
    reach = ((1 << SOFTMAX_BITS) - 1) * 2.0 ** (31 - SOFTMAX_BITS) / 2.0**shift
    whole = (len(source.shape) - 1, zero_of(source), zero_of(target), multiplier, shift, -int(reach))
    arguments = [draft.activation(one.inputs[0]), *map(draft.number, whole)]
    draft.call("cortex_m::softmax.out", arguments, draft.activation(one.outputs[0]))


def _scale(tensor: Tensor) -> float:
    if tensor.scales is None:
        raise ModelError(f"'{tensor.name}' has no scale; ExecuTorch's Cortex-M operators take int8 with one")
    return float(tensor.scales[0])


LAYERS: Mapping[str, Callable[[Draft, Operation], None]] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "FULLY_CONNECTED": _dense,
    "AVERAGE_POOL_2D": _pooling,
    "MAX_POOL_2D": _pooling,
    "ADD": _add,
    "SOFTMAX": _softmax,
}
