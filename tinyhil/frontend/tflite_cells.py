"""Cells with memory of a .tflite file: SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM, in floats, and code by code in integers
(tinyhil/ops/cells.py); and what else is defined code by code: functions of int16."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.formats.affine import multiplier, rescale
from tinyhil.frontend.listing import Call
from tinyhil.frontend.tflite_file import ACTIVATIONS
from tinyhil.frontend.tflite_moves import form_of, shaped
from tinyhil.frontend.tflite_reader import PLANES, Convert, Reader
from tinyhil.frontend.tflite_records import File, Operation, Tensor
from tinyhil.ops.affine_softmax import logistic_of, tanh_of
from tinyhil.ops.whole import GRIDS, KIND

BITS = {"int8": 8, "int16": 16}
GATE_SCALE = 2.0**-12  # of the sums of an LSTM's gates
WHOLE_GRID = (0, 0.0, 0)


def grid_of(tensor: Tensor) -> tuple[int, float, int]:
    """Bits, scale and zero point; ModelError for what is no int8 or int16 of one scale."""
    if tensor.kind not in BITS or tensor.scales is None or tensor.zeros is None or tensor.scales.size != 1:
        raise ModelError(f"tensor '{tensor.name}' is {tensor.kind} without one scale; convert again")
    return BITS[tensor.kind], float(tensor.scales.reshape(-1)[0]), int(tensor.zeros.reshape(-1)[0])


def stored_grid(tensor: Tensor) -> tuple[int, float, int]:
    """The same as its codes are held: of uint8 they are less 128."""
    if tensor.kind != "uint8" or tensor.zeros is None:
        return grid_of(tensor)
    return grid_of(replace(tensor, kind="int8", zeros=tensor.zeros.astype(np.int64) - 128))


def _scale(tensor: Tensor) -> np.float32:
    return np.float32(grid_of(tensor)[1])


def circular_buffer(reader: Reader, operation: Operation) -> None:
    """CIRCULAR_BUFFER: the newest rows of its input, the last of them now. ModelError for what is refused, ValueError
    in a damaged file."""
    (number,), (result,) = operation.inputs, operation.outputs[:1]
    held, row = reader.file.tensors[result], reader.file.tensors[number]
    if len(operation.outputs) > 1 or operation.options["cycles_max"] != 1:
        raise reader.refuse(operation, "a run that ends at this operator, what it gives then is left to chance,")
    _is_variable(reader, operation, result)
    if len(held.shape) != 4 or row.shape != (held.shape[0], 1, *held.shape[2:]) or grid_of(row) != grid_of(held):
        raise ValueError(f"rows {list(row.shape)} for a buffer {list(held.shape)}")
    past, rows, out = _state(reader, result), held.shape[1], f"{held.name}.now"
    ends = [reader.number(out, part, np.array([at])) for part, at in (("from", 1), ("to", rows), ("along", 1))]
    older = [reader.add("Slice", past, *ends, out=f"{out}.kept")] if rows > 1 else []
    after = reader.add("Concat", *older, reader.value(number), out=out, axis=1)
    _keep(reader, result, after)
    reader.finish(operation, after)


def flat(*grids: tuple[int, float, int]) -> list[float]:
    """As an attribute holds them."""
    return [number for grid in grids for number in grid]


def factors(prefix: str, factor: float) -> dict[str, int]:
    """A real factor as a multiplier and a power of two, as attributes."""
    found, power = multiplier(factor)
    return {f"{prefix}multiplier": found, f"{prefix}power": power}


def _codes(reader: Reader, number: int) -> str:
    """The integers of a constant."""
    tensor = reader.file.tensors[number]
    if tensor.data is None:
        raise ModelError(f"tensor '{tensor.name}' is computed at run time; constant weights are supported")
    return reader.number(tensor.name, "codes", tensor.data)


def _state(reader: Reader, number: int) -> str:
    """The real values of a state before this step."""
    reader.take(number, reader.held[reader.name(number)])
    return reader.value(number)


def _keep(reader: Reader, number: int, value: str) -> None:
    is_codes = reader.file.tensors[number].kind in BITS
    reader.held[reader.name(number)] = reader.to_codes(number, value) if is_codes else value


def _is_variable(reader: Reader, operation: Operation, number: int) -> None:
    if number < 0 or not reader.file.tensors[number].is_variable:
        raise reader.refuse(operation, "a state that is no variable tensor")


# ---- SVDF


def svdf(reader: Reader, operation: Operation) -> None:
    """SVDF: filters over the newest values, sums over the past ones. ModelError for what is refused."""
    x, weights, times, bias, state = (*operation.inputs,)[:5]
    _is_variable(reader, operation, state)
    tensors = [reader.file.tensors[number] for number in (x, weights, times, state, operation.outputs[0])]
    if tensors[0].shape[0] != 1 or len(tensors[0].shape) != 2:
        raise reader.refuse(operation, f"an input {list(tensors[0].shape)}")
    if tensors[0].kind == "float32":
        _float_svdf(reader, operation)
        return
    scales = [_scale(tensor) for tensor in tensors]
    source, held, result = (grid_of(tensors[at]) for at in (0, 3, 4))
    out, units = reader.name(operation.outputs[0]), tensors[4].shape[-1]
    newest = {
        **factors("", float(np.float32(scales[0] * scales[1]) / scales[3])),
        GRIDS: flat(source, held, WHOLE_GRID, held),
    }
    last = {**factors("", float(np.float32(scales[3] * scales[2]) / scales[4]))}
    last[GRIDS] = flat(held, WHOLE_GRID, WHOLE_GRID, result)  # type: ignore[assignment]
    memory = reader.add(
        "SvdfMemory", reader.value(x), _state(reader, state), _codes(reader, weights), out=f"{out}.memory", **newest
    )
    _keep(reader, state, memory)
    added = _codes(reader, bias) if bias >= 0 else reader.number(out, "bias", np.zeros(units, np.int32))
    reader.finish(
        _plain(operation), reader.add("Svdf", memory, _codes(reader, times), added, out=f"{out}.svdf", **last)
    )


def _plain(operation: Operation) -> Operation:
    """Without its activation, which the integer kernel ignores."""
    return Operation(operation.op, operation.number, operation.inputs, operation.outputs)


def _float_svdf(reader: Reader, operation: Operation) -> None:
    x, weights, times, bias, state = (*operation.inputs,)[:5]
    out = reader.name(operation.outputs[0])
    filters, memory = reader.file.tensors[times].shape
    units = reader.file.tensors[operation.outputs[0]].shape[-1]
    past = shaped(reader, _state(reader, state), (filters, memory), f"{out}.past")
    newest = reader.add("Gemm", reader.value(x), reader.value(weights), out=f"{out}.newest", transB=1)
    column = shaped(reader, newest, (filters, 1), f"{out}.column")
    ends = [reader.number(out, part, np.array([at])) for part, at in (("from", 1), ("to", memory), ("along", 1))]
    if memory > 1:
        column = reader.add(
            "Concat", reader.add("Slice", past, *ends, out=f"{out}.rest"), column, out=f"{out}.now", axis=1
        )
    _keep(reader, state, shaped(reader, column, reader.file.tensors[state].shape, f"{out}.held"))
    products = reader.add("Mul", column, reader.value(times), out=f"{out}.products")
    rows = shaped(reader, products, (1, units, filters // units * memory), f"{out}.units")
    sums = reader.add("ReduceSum", rows, reader.number(out, "axis", np.array([2])), out=f"{out}.sums", keepdims=0)
    if bias >= 0:
        sums = reader.add("Add", sums, reader.value(bias), out=f"{out}.sum")
    reader.finish(operation, sums)


# ---- LSTM

NAMES = ("input", "forget", "cell", "output")
ABSENT = (*range(9, 12), 16, 17, *range(20, 24))


def lstm(reader: Reader, operation: Operation) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: a loop over the steps of its input; its states go on from sample to sample.

    ModelError for what is refused.
    """
    numbers = (*operation.inputs, *[-1] * (24 - len(operation.inputs)))
    if any(numbers[at] >= 0 for at in ABSENT):
        raise reader.refuse(operation, "peepholes, a projection or a normalization")
    x, result = reader.file.tensors[numbers[0]], reader.file.tensors[operation.outputs[0]]
    along = 0 if operation.options["TimeMajor"] else 1
    if len(x.shape) != 3 or x.shape[1 - along] != 1:
        raise reader.refuse(operation, f"an input {list(x.shape)}")
    for number in numbers[18:20]:
        _is_variable(reader, operation, number)
    out, steps, units = result.name, x.shape[along], result.shape[-1]
    rows = shaped(reader, reader.value(numbers[0]), (steps, x.shape[2]), f"{out}.steps")
    hidden, cell = (shaped(reader, _state(reader, number), (1, units), f"{out}.state") for number in numbers[18:20])
    make = _float_step if x.kind == "float32" else _step

    def body(names: tuple[str, ...]) -> tuple[str, ...]:
        h, c, row = names
        wide = shaped(reader, row, (1, x.shape[2]), f"{out}.row")
        after_h, after_c = make(reader, operation, numbers, (wide, h, c))
        return after_h, after_c, after_h

    call = Call(
        "Scan", f"{out}.loop", (hidden, cell, rows), (f"{out}.h", f"{out}.c", f"{out}.all"), {"num_scan_inputs": 1}
    )
    h, c, every = reader.builder.loop(call, (f"{out}.h.now", f"{out}.c.now", f"{out}.x.now"), body)
    for number, value in zip(numbers[18:20], (h, c), strict=True):
        _keep(reader, number, shaped(reader, value, reader.file.tensors[number].shape, f"{out}.kept"))
    reader.finish(_plain(operation), shaped(reader, every, result.shape, f"{out}.shaped"))


def _gate(reader: Reader, numbers: Sequence[int], gate: int) -> tuple[dict[str, int], list[str]]:
    """Factors of a gate's two sums, and its weights, recurrent weights and bias."""
    x, h = reader.file.tensors[numbers[0]], reader.file.tensors[numbers[18]]
    pairs = ((x, numbers[1 + gate], "x"), (h, numbers[5 + gate], "h"))
    found: dict[str, int] = {}
    for source, number, letter in pairs:
        product = float(np.float32(_scale(source) * _scale(reader.file.tensors[number])))
        found |= factors(f"{NAMES[gate]}_{letter}_", product / GATE_SCALE)
    return found, [_codes(reader, number) for number in (numbers[1 + gate], numbers[5 + gate], numbers[12 + gate])]


def _step(reader: Reader, operation: Operation, numbers: Sequence[int], given: tuple[str, str, str]) -> tuple[str, str]:
    """Hidden and cell state after one step, code by code."""
    row, h, c = given
    out, tensors = reader.name(operation.outputs[0]), reader.file.tensors
    grids = [grid_of(tensors[number]) for number in (numbers[0], numbers[18], numbers[19])]
    cell_scale, hidden_scale = grids[2][1], grids[1][1]
    power = math.log2(cell_scale)
    if power != round(power) or grids[2][0] != 16:
        raise reader.refuse(operation, f"a cell of {tensors[numbers[19]].kind} in units of {cell_scale:g}")
    gates = [_gate(reader, numbers, gate) for gate in range(4)]
    clip = float(operation.options["CellClip"])
    own: dict[str, Any] = {
        "is_tanh": _is_tanh(reader, operation),
        "clip": min(int(clip / cell_scale), 32767) if clip > 0 else 0,
    }
    own |= {**factors("forget_", 2.0**-15), **factors("new_", 2.0**-30 / cell_scale)}
    own |= gates[0][0] | gates[1][0] | gates[2][0]
    weights = [name for gate in gates[:3] for name in gate[1]]
    after = reader.add(
        "LstmCell", row, h, c, *weights, out=f"{out}.cell", **own, **{GRIDS: flat(*grids, *[WHOLE_GRID] * 9, grids[2])}
    )
    lift = 12 + round(power)
    shown: dict[str, Any] = {
        **factors("", 2.0**-30 / hidden_scale),
        "left": max(lift, 0),
        "right": max(-lift, 0),
        **gates[3][0],
    }
    shown[GRIDS] = flat(*grids, *[WHOLE_GRID] * 3, grids[1])
    return reader.add("LstmOutput", row, h, after, *gates[3][1], out=f"{out}.hidden", **shown), after


def _is_tanh(reader: Reader, operation: Operation) -> int:
    kind = ACTIVATIONS.get(int(operation.options["FusedActivationFunction"]), "")
    if kind not in ("TANH", "SIGN_BIT"):
        raise reader.refuse(operation, f"the activation {kind or 'unknown'}")
    return int(kind == "TANH")


def _float_step(
    reader: Reader, operation: Operation, numbers: Sequence[int], given: tuple[str, str, str]
) -> tuple[str, str]:
    row, h, c = given
    out = reader.name(operation.outputs[0])
    _is_tanh(reader, operation)
    gates = []
    for gate, name in enumerate(NAMES):
        of_x = [reader.value(numbers[at + gate]) for at in (1, 12)]
        sums = reader.add("Gemm", row, *of_x, out=f"{out}.{name}.x", transB=1)
        more = reader.add("Gemm", h, reader.value(numbers[5 + gate]), out=f"{out}.{name}.h", transB=1)
        total = reader.add("Add", sums, more, out=f"{out}.{name}.sum")
        gates.append(reader.add("Tanh" if name == "cell" else "Sigmoid", total, out=f"{out}.{name}"))
    opened, forget, new, output = gates
    old = reader.add("Mul", forget, c, out=f"{out}.kept")
    after = reader.add("Add", old, reader.add("Mul", opened, new, out=f"{out}.new"), out=f"{out}.cell.sum")
    clip = float(operation.options["CellClip"])
    after = reader.clamped(after, -clip, clip, f"{out}.clip") if clip > 0 else after
    return reader.add("Mul", output, reader.add("Tanh", after, out=f"{out}.tanh"), out=f"{out}.hidden"), after


# ---- whole numbers of 32 bits, functions of int16


def quantize(otherwise: Convert) -> Convert:
    """QUANTIZE: of codes into int32, and of int32 into codes, code by code."""

    def convert(reader: Reader, operation: Operation) -> None:
        tensors = [reader.file.tensors[numbers[0]] for numbers in (operation.inputs, operation.outputs)]
        is_scaled = all(tensor.scales is not None for tensor in tensors)
        if not is_scaled or "int32" not in {tensor.kind for tensor in tensors}:
            otherwise(reader, operation)
            return
        scales = [float(tensor.scales.reshape(-1)[0]) for tensor in tensors if tensor.scales is not None]
        zeros = [int(tensor.zeros.reshape(-1)[0]) for tensor in tensors if tensor.zeros is not None]
        attrs: dict[str, Any] = {**factors("", scales[0] / scales[1]), "x_zero": zeros[0], "zero": zeros[1]}
        attrs[GRIDS] = flat(*(WHOLE_GRID if tensor.kind == "int32" else grid_of(tensor) for tensor in tensors))
        attrs |= {KIND: "int32"} if tensors[1].kind == "int32" else {}
        value = reader.add("WholeUnits", reader.value(operation.inputs[0]), out=f"{tensors[1].name}.units", **attrs)
        reader.finish(operation, value)

    return convert


def _is_bytes(reader: Reader, operation: Operation) -> bool:
    tensors = [reader.file.tensors[number] for number in (operation.inputs[0], operation.outputs[0])]
    return all(tensor.kind == "int8" and tensor.scales is not None for tensor in tensors)


def micro_curve(file: File, operation: Operation) -> np.ndarray | None:
    """TFLM's codes (256,) of LOGISTIC or TANH of int8, if they are others than those to nearest."""
    x, y = (file.tensors[number] for number in (operation.inputs[0], operation.outputs[0]))
    if any(tensor.kind != "int8" or tensor.scales is None for tensor in (x, y)):
        return None
    codes, nearest = curve_tables(*CURVES[operation.op], stored_grid(x), stored_grid(y)[2])
    return None if np.array_equal(codes, nearest) else codes


Curve = Callable[[np.ndarray], np.ndarray]


def curve_of_bytes(otherwise: Convert) -> Convert:
    """LOGISTIC and TANH of int8: the real function to nearest, as LiteRT has it; where TFLM's fixed point is asked for,
    its table, if that is another (256 / (1 + exp(1 / 128)), 127.5000025, is 127)."""

    def convert(reader: Reader, operation: Operation) -> None:
        codes = micro_curve(reader.file, operation) if reader.file.rounds_twice else None
        if codes is None:
            otherwise(reader, operation)
            return
        tensors = [reader.file.tensors[numbers[0]] for numbers in (operation.inputs, operation.outputs)]
        grids = [stored_grid(tensor) for tensor in tensors]
        form, out = form_of(reader, operation), reader.name(operation.outputs[0])
        table = reader.number(out, "table", codes.astype(np.int8))
        attrs: dict[str, Any] = {GRIDS: flat(grids[0], WHOLE_GRID, grids[1])}
        x = reader.value(operation.inputs[0], form)
        reader.finish(operation, reader.add("ByteFunction", x, table, out=f"{out}.looked_up", **attrs), form)

    return convert


def curve_tables(
    fixed: Curve, real: Curve, bits: int, x: tuple[int, float, int], zero: int
) -> tuple[np.ndarray, np.ndarray]:
    """Result codes (256,) of all codes from the lowest, of TFLM and to nearest. TFLM's x has 27 fraction bits."""
    factor, power = multiplier(x[1] * 2.0**27)
    centred = np.arange(-128, 128) - x[2]
    radius = math.floor(math.ldexp(15, 27 - power))
    inside = np.where(np.abs(centred) < radius, rescale(centred, factor, power), 0)
    codes = _halved(fixed(inside), 31 - bits) + zero
    codes = np.where(centred >= radius, 127, np.where(centred <= -radius, -128, codes))
    nearest = np.rint(real(centred * x[1]) * 2.0**bits) + zero
    return np.clip(codes, -128, 127), np.clip(nearest, -128, 127)


def real_logistic(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), of any x."""
    return np.asarray(0.5 + 0.5 * np.tanh(x / 2))


# The runtime's function, the real one, and the bits of a result's unit
CURVES: dict[str, tuple[Curve, Curve, int]] = {
    "LOGISTIC": (logistic_of, real_logistic, 8),
    "TANH": (tanh_of, np.tanh, 7),
}


def hard_swish(otherwise: Convert) -> Convert:
    """HARD_SWISH: of int8 by the table of what the runtime makes of every code."""

    def convert(reader: Reader, operation: Operation) -> None:
        tensors = [reader.file.tensors[numbers[0]] for numbers in (operation.inputs, operation.outputs)]
        same = {tensor.kind for tensor in tensors}
        if same not in ({"int8"}, {"uint8"}) or any(tensor.scales is None for tensor in tensors):
            otherwise(reader, operation)
            return
        grids = [stored_grid(tensor) for tensor in tensors]
        form, out = form_of(reader, operation), reader.name(operation.outputs[0])
        table = reader.number(out, "table", np.array(hard_swish_table(*grids), np.int8))
        attrs: dict[str, Any] = {GRIDS: flat(grids[0], WHOLE_GRID, grids[1])}
        x = reader.value(operation.inputs[0], form)
        reader.finish(operation, reader.add("ByteFunction", x, table, out=f"{out}.looked_up", **attrs), form)

    return convert


def hard_swish_table(x: tuple[int, float, int], y: tuple[int, float, int]) -> list[int]:
    """Result codes of all codes from the lowest, in the runtime's 16-bit arithmetic: x times a share of 2**15."""
    fine = np.float32(np.float32(1 / 128) * np.float32(x[1]))
    (of_result, result_power), (of_share, share_power) = (
        (min((m + (1 << 15)) >> 16, 32767), power)
        for m, power in (multiplier(float(np.float32(fine / np.float32(s)))) for s in (y[1], np.float32(3 / 32768)))
    )
    lifted = (np.arange(-128, 128) - x[2]) * 128
    at_result = _high(lifted, of_result)
    share = np.clip(lifted << max(share_power - 1, 0), -32768, 32767)
    share = _high(share, of_share)
    share = np.clip(share << 1, -32768, 32767) if share_power > 0 else _halved(share, -share_power)
    share = (share + (1 << 15)) >> 1
    product = np.clip((share * at_result) >> 15, -32768, 32767)
    negative = (share * at_result < 0) & ((share * at_result) % (1 << 15) != 0)
    product = np.where(negative, product + 1, product)  # towards zero, as C divides
    codes = _halved(product, -result_power) + y[2]
    return [int(code) for code in np.clip(codes, -128, 127)]


def _high(a: np.ndarray, b: int) -> np.ndarray:
    """The upper half of twice the product of 16 bits, rounded; towards zero beyond the half, as C divides."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.clip(np.sign(nudged) * (np.abs(nudged) >> 15), -32768, 32767)


def _halved(x: np.ndarray, right: int) -> np.ndarray:
    """Divided by a power of two to nearest, ties away from zero."""
    if right <= 0:
        return x << -right
    return np.sign(x) * ((np.abs(x) + (1 << (right - 1))) >> right)


def cumulative_sum(otherwise: Convert) -> Convert:
    """CUMSUM: of int8 as the runtime sums."""

    def convert(reader: Reader, operation: Operation) -> None:
        if not _is_bytes(reader, operation):
            otherwise(reader, operation)
            return
        source = reader.file.tensors[operation.inputs[0]]
        grids = [grid_of(source), grid_of(reader.file.tensors[operation.outputs[0]])]
        axis = range(len(source.shape))[reader.whole_numbers(operation.inputs[1])[0]]
        attrs: dict[str, Any] = {name.lower(): int(operation.options[name]) for name in ("Exclusive", "Reverse")}
        attrs |= {**factors("lift_", 0.5), **factors("", 2 * grids[0][1] / ((1 << 20) * grids[1][1]))}
        attrs |= {"axis": axis, "x_zero": grids[0][2], "zero": grids[1][2], GRIDS: flat(*grids)}
        out = f"{reader.name(operation.outputs[0])}.sums"
        reader.finish(operation, reader.add("ByteSums", reader.value(operation.inputs[0]), out=out, **attrs))

    return convert


def add_all(otherwise: Convert) -> Convert:
    """ADD_N: of int8 the last of running sums, as the runtime sums."""

    def convert(reader: Reader, operation: Operation) -> None:
        if not _is_bytes(reader, operation):
            otherwise(reader, operation)
            return
        source, out = reader.file.tensors[operation.inputs[0]], reader.name(operation.outputs[0])
        grids = [grid_of(source), grid_of(reader.file.tensors[operation.outputs[0]])]
        wide = (1, *source.shape)
        rows = [shaped(reader, reader.value(number), wide, f"{out}.row") for number in operation.inputs]
        joined = reader.add("Concat", *rows, out=f"{out}.rows", axis=0)
        attrs: dict[str, Any] = {**factors("lift_", 0.5), **factors("", 2 * grids[0][1] / ((1 << 20) * grids[1][1]))}
        attrs |= {"exclusive": 0, "reverse": 0, "axis": 0, "x_zero": grids[0][2], "zero": grids[1][2]}
        sums = reader.add("ByteSums", joined, out=f"{out}.sums", **attrs, **{GRIDS: flat(*grids)})
        count = len(rows)
        ends = [reader.number(out, part, np.array([at])) for part, at in (("at", count - 1), ("to", count), ("of", 0))]
        last = reader.add("Slice", sums, *ends, out=f"{out}.last")
        reader.finish(operation, shaped(reader, last, source.shape, f"{out}.shaped"))

    return convert


def resize_bilinear(otherwise: Convert) -> Convert:
    """RESIZE_BILINEAR of one scale: of int8 in the runtime's units of 1 / 1024, of uint8 in LiteRT's floats."""

    def convert(reader: Reader, operation: Operation) -> None:
        tensors = [reader.file.tensors[numbers[0]] for numbers in (operation.inputs, operation.outputs)]
        kind = tensors[0].kind
        is_known = kind in ("int8", "uint8") and kind == tensors[1].kind and all(t.scales is not None for t in tensors)
        if not is_known or stored_grid(tensors[0]) != stored_grid(tensors[1]):
            otherwise(reader, operation)
            return
        _, height, width, _ = tensors[1].shape
        attrs: dict[str, Any] = {"height": height, "width": width, GRIDS: flat(*map(stored_grid, tensors))}
        attrs |= {"ends": int(operation.options["AlignCorners"]), "middle": int(operation.options["HalfPixelCenters"])}
        x, op = reader.value(operation.inputs[0], PLANES), "ByteResize" if kind == "int8" else "ByteResizeOld"
        reader.finish(operation, reader.add(op, x, out=f"{tensors[1].name}.resized", **attrs), PLANES)

    return convert


def word_function(function: str, otherwise: Convert) -> Convert:
    """LOGISTIC and TANH: of int16 by the runtime's table."""

    def convert(reader: Reader, operation: Operation) -> None:
        tensors = [reader.file.tensors[numbers[0]] for numbers in (operation.inputs, operation.outputs)]
        if any(tensor.kind != "int16" or tensor.scales is None for tensor in tensors):
            otherwise(reader, operation)
            return
        grids, form = [grid_of(tensor) for tensor in tensors], form_of(reader, operation)
        attrs: dict[str, Any] = {GRIDS: flat(*grids), "function": function}
        value = reader.add(
            "WordFunction", reader.value(operation.inputs[0], form), out=f"{tensors[1].name}.table", **attrs
        )
        reader.finish(operation, value, form)

    return convert
