"""Cells of asymmetric integers as TensorFlow Lite Micro computes them: SVDF, LSTM, and the functions of int16 inside.

Each is defined code by code, so its float model is its integers (whole.py). A cell is one routine for each state that
it makes: SVDF its memory and its result, LSTM its cell and its output, which is its hidden state. Products are rounded
twice (`rescale`), those of int16 activations once (`rescale_wide`), as in tensorflow/lite/micro/kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from tinyhil.formats.affine import rescale, rescale_wide
from tinyhil.formats.format import float_bits
from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import Arrays
from tinyhil.ops.operator import refuse
from tinyhil.ops.whole import Params, Routine, Table

ONE_UNIT_MORE = (
    *(4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49),
    *(50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255),
)  # entries of the runtime's table that are not the nearest
WORD = 32767


def clipped(x: np.ndarray, bits: int) -> np.ndarray:
    """Saturated to a signed type."""
    return np.clip(x, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


# ---- the logistic function and tanh of int16


@lru_cache
def logistic_table() -> np.ndarray:
    """2**16 / (1 + exp(-i / 24)) for i = 0..255, as the runtime has it."""
    entries = np.array([round(65536 / (1 + math.exp(-i / 24))) for i in range(256)])
    entries[list(ONE_UNIT_MORE)] += 1
    return np.minimum(entries, 65535)


def _table(_: Params) -> Sequence[Table]:
    return [("logistic", logistic_table(), "uint16")]


def _between(table: np.ndarray, size: np.ndarray, bits: int, most: int) -> np.ndarray:
    """The table at `size`, whose lowest `bits` are a fraction; `most` beyond its end."""
    at = np.minimum(size >> bits, 254)
    line = (table[at] << bits) + (size & ((1 << bits) - 1)) * (table[at + 1] - table[at])
    return np.where(size >> bits >= 255, most, line)


def logistic(table: np.ndarray, d: np.ndarray) -> np.ndarray:
    """In units of 2**-15, of `d` in units of 1 / (24 * 2**9)."""
    r = _between(table, np.abs(d), 9, WORD << 10)
    return np.where(d >= 0, (r + 512) >> 10, ((1 << 25) - r + 511) >> 10)


def tanh(table: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The same of tanh, whose argument is half of it."""
    r = _between(table, np.abs(d), 8, 65535 << 8)
    return np.where(d >= 0, (r - (1 << 23) + 128) >> 8, (-r + (1 << 23) + 127) >> 8)


def units_of(scale: float) -> tuple[int, int]:
    """(factor, bits to the right) by which codes of `scale` become arguments of the table."""
    factor, right = 4096 * 3 * scale, 0
    while factor <= WORD / 2 and right <= 30:
        factor, right = 2 * factor, right + 1
    return int(factor), right


def moved(x: np.ndarray, factor: int, right: int) -> np.ndarray:
    """x * factor to the right, rounded."""
    return (x * factor + ((1 << right) >> 1)) >> right


def _function_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    factor, right = units_of(float(node.attrs["grids"][1]))
    is_tanh = int(node.attrs["function"] == "Tanh")
    return {"elements": element_count(shapes[0]), "factor": factor, "right": right, "is_tanh": is_tanh}


def _function(p: Params, arrays: Arrays) -> np.ndarray:
    table, d = arrays[0].reshape(-1), moved(arrays[1], p["factor"], p["right"])
    return tanh(table, d) if p["is_tanh"] else logistic(table, d)


WORD_FUNCTION = Routine(
    "WordFunction",
    "word_function",
    "logistic function or tanh of int16 by a table of 256 entries",
    lambda node, shapes: shapes[0],
    _function_params,
    ("elements", "factor", "right", "is_tanh"),
    _function,
    ("function",),
    _table,
    in_place=True,
)


def _units_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    numbers = {name: int(node.attrs[name]) for name in ("multiplier", "power", "x_zero", "zero")}
    bits = int(node.attrs["grids"][-3]) if "whole" not in node.attrs else 32
    return {"elements": element_count(shapes[0]), "bits": bits, **numbers}


def _units(p: Params, arrays: Arrays) -> np.ndarray:
    return clipped(rescale(arrays[0] - p["x_zero"], p["multiplier"], p["power"]) + p["zero"], p["bits"])


WHOLE_UNITS = Routine(
    "WholeUnits",
    "whole_units",
    "codes in units of another scale, where one of both has 32 bits",
    lambda node, shapes: shapes[0],
    _units_params,
    ("elements", "multiplier", "power", "x_zero", "zero", "bits"),
    _units,
    ("multiplier", "power", "x_zero", "zero"),
)


# ---- functions of bytes, and rows between others


def _byte_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    if shapes[1] != (256,):
        raise refuse(node, f"a table {list(shapes[1])}", "256 entries are needed")
    return {"elements": element_count(shapes[0])}


BYTE_FUNCTION = Routine(
    "ByteFunction",
    "byte_function",
    "function of int8 by a table of its codes, the lowest first",
    lambda node, shapes: shapes[0],
    _byte_params,
    ("elements",),
    lambda p, arrays: arrays[1].reshape(-1)[arrays[0] + 128],
    operands=2,
    in_place=True,
)


def _line_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    axis = int(node.attrs["axis"])
    sizes = {
        "outer": element_count(shapes[0][:axis]),
        "along": shapes[0][axis],
        "inner": element_count(shapes[0][axis + 1 :]),
    }
    return sizes | {name: int(node.attrs[name]) for name in ("exclusive", "reverse", *_SUMS)}


_SUMS = ("x_zero", "lift_multiplier", "lift_power", "multiplier", "power", "zero")


def _running(p: Params, arrays: Arrays) -> np.ndarray:
    """The accumulator begins with the scaled minus zero point, as the runtime's does."""
    x = arrays[0].reshape(len(arrays[0]), p["outer"], p["along"], p["inner"])
    terms = rescale((x - p["x_zero"]) << 20, p["lift_multiplier"], p["lift_power"])
    start = rescale(np.array([-p["x_zero"] << 20]), p["lift_multiplier"], p["lift_power"])
    terms = terms[:, :, ::-1] if p["reverse"] else terms
    sums = (np.cumsum(terms, axis=2) + start).astype(np.int32).astype(np.int64)  # as they wrap
    sums = (sums - terms).astype(np.int32).astype(np.int64) if p["exclusive"] else sums
    sums = sums[:, :, ::-1] if p["reverse"] else sums
    return clipped(rescale(sums, p["multiplier"], p["power"]) + p["zero"], 8).reshape(len(x), -1)


RUNNING_SUM = Routine(
    "ByteSums",
    "byte_sums",
    "running sums of int8 along an axis",
    lambda node, shapes: shapes[0],
    _line_params,
    ("outer", "along", "inner", "exclusive", "reverse", *_SUMS),
    _running,
    ("axis", "exclusive", "reverse", *_SUMS),
)


def _resize_shape(node: Node, shapes: Sequence[Shape]) -> Shape:
    return (*shapes[0][:2], int(node.attrs["height"]), int(node.attrs["width"]))


def _resize_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    if len(shapes[0]) != 4 or min(_resize_shape(node, shapes)) < 1:
        raise refuse(node, f"planes {list(shapes[0])}", "the file is damaged")
    ends, (_, _, height, width) = int(node.attrs["ends"]), _resize_shape(node, shapes)
    paces = (_pace(side, out, ends) for side, out in zip(shapes[0][2:], (height, width), strict=True))
    sizes = {"planes": element_count(shapes[0][:2]), "height": shapes[0][2], "width": shapes[0][3]}
    numbers = dict(zip(("y_pace", "x_pace"), paces, strict=True))
    return {**sizes, "out_height": height, "out_width": width, **numbers, "middle": int(node.attrs["middle"])}


def _pace(side: int, out: int, ends: int) -> int:
    """In units of 1 / 1024: elements of the operand from one of the result to the next."""
    if ends and out > 1:
        return (1024 * (side - 1) + (out - 1) // 2) // (out - 1)
    return (1024 * side + out // 2) // out


def _between_rows(out: int, side: int, pace: int, middle: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows before and behind each result, and how far it is from the one before."""
    at = np.arange(out) * pace + (pace // 2 - 512) * middle
    before = np.maximum(np.sign(at) * (np.abs(at) // 1024), 0)
    behind = np.minimum(np.sign(at + 1023) * (np.abs(at + 1023) // 1024), side - 1)
    return before, behind, at - 1024 * before


def _resized(p: Params, arrays: Arrays) -> np.ndarray:
    x = arrays[0].reshape(len(arrays[0]), p["planes"], p["height"], p["width"])
    above, below, y = _between_rows(p["out_height"], p["height"], p["y_pace"], p["middle"])
    left, right, column = _between_rows(p["out_width"], p["width"], p["x_pace"], p["middle"])
    y = y[:, None]
    sums = x[:, :, above][:, :, :, left] * (1024 - y) * (1024 - column) + x[:, :, below][:, :, :, left] * y * (
        1024 - column
    )
    sums = sums + x[:, :, above][:, :, :, right] * (1024 - y) * column + x[:, :, below][:, :, :, right] * y * column
    nudged = sums + np.where(sums > 0, 1 << 19, -(1 << 19))
    return (np.sign(nudged) * (np.abs(nudged) >> 20)).reshape(len(x), -1)


BYTE_RESIZE = Routine(
    "ByteResize",
    "byte_resize",
    "linear resizing of int8 in units of 1 / 1024",
    _resize_shape,
    _resize_params,
    ("planes", "height", "width", "out_height", "out_width", "y_pace", "x_pace", "middle"),
    _resized,
    ("height", "width", "ends", "middle"),
)


def _old_resize_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    found = _resize_params(node, shapes)
    sides = (("y_pace", found["height"], found["out_height"]), ("x_pace", found["width"], found["out_width"]))
    for name, side, out in sides:
        ends = int(node.attrs["ends"]) and out > 1
        pace = np.float32(side - 1) / np.float32(out - 1) if ends else np.float32(side) / np.float32(out)
        found[name] = float_bits(float(pace))
    return found


def _single_rows(out: int, side: int, pace_bits: int, middle: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_between_rows`, in single precision; elements, not 1 / 1024."""
    pace, half = np.array(pace_bits, np.uint32).view(np.float32), np.float32(0.5)
    n = np.arange(out).astype(np.float32)
    at = (n + half) * pace - half if middle else n * pace
    before = np.maximum(np.floor(at), 0).astype(np.int64)
    return before, np.minimum(np.ceil(at), side - 1).astype(np.int64), at - before.astype(np.float32)


def _resized_without_sign(p: Params, arrays: Arrays) -> np.ndarray:
    """Codes are held less 128."""
    planes = arrays[0].reshape(len(arrays[0]), p["planes"], p["height"], p["width"])
    x, one = (planes + 128).astype(np.float32), np.float32(1)
    above, below, y = _single_rows(p["out_height"], p["height"], p["y_pace"], p["middle"])
    left, right, column = _single_rows(p["out_width"], p["width"], p["x_pace"], p["middle"])
    y = y[:, None]
    sums = x[:, :, above][:, :, :, left] * (one - y) * (one - column)
    sums = sums + x[:, :, below][:, :, :, left] * y * (one - column)
    sums = sums + x[:, :, above][:, :, :, right] * (one - y) * column
    sums = sums + x[:, :, below][:, :, :, right] * y * column
    return (sums + np.float32(0.5)).astype(np.int64).reshape(len(x), -1) - 128


OLD_RESIZE = Routine(
    "ByteResizeOld",
    "byte_resize_old",
    "linear resizing of uint8 in single precision",
    _resize_shape,
    _old_resize_params,
    BYTE_RESIZE.names,
    _resized_without_sign,
    BYTE_RESIZE.attributes,
)


# ---- SVDF


def _in_32_bits(sums: np.ndarray) -> np.ndarray:
    """Sums wrap, as the runtime's do."""
    return sums.astype(np.int32).astype(np.int64)


def _memory_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    filters, inputs = shapes[2]
    memory = element_count(shapes[1]) // filters
    if element_count(shapes[0]) != inputs or filters * memory != element_count(shapes[1]) or memory < 1:
        raise refuse(node, f"{[list(shape) for shape in shapes]}", "the file is damaged")
    grids = node.attrs["grids"]
    zeros = {"x_zero": int(grids[2]), "zero": int(grids[5]), "bits": int(grids[3])}
    factors = {name: int(node.attrs[name]) for name in ("multiplier", "power")}
    return {"filters": filters, "memory": memory, "inputs": inputs, **factors, **zeros}


def _memory(p: Params, arrays: Arrays) -> np.ndarray:
    x, state, weights = arrays
    sums = _in_32_bits((x - p["x_zero"]) @ weights.reshape(p["filters"], p["inputs"]).T)
    state = np.broadcast_to(state, (len(sums), state.shape[1]))
    after = np.roll(state, -1, axis=1).reshape(len(sums), p["filters"], p["memory"]).copy()
    after[:, :, -1] = clipped(rescale(sums, p["multiplier"], p["power"]), p["bits"]) + p["zero"]
    return after.reshape(len(sums), -1)


SVDF_MEMORY = Routine(
    "SvdfMemory",
    "svdf_memory",
    "memory of filters, moved on by one, with the newest products at its end",
    lambda node, shapes: shapes[1],
    _memory_params,
    ("filters", "memory", "inputs", "multiplier", "power", "x_zero", "zero", "bits"),
    _memory,
    ("multiplier", "power"),
    operands=3,
)


def _svdf_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    filters, memory = shapes[1]
    units, grids = element_count(shapes[2]), node.attrs["grids"]
    if units < 1 or filters % units or element_count(shapes[0]) != filters * memory:
        raise refuse(node, f"{[list(shape) for shape in shapes]}", "the file is damaged")
    numbers = {"units": units, "rank": filters // units, "memory": memory}
    factors = {name: int(node.attrs[name]) for name in ("multiplier", "power")}
    return {**numbers, **factors, "state_zero": int(grids[2]), "zero": int(grids[-1]), "bits": int(grids[-3])}


def _svdf(p: Params, arrays: Arrays) -> np.ndarray:
    state, weights, bias = arrays
    products = (state - p["state_zero"]) * weights
    sums = products.reshape(len(products), p["units"], -1).sum(axis=2) + bias
    return clipped(rescale(_in_32_bits(sums), p["multiplier"], p["power"]) + p["zero"], p["bits"])


SVDF = Routine(
    "Svdf",
    "svdf",
    "sums of a memory and weights over time, a rank of filters for each unit",
    lambda node, shapes: (1, element_count(shapes[2])),
    _svdf_params,
    ("units", "rank", "memory", "multiplier", "power", "state_zero", "zero", "bits"),
    _svdf,
    ("multiplier", "power"),
    operands=3,
)


# ---- LSTM

GATE = ("x_multiplier", "x_power", "h_multiplier", "h_power")


def _gates(node: Node, shapes: Sequence[Shape], gates: Sequence[str]) -> dict[str, int]:
    units, inputs = shapes[3]
    if any(shape != (units, inputs) for shape in shapes[3::3]) or any(
        shape != (units, units) for shape in shapes[4::3]
    ):
        raise refuse(node, f"weights {[list(shape) for shape in shapes[3:]]}", "the file is damaged")
    if [element_count(shape) for shape in shapes[:3]] != [inputs, units, units]:
        raise refuse(node, f"{[list(shape) for shape in shapes[:3]]} for {units} units", "the file is damaged")
    grids = node.attrs["grids"]
    found = {
        "inputs": inputs,
        "units": units,
        "x_zero": int(grids[2]),
        "h_zero": int(grids[5]),
        "wide": int(grids[0] > 8),
    }
    return found | {f"{gate}_{name}": int(node.attrs[f"{gate}_{name}"]) for gate in gates for name in GATE}


def _gate(p: Params, gate: str, x: np.ndarray, h: np.ndarray, layer: Arrays) -> np.ndarray:
    weights, recurrent, bias = layer
    scale: Callable[..., np.ndarray] = rescale_wide if p["wide"] else rescale
    of_x = (x - p["x_zero"]) @ weights.reshape(p["units"], -1).T + bias
    of_h = (h - p["h_zero"]) @ recurrent.reshape(p["units"], -1).T
    first = clipped(scale(of_x, p[f"{gate}_x_multiplier"], p[f"{gate}_x_power"]), 16)
    return clipped(first + clipped(scale(of_h, p[f"{gate}_h_multiplier"], p[f"{gate}_h_power"]), 16), 16)


CELL_GATES = ("input", "forget", "cell")
_CELL = ("forget_multiplier", "forget_power", "new_multiplier", "new_power", "clip", "is_tanh")


def _cell_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    return _gates(node, shapes, CELL_GATES) | {name: int(node.attrs[name]) for name in _CELL}


def _cell(p: Params, arrays: Arrays) -> np.ndarray:
    table, (x, h, c) = arrays[0].reshape(-1), arrays[1:4]
    sums = [3 * _gate(p, gate, x, h, arrays[at : at + 3]) for gate, at in zip(CELL_GATES, (4, 7, 10), strict=True)]
    opened, forget = logistic(table, sums[0]), logistic(table, sums[1])
    new = (tanh if p["is_tanh"] else logistic)(table, sums[2])
    after = clipped(rescale(forget * c, p["forget_multiplier"], p["forget_power"]), 16)
    after = clipped(after + clipped(rescale(opened * new, p["new_multiplier"], p["new_power"]), 16), 16)
    return np.clip(after, -p["clip"], p["clip"]) if p["clip"] else after


_GATE_NAMES = tuple(f"{gate}_{name}" for gate in CELL_GATES for name in GATE)
LSTM_CELL = Routine(
    "LstmCell",
    "lstm_cell",
    "cell of an LSTM: what is kept of it, and what is new",
    lambda node, shapes: shapes[2],
    _cell_params,
    ("inputs", "units", "x_zero", "h_zero", "wide", *_GATE_NAMES, *_CELL),
    _cell,
    (*_GATE_NAMES, *_CELL),
    _table,
    operands=12,
)
_OUTPUT = ("multiplier", "power", "left", "right")


def _output_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    grids = node.attrs["grids"]
    ends = {"zero": int(grids[-1]), "bits": int(grids[-3])}
    return _gates(node, shapes, ("output",)) | {name: int(node.attrs[name]) for name in _OUTPUT} | ends


def _output(p: Params, arrays: Arrays) -> np.ndarray:
    table, (x, h, c) = arrays[0].reshape(-1), arrays[1:4]
    opened = logistic(table, 3 * _gate(p, "output", x, h, arrays[4:7]))
    shown = tanh(table, moved(3 * (c << p["left"]), 1, p["right"]))
    return clipped(rescale(opened * shown, p["multiplier"], p["power"]) + p["zero"], p["bits"])


_OUTPUT_NAMES = tuple(f"output_{name}" for name in GATE)
LSTM_OUTPUT = Routine(
    "LstmOutput",
    "lstm_output",
    "output of an LSTM: what of its cell is shown",
    lambda node, shapes: shapes[1],
    _output_params,
    ("inputs", "units", "x_zero", "h_zero", "wide", *_OUTPUT_NAMES, *_OUTPUT, "zero", "bits"),
    _output,
    (*_OUTPUT_NAMES, *_OUTPUT),
    _table,
    operands=6,
)
ROUTINES = (
    WORD_FUNCTION,
    WHOLE_UNITS,
    BYTE_FUNCTION,
    RUNNING_SUM,
    BYTE_RESIZE,
    OLD_RESIZE,
    SVDF_MEMORY,
    SVDF,
    LSTM_CELL,
    LSTM_OUTPUT,
)
KERNELS = tuple(routine.kernel for routine in ROUTINES)
OPERATORS = tuple(routine.operator for routine in ROUTINES)
