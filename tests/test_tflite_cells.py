"""Cells with memory of .tflite files, and what else is defined code by code, against TensorFlow Lite Micro itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from tflite_files import BOOL, FLOAT, INT8, INT16, INT32, INT64, OPERATOR, UINT8, Grid, Writer

from benchmarks.tflite_files import EVERYWHERE, Verdict, verdict
from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.frontend.ports import Stream
from tinyhil.frontend.tflite import tflite_model
from tinyhil.frontend.tflite_cells import CURVES, curve_tables
from tinyhil.frontend.tflite_file import read_file
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

KINDS = {"float": (FLOAT, np.float32), "int8": (INT8, np.int8), "int16": (INT16, np.int16)}


def _weights(w: Writer, name: str, shape: list[int], kind: str, scale: float, seed: int) -> int:
    codes = np.random.default_rng(seed).integers(-127, 128, shape)
    if kind == "float":
        return w.tensor(name, shape, FLOAT, (codes * scale).astype(np.float32))
    return w.tensor(name, shape, KINDS[kind][0], codes.astype(KINDS[kind][1]), ([scale], [0], 0))


def svdf(kind: str, held: str, rank: int = 2) -> bytes:
    """(1, 5) to 3 units over 4 steps; `held`: of the state and the weights over time."""
    w, units, memory = Writer(), 3, 4
    filters = units * rank
    grids: list[Grid | None] = [None] * 3
    if kind != "float":
        grids = [([0.05], [7], 0), ([0.03], [0 if held == "int16" else -3], 0), ([0.2], [4], 0)]
    x, y = (
        w.tensor("x", [1, 5], KINDS[kind][0], None, grids[0]),
        w.tensor("y", [1, units], KINDS[kind][0], None, grids[2]),
    )
    state = w.tensor("state", [1, filters * memory], KINDS[held][0], None, grids[1], is_variable=True)
    of_x, over_time = (
        _weights(w, "wf", [filters, 5], kind, 0.01, 1),
        _weights(w, "wt", [filters, memory], held, 0.02, 2),
    )
    numbers = np.random.default_rng(3).integers(-900, 900, units)
    if kind == "float":
        bias = w.tensor("bias", [units], FLOAT, (numbers * 1e-3).astype(np.float32))
    else:
        bias = w.tensor("bias", [units], INT32, numbers.astype(np.int32), ([0.03 * 0.02], [0], 0))
    w.operator(OPERATOR.SVDF, [x, of_x, over_time, bias, state], y, "SVDFOptions", Rank=rank, FusedActivationFunction=0)
    return w.file(x, y)


def lstm(kind: str, clip: float = 0.0, time_major: bool = False, cell_scale: float = 2.0**-11) -> bytes:
    """5 steps of 3 numbers to 4 units."""
    w, steps, inputs, units = Writer(), 5, 3, 4
    zero = 0 if kind == "int16" else 9
    x_grid, h_grid, c_grid = (
        (None, None, None)
        if kind == "float"
        else (([0.02], [zero], 0), ([1 / 128 if kind == "int8" else 1 / 32768], [0], 0), ([cell_scale], [0], 0))
    )
    shapes = [[steps, 1, inputs], [steps, 1, units]] if time_major else [[1, steps, inputs], [1, steps, units]]
    number = KINDS[kind][0]
    x, y = w.tensor("x", shapes[0], number, None, x_grid), w.tensor("y", shapes[1], number, None, h_grid)
    hidden = w.tensor("hidden", [1, units], number, None, h_grid, is_variable=True)
    cell = w.tensor("cell", [1, units], FLOAT if kind == "float" else INT16, None, c_grid, is_variable=True)
    stored = "float" if kind == "float" else "int8"
    of_x = [_weights(w, f"w{n}", [units, inputs], stored, 0.01 + 0.003 * n, n) for n in range(4)]
    of_h = [_weights(w, f"u{n}", [units, units], stored, 0.012 - 0.002 * n, 9 + n) for n in range(4)]
    biases = []
    for n in range(4):
        codes = np.random.default_rng(20 + n).integers(-2000, 2000, units)
        if kind == "float":
            biases.append(w.tensor(f"b{n}", [units], FLOAT, (codes * 1e-4).astype(np.float32)))
        else:
            wide = (INT64, np.int64) if kind == "int16" else (INT32, np.int32)
            biases.append(w.tensor(f"b{n}", [units], wide[0], codes.astype(wide[1]), ([2e-4], [0], 0)))
    operands = [x, *of_x, *of_h, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]
    options = {"FusedActivationFunction": 4, "CellClip": clip, "ProjClip": 0.0, "TimeMajor": time_major}
    w.operator(OPERATOR.UNIDIRECTIONAL_SEQUENCE_LSTM, operands, y, "UnidirectionalSequenceLSTMOptions", **options)
    return w.file(x, y)


def word_function(op: str, scale: float) -> bytes:
    w = Writer()
    x = w.tensor("x", [1, 2000], INT16, None, ([scale], [0], 0))
    y = w.tensor("y", [1, 2000], INT16, None, ([1 / 32768], [0], 0))
    w.operator(getattr(OPERATOR, op), [x], y)
    return w.file(x, y)


def quantized(source: int, target: int, scales: tuple[float, float], zeros: tuple[int, int]) -> bytes:
    w = Writer()
    x = w.tensor("x", [1, 500], source, None, ([scales[0]], [zeros[0]], 0))
    y = w.tensor("y", [1, 500], target, None, ([scales[1]], [zeros[1]], 0))
    w.operator(OPERATOR.QUANTIZE, [x], y, "QuantizeOptions")
    return w.file(x, y)


def of_bytes(op: str, operands: int, grids: tuple[Grid, Grid], **options: Any) -> bytes:
    """Functions and sums of int8; CUMSUM along axis 1."""
    w = Writer()
    inputs = [w.tensor(f"x{n}", [1, 5, 60], INT8, None, grids[0]) for n in range(operands)]
    y = w.tensor("y", [1, 5, 60], INT8, None, grids[1])
    axis = [w.tensor("axis", [], INT32, np.array(1, np.int32))] if op == "CUMSUM" else []
    w.operator(getattr(OPERATOR, op), [*inputs, *axis], y, "CumsumOptions" if options else "", **options)
    return w.file(inputs, y)


def resized(height: int, width: int, ends: bool, middle: bool, kind: int = INT8) -> bytes:
    w = Writer()
    x, y = w.tensor("x", [1, 4, 5, 3], kind, None, ONE), w.tensor("y", [1, height, width, 3], kind, None, ONE)
    sizes = w.tensor("sizes", [2], INT32, np.array([height, width], np.int32))
    how = {"AlignCorners": ends, "HalfPixelCenters": middle}
    w.operator(OPERATOR.RESIZE_BILINEAR, [x, sizes], y, "ResizeBilinearOptions", **how)
    return w.file(x, y)


def paired(op: str, kind: str, grids: tuple[Grid, Grid, Grid], shapes: tuple[list[int], list[int], list[int]]) -> bytes:
    """A function of two operands; what is divided by is 1 or more from its zero point."""
    w, (number, _) = Writer(), KINDS[kind]
    inputs = [w.tensor(f"x{n}", shapes[n], number, None, grids[n]) for n in range(2)]
    read, y = list(inputs), w.tensor("y", shapes[2], number, None, grids[2])
    options = {"SQUARED_DIFFERENCE": {}, "DIV": {"FusedActivationFunction": 0}}.get(op, {"AdjX": 0, "AdjY": 1})
    if op == "DIV":
        one = w.tensor("one", [1], number, np.array([grids[1][1][0] + 1], np.int8), grids[1])
        read[1] = w.tensor("safe", shapes[1], number, None, grids[1])
        w.operator(OPERATOR.MAXIMUM, [inputs[1], one], read[1], "MaximumMinimumOptions")
    table = {"SQUARED_DIFFERENCE": "SquaredDifferenceOptions", "DIV": "DivOptions"}.get(op, "BatchMatMulOptions")
    w.operator(getattr(OPERATOR, op), read, y, table, **options)
    return w.file(inputs, y)


def log_softmax(scale: float) -> bytes:
    w = Writer()
    x = w.tensor("x", [1, 30, 12], INT8, None, ([scale], [4], 0))
    y = w.tensor("y", [1, 30, 12], INT8, None, ([16 / 256], [127], 0))
    w.operator(OPERATOR.LOG_SOFTMAX, [x], y, "LogSoftmaxOptions")
    return w.file(x, y)


TINY: Grid = ([0.001], [-128], 0)  # coarser ones shift small quotients by 32 bits and more, undefined in the runtime
SAME, COLUMN = ([1, 5, 60], [1, 5, 60], [1, 5, 60]), ([1, 5, 60], [5, 1], [1, 5, 60])
FEW = ([1, 5, 9], [1, 5, 9], [1, 5, 9])
MATRICES, SHARED = ([2, 5, 7], [2, 6, 7], [2, 5, 6]), ([1, 5, 7], [2, 6, 7], [2, 5, 6])
WORDS: tuple[Grid, Grid, Grid] = (([0.003], [0], 0), ([0.001], [0], 0), ([0.02], [0], 0))
ENDS: dict[str, Grid | None] = {"float": None, "int8": ([0.05], [3], 0), "int16": ([0.05], [0], 0)}
RESULT: dict[str, Grid | None] = {"float": None, "int8": ([0.1], [-5], 0), "int16": ([0.1], [0], 0)}
PLAIN = {"FusedActivationFunction": 0}


def branches(kind: str, known: bool | None = None) -> bytes:
    """x + x or x * x of six numbers: by the sign of the first, or by a constant."""
    w, (number, dtype), grid = Writer(), KINDS[kind], ENDS[kind]
    x, y = w.tensor("x", [1, 6], number, None, grid), w.tensor("y", [1, 6], number, None, RESULT[kind])
    chosen = w.tensor("chosen", [], BOOL, None if known is None else np.array(known))
    if known is None:
        first, scalar = w.tensor("first", [1, 1], number, None, grid), w.tensor("scalar", [], number, None, grid)
        zero = w.tensor("zero", [], number, np.array(0, dtype), grid)
        ends = [w.tensor(name, [2], INT32, np.array([at] * 2, np.int32)) for name, at in (("from", 0), ("size", 1))]
        w.operator(OPERATOR.SLICE, [x, *ends], first, "SliceOptions")
        w.operator(OPERATOR.RESHAPE, [first], scalar, "ReshapeOptions")
        w.operator(OPERATOR.LESS, [scalar, zero], chosen, "LessOptions")
    w.operator(OPERATOR.IF, [chosen, x], y, "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    ends = x, y
    for op in ("ADD", "MUL"):
        w.subgraph(*ends)
        a, b = w.tensor("a", [1, 6], number, None, grid), w.tensor("b", [1, 6], number, None, RESULT[kind])
        w.operator(getattr(OPERATOR, op), [a, a], b, f"{op.title()}Options", **PLAIN)
        ends = a, b
    return w.file(*ends)


def repeated(kind: str, steps: int = 5, counts_input: bool = False) -> bytes:
    """`steps` times x + x * x; `counts_input`: until x is no longer below 0."""
    w, number, grid = Writer(), KINDS[kind][0], ENDS[kind]
    one = np.array([1], np.int32)

    def state(name: str) -> list[int]:
        return [w.tensor(f"{name}.step", [1], INT32), w.tensor(name, [1, 1], number, None, grid)]

    x = w.tensor("x", [1, 1], number, None, grid)
    start, y = w.tensor("start", [1], INT32, one), state("y")
    w.operator(OPERATOR.WHILE, [start, x], y, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    w.subgraph(x, y[1])
    now, more = state("now"), w.tensor("more", [1], BOOL)
    limit = w.tensor("limit", [1], INT32, steps * one)
    if counts_input:
        more = w.tensor("more", [1, 1], BOOL)
        limit = w.tensor("limit", [1, 1], number, np.zeros((1, 1), KINDS[kind][1]), grid)
    w.operator(OPERATOR.LESS, [now[int(counts_input)], limit], more, "LessOptions")
    w.subgraph(now, more)
    now, then = state("now"), state("then")
    square, by = w.tensor("square", [1, 1], number, None, grid), w.tensor("by", [1], INT32, one)
    w.operator(OPERATOR.ADD, [now[0], by], then[0], "AddOptions", **PLAIN)
    w.operator(OPERATOR.MUL, [now[1], now[1]], square, "MulOptions", **PLAIN)
    w.operator(OPERATOR.ADD, [now[1], square], then[1], "AddOptions", **PLAIN)
    return w.file(now, then)


def updated(kind: str, place: list[int] | None) -> bytes:
    """(1, 2, 3) into (1, 4, 5) at a place, or where the largest and the smallest are."""
    w, number, grid = Writer(), KINDS[kind][0], ENDS[kind]
    x, part = w.tensor("x", [1, 4, 5], number, None, grid), w.tensor("part", [1, 2, 3], number, None, grid)
    at = w.tensor("at", [3], INT32, None if place is None else np.array(place, np.int32))
    y = w.tensor("y", [1, 4, 5], number, None, grid)
    if place is None:
        flat, zero = w.tensor("flat", [1, 20], number, None, grid), w.tensor("0", [1], INT32, np.zeros(1, np.int32))
        axis, found = w.tensor("axis", [], INT32, np.array(1, np.int32)), [zero]
        w.operator(OPERATOR.RESHAPE, [x], flat, "ReshapeOptions")
        for op, table in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions")):
            found.append(w.tensor(op, [1], INT32))
            w.operator(getattr(OPERATOR, op), [flat, axis], found[-1], table, OutputType=INT32)
        w.operator(OPERATOR.CONCATENATION, found, at, "ConcatenationOptions", Axis=0, **PLAIN)
    w.operator(OPERATOR.DYNAMIC_UPDATE_SLICE, [x, part, at], y)
    return w.file([x, part], y)


def buffered(is_variable: bool = True, **options: int) -> bytes:
    w, grid = Writer(), ENDS["int8"]
    x, held = (
        w.tensor("x", [1, 1, 2, 3], INT8, None, grid),
        w.tensor("held", [1, 4, 2, 3], INT8, None, grid, is_variable=is_variable),
    )
    y = w.tensor("y", [1, 4, 2, 3], INT8, None, RESULT["int8"])
    w.custom("CIRCULAR_BUFFER", [x], held, **options)
    w.operator(OPERATOR.ADD, [held, held], y, "AddOptions", **PLAIN)
    return w.file(x, y)


def _bits(numbers: np.ndarray, width: int) -> np.ndarray:
    digits = numbers.reshape(-1, 1) >> np.arange(width)[::-1] & 1
    return np.packbits(digits.astype(np.uint8).reshape(-1))


def _tables(kind: str, channels: int) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Header from its kind on, code and tables of 30 numbers."""
    rng = np.random.default_rng(1)
    if kind == "table":
        numbers = rng.integers(-100, 100, (channels, 8)).astype(np.int8)
        return [0, 1, 0, 0, 1, 3, 8], _bits(rng.integers(0, 8, 30), 3), numbers.view(np.uint8).reshape(-1)
    if kind == "pruned":
        there = rng.integers(0, 2, 30)
        numbers = rng.integers(-100, 100, int(there.sum())).astype(np.int8)
        return [2, 1, 0, 0, 1], _bits(there, 1), numbers.view(np.uint8)
    # 0: -7, 10: 50, 11: two bits more in a second table of 4 numbers, each found with both
    found, symbols = 1 << 15, [0x21, 0x80, 0x7F, 0xFE]
    first = [found | 1 << 11 | 0xF9, found | 1 << 11 | 0xF9, found | 2 << 11 | 0x32, 1 << 11 | 1]
    table = np.array(first + [found | 2 << 11 | symbol for symbol in symbols], np.uint16)
    codes = ("0", "10", "1100", "1101", "1110", "1111")
    text = "".join(codes[at] for at in rng.integers(0, 6, 30))
    text += "0" * (-len(text) % 32)
    words = np.packbits(np.array([int(bit) for bit in text], np.uint8))
    return [1, 1, 0, 0, 1, 1 << 4], words, table.view(np.uint8)


def compressed(kind: str, channels: int = 1, axis: int = 0) -> bytes:
    """x (6, 5) and what is decoded, which has a scale for each of `channels` along an axis, as two results."""
    w, (header, codes, tables) = Writer(), _tables(kind, channels)
    by = np.concatenate([np.array(header + [0] * (16 - len(header)), np.uint8), tables])
    x, y = (w.tensor(name, [6, 5], INT8, None, RESULT["int8"]) for name in "xy")
    pair = [w.tensor(name, [data.size], UINT8, data) for name, data in (("codes", codes), ("by", by))]
    zero = 9 if channels == 1 else 0
    decoded = w.tensor("decoded", [6, 5], INT8, None, ([0.02] * channels, [zero] * channels, axis))
    w.custom("TFLM_DECODE", pair, decoded)
    w.operator(OPERATOR.ADD, [x, decoded], y, "AddOptions", **PLAIN)
    return w.file(x, y)


def detector(is_regular: bool, **options: float) -> bytes:
    """20 anchors, 3 classes behind the background's."""
    w, rng = Writer(), np.random.default_rng(4)
    most = int(options.get("max_detections", 6))
    boxes, scores = w.tensor("boxes", [1, 20, 4], FLOAT), w.tensor("scores", [1, 20, 4], FLOAT)
    places = np.concatenate([rng.uniform(0, 1, (20, 2)), rng.uniform(0.2, 0.6, (20, 2))], axis=1)
    anchors = w.tensor("anchors", [20, 4], FLOAT, places.astype(np.float32))
    shapes = {"found": [1, most, 4], "classes": [1, most], "values": [1, most], "count": [1]}
    given: dict[str, float] = {"max_detections": most, "max_classes_per_detection": 1, "num_classes": 3}
    given |= {"nms_score_threshold": 0.3, "nms_iou_threshold": 0.4, "use_regular_nms": is_regular}
    given |= {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, **options}
    outputs = [w.tensor(name, shape, FLOAT) for name, shape in shapes.items()]
    w.custom("TFLite_Detection_PostProcess", [boxes, scores, anchors], outputs, **given)
    return w.file([boxes, scores], outputs)


ONE, OTHER, LOW, FINE = ([0.03], [5], 0), ([0.02], [20], 0), ([0.1], [-128], 0), ([0.02], [127], 0)
FILES: dict[str, Callable[[], bytes]] = {
    "hard_swish": lambda: of_bytes("HARD_SWISH", 1, (ONE, OTHER)),
    "hard_swish_low": lambda: of_bytes("HARD_SWISH", 1, (LOW, LOW)),
    "hard_swish_fine": lambda: of_bytes("HARD_SWISH", 1, (FINE, OTHER)),
    "resized": lambda: resized(7, 9, False, False),
    "resized_ends": lambda: resized(9, 3, True, False),
    "resized_middle": lambda: resized(2, 11, False, True),
    "squares": lambda: paired("SQUARED_DIFFERENCE", "int8", (ONE, LOW, LOW), SAME),
    "squares_broadcast": lambda: paired("SQUARED_DIFFERENCE", "int8", (LOW, ONE, OTHER), COLUMN),
    "squares_int16": lambda: paired("SQUARED_DIFFERENCE", "int16", WORDS, SAME),
    "quotients": lambda: paired("DIV", "int8", (ONE, TINY, OTHER), SAME),
    "quotients_broadcast": lambda: paired("DIV", "int8", (LOW, ONE, LOW), COLUMN),
    "squares_small": lambda: paired("SQUARED_DIFFERENCE", "int8", (ONE, LOW, LOW), FEW),
    "quotients_small": lambda: paired("DIV", "int8", (ONE, TINY, OTHER), FEW),
    "products": lambda: paired("BATCH_MATMUL", "int8", (ONE, OTHER, LOW), MATRICES),
    "products_shared": lambda: paired("BATCH_MATMUL", "int8", (OTHER, LOW, LOW), SHARED),
    "products_int16": lambda: paired("BATCH_MATMUL", "int16", WORDS, MATRICES),
    **{f"log_softmax_{scale}": (lambda scale=scale: log_softmax(scale)) for scale in (0.004, 0.05, 0.3)},
    "add_n": lambda: of_bytes("ADD_N", 3, (ONE, LOW)),
    "cumsum": lambda: of_bytes("CUMSUM", 1, (ONE, LOW), Exclusive=True, Reverse=False),
    "cumsum_reverse": lambda: of_bytes("CUMSUM", 1, (LOW, ONE), Exclusive=False, Reverse=True),
    "svdf": lambda: svdf("float", "float"),
    "svdf_int8": lambda: svdf("int8", "int8"),
    "svdf_int16": lambda: svdf("int8", "int16", 1),
    "lstm": lambda: lstm("float"),
    "lstm_clipped": lambda: lstm("float", 0.3),
    "lstm_int8": lambda: lstm("int8"),
    "lstm_int8_clipped": lambda: lstm("int8", 0.4, time_major=True),
    "lstm_int8_fine": lambda: lstm("int8", cell_scale=2.0**-13),
    "lstm_int16": lambda: lstm("int16", cell_scale=2.0**-12),
    **{
        f"{op}_{scale}": (lambda op=op, s=scale: word_function(op, s))
        for op in ("TANH", "LOGISTIC")
        for scale in (3e-5, 2.0**-12, 0.03)
    },
    **{f"if_{kind}": (lambda kind=kind: branches(kind)) for kind in ("float", "int8")},
    **{f"if_{known}": (lambda known=known: branches("int16", known)) for known in (True, False)},
    **{f"while_{kind}": (lambda kind=kind: repeated(kind)) for kind in KINDS},
    **{f"updated_{kind}": (lambda kind=kind: updated(kind, [0, 1, 1])) for kind in KINDS},
    "updated_moved": lambda: updated("int8", [0, 9, -4]),
    **{f"updated_{kind}_run_time": (lambda kind=kind: updated(kind, None)) for kind in ("float", "int8")},
    "circular_buffer": lambda: buffered(cycles_max=1),
    **{f"compressed_{kind}": (lambda kind=kind: compressed(kind)) for kind in ("table", "pruned", "huffman")},
    "detector": lambda: detector(False),
    "detector_many": lambda: detector(False, nms_iou_threshold=0.9, max_detections=12),
    "detector_regular": lambda: detector(True),
    "detector_few": lambda: detector(True, nms_score_threshold=2.2),
    "int16_to_int32": lambda: quantized(INT16, INT32, (0.01, 0.003), (0, 5)),
    "int32_to_int8": lambda: quantized(INT32, INT8, (0.0007, 0.2), (-3, 11)),
    "int32_to_int16": lambda: quantized(INT32, INT16, (0.01, 0.011), (0, 0)),
}


@pytest.mark.parametrize("name", FILES)
def test_every_step_equals_the_runtime(name: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    path = tmp_path / "m.tflite"
    path.write_bytes(FILES[name]())
    assert verdict(path, 16 if "svdf" in name or "lstm" in name else 6) == Verdict(EVERYWHERE)


def program_of(data: bytes, steps: int) -> Program:
    graph = tflite_model(data, Path("m.tflite"), stream=Stream(steps=steps)).graph
    return lower(graph, Assignment("int8", {}), Ranges.any_of(graph))


def kernels(names: Iterable[str]) -> list[Case]:
    """Their programs, with steps over the whole of each input's format."""
    cases, rng = [], np.random.default_rng(6)
    for name in names:
        program = program_of({**FILES, **WITHOUT_SIGN}[name](), 4)
        fmt = program.tensors[program.input].format
        low, high = max(fmt.lowest, -(1 << 20)), min(fmt.highest, 1 << 20)
        cases.append(Case(name, program, rng.integers(low, high + 1, (6, program.tensors[program.input].count))))
    return cases


OF_FLOATS = ("svdf", "lstm", "lstm_clipped")
CODED = tuple(n for n in FILES if n not in OF_FLOATS and "float" not in n and "detector" not in n)
WITHOUT_SIGN: dict[str, Callable[[], bytes]] = {  # tests/test_tflite_chains.py sets them beside LiteRT
    "resized_uint8": lambda: resized(7, 9, False, False, UINT8),
    "resized_uint8_ends": lambda: resized(9, 3, True, False, UINT8),
    "resized_uint8_middle": lambda: resized(2, 11, False, True, UINT8),
}
ON_UNO = (  # what its memory holds, in two images: 32 KB of flash
    ("squares_small", "quotients_small", "log_softmax_0.05", "hard_swish", "cumsum", *WITHOUT_SIGN),
    ("products", "updated_int8", "updated_int8_run_time", "circular_buffer", "compressed_huffman", "if_int8"),
)


def test_kernels_natively(tmp_path: Path) -> None:
    cases = kernels((*CODED, *WITHOUT_SIGN))
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize(("board", "names"), [("due", (*CODED, *WITHOUT_SIGN)), *(("uno", names) for names in ON_UNO)])
def test_kernels_on_boards(board: str, names: Sequence[str], tmp_path: Path) -> None:
    cases = kernels(names)
    assert first_difference(cases, run_on_board(cases, load_boards().board(board), tmp_path)) == ""


@pytest.mark.parametrize(("channels", "axis"), [(6, 0), (5, 1)])
def test_every_channel_has_a_table_of_its_own(channels: int, axis: int) -> None:
    """The runtime's tensor itself: no operator of it takes a second operand of several scales."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")
    data = compressed("table", channels, axis)
    keep = runtime.InterpreterConfig.kPreserveAllTensors
    interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 16, intrepreter_config=keep)
    interpreter.set_input(np.zeros((6, 5), np.int8), 0)
    interpreter.invoke()
    mine = {tensor.name: tensor.data for tensor in read_file(data).tensors}["decoded"]
    assert mine is not None
    np.testing.assert_array_equal(mine, interpreter.GetTensor(4, 0)["tensor_data"])


def test_detections_in_whole_numbers_are_those_of_floats(tmp_path: Path) -> None:
    graph = tflite_model(detector(True), Path("m.tflite")).graph
    x = np.random.default_rng(2).normal(size=(6, *graph.shapes[graph.inputs[0]])).astype(np.float32)
    program = lower(graph, Assignment("fixed16", {}), calibrate(graph, x, {"name": "random"}))
    codes = quantize_inputs(program, x)[0]
    got = dequantize_outputs(program, run_reference(program, codes).outputs)
    np.testing.assert_allclose(got, evaluate(graph, x).reshape(got.shape), atol=1e-3)
    case = Case("detector", program, codes)
    assert first_difference([case], run_natively([case], tmp_path, *SANITIZED)) == ""


REFUSALS: dict[str, Callable[[], bytes]] = {
    "a cell of int16 in units of 0.0004": lambda: lstm("int8", cell_scale=0.0004),
    "no number of steps is sure": lambda: repeated("float", counts_input=True),
    "a loop of more than 1024 steps": lambda: repeated("float", 5000),
    "a run that ends at this operator": lambda: buffered(cycles_max=2),
    "a state that is no variable tensor": lambda: buffered(False, cycles_max=1),
    "a limit for each class": lambda: detector(True, detections_per_class=2),
    "several classes of one detection": lambda: detector(False, max_classes_per_detection=2),
    "without y_scale": lambda: detector(False, y_scale=float("nan")),
    "Ethos-U NPU": lambda: npu(),
}


def npu() -> bytes:
    w = Writer()
    x, y = (w.tensor(name, [1, 4], INT8, None, ONE) for name in "xy")
    w.custom("ethos-u", [x], y)
    return w.file(x, y)


@pytest.mark.parametrize("says", REFUSALS)
def test_what_can_not_be_is_refused_in_a_line(says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        tflite_model(REFUSALS[says](), Path("m.tflite"), stream=Stream(steps=2))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [*(2.0**-bits for bits in range(2, 12)), 0.0471, 0.11, 0.7, 1e-5])
@pytest.mark.parametrize("op", ["LOGISTIC", "TANH"])
def test_curves_of_bytes_are_tflms_where_asked_for(op: str, scale: float, tmp_path: Path) -> None:
    """256 / (1 + exp(-1 / 128)) is 128.4999975, of which TFLM makes 129, LiteRT 128; every code beside TFLM itself."""
    w, path, step = Writer(), tmp_path / "m.tflite", CURVES[op][2]
    codes, zero = np.arange(-128, 128), -128 if op == "LOGISTIC" else 0
    x = w.tensor("x", [1, 256], INT8, None, ([scale], [5], 0))
    y = w.tensor("y", [1, 256], INT8, None, ([2.0**-step], [zero], 0))
    w.operator(getattr(OPERATOR, op), [x], y)
    path.write_bytes(w.file([x], y))
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")
    micro = runtime.Interpreter.from_bytes(path.read_bytes())
    micro.set_input(codes.astype(np.int8)[None], 0)
    micro.invoke()
    theirs = micro.get_output(0).reshape(-1)
    stored = float(np.float32(scale))
    assert np.array_equal(curve_tables(*CURVES[op], (0, stored, 5), zero)[0], theirs)
    graph = tflite_model(path.read_bytes(), path, None, Stream(rounding="tflm")).graph
    program = lower(graph, Assignment("int8"), calibrate(graph, codes.astype(np.float32)[None], {}))
    assert np.array_equal(run_reference(program, codes[None]).outputs.reshape(-1), theirs)
