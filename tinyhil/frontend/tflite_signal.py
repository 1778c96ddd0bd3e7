"""Signal operators of TensorFlow Lite Micro in a .tflite file, and casts and sums of integers without a scale.

What has memory keeps it in states of the file's (tflite_file.py names them): noise, frames, stacks and delays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyhil.frontend.tflite_file import memory_name
from tinyhil.frontend.tflite_reader import WHOLE_KINDS, Convert, Reader
from tinyhil.frontend.tflite_records import Operation

TYPES = {7: "int16", 2: "int32"}
REAL = "float32"


def _shaped(reader: Reader, value: str, shape: Sequence[int], out: str) -> str:
    if reader.builder.shapes[value] == tuple(shape):
        return value
    return reader.add("Reshape", value, reader.number(out, "shape", np.array(shape, np.int64)), out=f"{out}.shaped")


def _sliced(reader: Reader, value: str, begin: int, end: int, out: str) -> str:
    """Elements of the last axis."""
    axis = len(reader.builder.shapes[value]) - 1
    ends = (("begin", begin), ("end", end), ("axis", axis))
    return reader.add("Slice", value, *(reader.number(out, part, np.array([at])) for part, at in ends), out=out)


def _joined(reader: Reader, first: str, second: str, out: str) -> str:
    return reader.add("Concat", first, second, out=out, axis=len(reader.builder.shapes[first]) - 1)


def _simple(op: str, kind: str, **options: str) -> Convert:
    """One of ours for one of the file's; `options`: our attribute for the file's option."""

    def convert(reader: Reader, operation: Operation) -> None:
        attrs = {ours: int(operation.options[theirs]) for ours, theirs in options.items()}
        names = [reader.value(number) for number in operation.inputs]
        out = f"{reader.name(operation.outputs[0])}.whole"
        reader.finish(operation, reader.add(op, *names, out=out, whole=kind, **attrs))

    return convert


def _auto_scale(reader: Reader, operation: Operation) -> None:
    x, out = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
    bits = reader.add("SignalGain", x, out=f"{out}.bits", whole="int32")
    reader.finish(operation, reader.add("SignalLift", x, bits, out=f"{out}.lifted", whole="int16"))
    reader.finish(operation, bits, index=1)


def _fourier(op: str) -> Convert:
    def convert(reader: Reader, operation: Operation) -> None:
        kind = TYPES.get(int(operation.options["T"]))
        if kind is None:
            raise reader.refuse(operation, f"a transform of numbers of type {int(operation.options['T'])}")
        x, out = reader.value(operation.inputs[0]), f"{reader.name(operation.outputs[0])}.spectrum"
        length = int(operation.options["fft_length"])
        reader.finish(operation, reader.add(op, x, out=out, whole=kind, length=length))

    return convert


def _filter_bank(reader: Reader, operation: Operation) -> None:
    """Its 64-bit sums are rooted at once: by the operator that reads them."""
    number, tables = operation.outputs[0], [reader.file.tensors[index].data for index in operation.inputs[1:6]]
    readers = [other for other in reader.file.operations if number in other.inputs]
    is_rooted = all(other.op == "SignalFilterBankSquareRoot" and other.inputs[0] == number for other in readers)
    if not readers or not is_rooted or number in reader.file.outputs:
        raise reader.refuse(operation, "a sum of 64 bits that is not rooted by SignalFilterBankSquareRoot")
    if len(operation.inputs) != 6 or any(table is None for table in tables):
        raise reader.refuse(operation, "a table computed at run time")
    arrays = [table for table in tables if table is not None]
    bins = reader.builder.shapes[reader.value(operation.inputs[0])][-1]
    (weights, unweights), places = arrays[:2], [array.reshape(-1).astype(int) for array in arrays[2:]]
    if len({array.size for array in places}) != 1 or weights.size != unweights.size:
        raise ValueError("tables of a filter bank of several sizes")
    for first, start, width in zip(*places, strict=True):
        if min(first, start, width) < 0 or first + width > bins or start + width > weights.size:
            raise ValueError(f"a filter of {width} bins from {first} of {bins}, {start} of {weights.size}")
    names = [reader.value(index) for index in operation.inputs]
    reader.banks[number] = names, int(operation.options["num_channels"])


def _square_root(reader: Reader, operation: Operation) -> None:
    source, bits = operation.inputs
    if source not in reader.banks:
        raise reader.refuse(operation, "a root of other numbers than those of SignalFilterBank")
    names, channels = reader.banks[source]
    shift = _shaped(reader, reader.value(bits), (), f"{reader.name(operation.outputs[0])}.bits")
    out = f"{reader.name(operation.outputs[0])}.roots"
    attrs: dict[str, Any] = {"whole": "uint32", "channels": channels}
    reader.finish(operation, reader.add("SignalFilterBank", *names, shift, out=out, **attrs))


_NOISE = {
    "smoothing": "smoothing",
    "keep": "one_minus_smoothing",
    "odd_smoothing": "alternate_smoothing",
    "odd_keep": "alternate_one_minus_smoothing",
    "smoothing_bits": "smoothing_bits",
    "bits": "spectral_subtraction_bits",
    "clamped": "clamping",
    "least": "min_signal_remaining",
}


def _spectral_subtraction(reader: Reader, operation: Operation) -> None:
    x, out = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
    state = memory_name(operation, "noise")
    attrs = {ours: int(operation.options[theirs]) for ours, theirs in _NOISE.items()}
    noise = reader.add("SignalNoise", x, reader.held[state], out=f"{out}.noise", whole="uint32", **attrs)
    signal = reader.add("SignalSubtraction", x, noise, out=f"{out}.signal", whole="uint32", **attrs)
    reader.held[state] = noise
    reader.finish(operation, signal)
    if len(operation.outputs) > 1:
        reader.finish(operation, noise, index=1)


# ---- what has memory: elements are moved


def _delay(reader: Reader, operation: Operation) -> None:
    x, out = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
    state, size = memory_name(operation, "held"), reader.builder.shapes[x][-1]
    joined = _joined(reader, reader.held[state], x, f"{out}.joined")
    length = int(operation.options["delay_length"])
    reader.held[state] = _sliced(reader, joined, size, size + length, f"{out}.held")
    reader.finish(operation, _sliced(reader, joined, 0, size, f"{out}.delayed"))


def _framer(reader: Reader, operation: Operation) -> None:
    """Frames of what is held and what comes; a frame that is not whole yet begins with zeros."""
    x, out = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
    size, step = (int(operation.options[name]) for name in ("frame_size", "frame_step"))
    shape, state = reader.builder.shapes[x], memory_name(operation, "held")
    held = reader.builder.shapes[reader.held[state]][-1]
    joined = _joined(reader, reader.held[state], x, f"{out}.joined")
    frames = [_sliced(reader, joined, at, at + size, f"{out}.frame") for at in range(0, shape[-1], step)]
    rows = [_shaped(reader, frame, (*shape[:-1], 1, size), f"{out}.row") for frame in frames]
    whole = rows[0] if len(rows) == 1 else reader.add("Concat", *rows, out=f"{out}.frames", axis=len(shape) - 1)
    reader.held[state] = _sliced(reader, joined, shape[-1], shape[-1] + held, f"{out}.held")
    reader.finish(operation, _shaped(reader, whole, reader.file.tensors[operation.outputs[0]].shape, out))
    needed = 1 if operation.options["prefill"] else -(-size // step)
    _valid(reader, operation, needed - 1, shape[-1] // step)


def _valid(reader: Reader, operation: Operation, missing: int, steps: int) -> None:
    """Whether all frames are whole: result 1, if anybody reads it. `missing`: steps before the first whole one."""
    number = operation.outputs[1] if len(operation.outputs) > 1 else -1
    if number < 0 or not (number in reader.file.outputs or any(number in o.inputs for o in reader.file.operations)):
        return
    state, out = memory_name(operation, "steps"), reader.name(number)
    past = reader.held[state]
    enough = reader.number(out, "enough", np.array([missing], np.int32))
    after = reader.add(
        "WholePair",
        past,
        reader.number(out, "steps", np.array([steps])),
        out=f"{out}.after",
        whole="int32",
        function="add",
    )
    reader.held[state] = reader.add("WholePair", after, enough, out=f"{out}.past", whole="int32", function="min")
    said = reader.add("GreaterOrEqual", past, enough, out=f"{out}.enough")
    reader.finish(operation, _shaped(reader, said, reader.file.tensors[number].shape, out), index=1)


def _stacker(reader: Reader, operation: Operation) -> None:
    """The last frames behind each other, if the first one counted `left` times more."""
    x, out = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
    names = ("stacker_left_context", "stacker_right_context", "stacker_step")
    left, right, step = (int(operation.options[name]) for name in names)
    if step != 1 or right != 0 or left != 0:
        raise reader.refuse(operation, f"a stack of {left} and {right} frames around one in {step}")
    reader.finish(operation, _shaped(reader, x, reader.file.tensors[operation.outputs[0]].shape, out))


def _overlap_add(reader: Reader, operation: Operation) -> None:
    x, out = reader.value(operation.inputs[0]), reader.name(operation.outputs[0])
    if TYPES.get(int(operation.options["T"])) != "int16":
        raise reader.refuse(operation, "overlaps of other numbers than int16")
    state, step = memory_name(operation, "held"), int(operation.options["frame_step"])
    *outer, frames, size = reader.builder.shapes[x]
    held, parts = reader.held[state], []
    rows = _shaped(reader, x, (*outer, frames * size), f"{out}.flat")
    for frame in range(frames):
        row = _sliced(reader, rows, frame * size, (frame + 1) * size, f"{out}.frame")
        total = reader.add("WholePair", held, row, out=f"{out}.sum", whole="int16", function="sum16")
        parts.append(_sliced(reader, total, 0, step, f"{out}.part"))
        zeros = reader.number(out, "zeros", np.zeros((*outer, step), np.int16))
        rest = _sliced(reader, total, step, size, f"{out}.rest") if step < size else ""
        held = _joined(reader, rest, zeros, f"{out}.held") if rest else zeros
    reader.held[state] = held
    y = parts[0] if len(parts) == 1 else reader.add("Concat", *parts, out=f"{out}.joined", axis=len(outer))
    reader.finish(operation, _shaped(reader, y, reader.file.tensors[operation.outputs[0]].shape, out))


# ---- integers without a scale


def cast(reader: Reader, operation: Operation) -> None:
    """CAST: whole numbers wrap, what is no number of 0 decimals loses them; booleans are 0 and 1.

    ModelError for what is refused.
    """
    source, target = (reader.file.tensors[numbers[0]] for numbers in (operation.inputs, operation.outputs))
    out, number = f"{target.name}.cast", operation.inputs[0]
    if target.kind not in (REAL, *WHOLE_KINDS) or target.scales is not None:
        raise reader.refuse(operation, f"a cast to {target.kind or 'another type'}")
    if number in reader.wholes:
        x = reader.value(number)
        value = x if target.kind == REAL else reader.add("WholeCast", x, out=out, whole=target.kind)
    elif source.scales is not None:
        raise reader.refuse(operation, "a cast of quantized numbers")
    elif target.kind == REAL:
        value = reader.value(number)
    else:
        value = reader.add("Cast", reader.value(number), out=out, to=6)
    reader.finish(operation, value)


def _pair(function: str) -> Convert:
    def convert(reader: Reader, operation: Operation) -> None:
        kind, out = reader.file.tensors[operation.outputs[0]].kind, f"{reader.name(operation.outputs[0])}.{function}"
        x, y = (reader.value(number) for number in operation.inputs)
        reader.finish(operation, reader.add("WholePair", x, y, out=out, whole=kind, function=function))

    return convert


SIGNAL: dict[str, Convert] = {
    "SignalDelay": _delay,
    "SignalEnergy": _simple("SignalEnergy", "uint32", start="start_index", end="end_index"),
    "SignalFftAutoScale": _auto_scale,
    "SignalFilterBank": _filter_bank,
    "SignalFilterBankLog": _simple("SignalLog", "int16", factor="output_scale", lift="input_correction_bits"),
    "SignalFilterBankSpectralSubtraction": _spectral_subtraction,
    "SignalFilterBankSquareRoot": _square_root,
    "SignalFramer": _framer,
    "SignalIrfft": _fourier("WholeIrfft"),
    "SignalOverlapAdd": _overlap_add,
    "SignalPCAN": _simple("SignalPcan", "uint32", shift="snr_shift"),
    "SignalRfft": _fourier("WholeRfft"),
    "SignalStacker": _stacker,
    "SignalWindow": _simple("SignalWindow", "int16", shift="shift"),
}
# of integers without a scale
WHOLE: dict[str, Convert] = {
    "ADD": _pair("add"),
    "CAST": cast,
    "DIV": _pair("div"),
    "MAXIMUM": _pair("max"),
    "MINIMUM": _pair("min"),
    "MUL": _pair("mul"),
    "SUB": _pair("sub"),
}
