"""Cells with memory of .tflite files, and what else is defined code by code, against TensorFlow Lite Micro itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively
from tflite_files import FLOAT, INT8, INT16, INT32, INT64, OPERATOR, Grid, Writer

from benchmarks.tflite_files import EVERYWHERE, Verdict, verdict
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.frontend.ports import Stream
from tinyhil.frontend.tflite import tflite_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program

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


def resized(height: int, width: int, ends: bool, middle: bool) -> bytes:
    w = Writer()
    x, y = w.tensor("x", [1, 4, 5, 3], INT8, None, ONE), w.tensor("y", [1, height, width, 3], INT8, None, ONE)
    sizes = w.tensor("sizes", [2], INT32, np.array([height, width], np.int32))
    how = {"AlignCorners": ends, "HalfPixelCenters": middle}
    w.operator(OPERATOR.RESIZE_BILINEAR, [x, sizes], y, "ResizeBilinearOptions", **how)
    return w.file(x, y)


ONE, OTHER, LOW, FINE = ([0.03], [5], 0), ([0.02], [20], 0), ([0.1], [-128], 0), ([0.02], [127], 0)
FILES: dict[str, Callable[[], bytes]] = {
    "hard_swish": lambda: of_bytes("HARD_SWISH", 1, (ONE, OTHER)),
    "hard_swish_low": lambda: of_bytes("HARD_SWISH", 1, (LOW, LOW)),
    "hard_swish_fine": lambda: of_bytes("HARD_SWISH", 1, (FINE, OTHER)),
    "resized": lambda: resized(7, 9, False, False),
    "resized_ends": lambda: resized(9, 3, True, False),
    "resized_middle": lambda: resized(2, 11, False, True),
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
    "int16_to_int32": lambda: quantized(INT16, INT32, (0.01, 0.003), (0, 5)),
    "int32_to_int8": lambda: quantized(INT32, INT8, (0.0007, 0.2), (-3, 11)),
    "int32_to_int16": lambda: quantized(INT32, INT16, (0.01, 0.011), (0, 0)),
}


@pytest.mark.parametrize("name", FILES)
def test_every_step_equals_the_runtime(name: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    path = tmp_path / "m.tflite"
    path.write_bytes(FILES[name]())
    assert verdict(path, 40 if "svdf" in name or "lstm" in name else 4) == Verdict(EVERYWHERE)


def program_of(data: bytes, steps: int) -> Program:
    graph = tflite_model(data, Path("m.tflite"), stream=Stream(steps=steps)).graph
    return lower(graph, Assignment("int8", {}), Ranges.any_of(graph))


@pytest.mark.parametrize("flags", [("-O2",), SANITIZED], ids=["fast", "sanitized"])
def test_kernels_natively(flags: tuple[str, ...], tmp_path: Path) -> None:
    cases, rng = [], np.random.default_rng(6)
    for name, make in FILES.items():
        if name in ("svdf", "lstm", "lstm_clipped"):
            continue
        program = program_of(make(), 4)
        fmt = program.tensors[program.input].format
        low, high = max(fmt.lowest, -(1 << 20)), min(fmt.highest, 1 << 20)
        cases.append(Case(name, program, rng.integers(low, high + 1, (6, program.tensors[program.input].count))))
    assert first_difference(cases, run_natively(cases, tmp_path, *flags)) == ""


def test_what_has_no_kernel_is_refused_in_a_line() -> None:
    for data, says in ((lstm("int8", cell_scale=0.0004), "a cell of int16 in units of 0.0004"),):
        with pytest.raises(ModelError, match=says) as caught:
            tflite_model(data, Path("m.tflite"), stream=Stream(steps=2))
        assert "\n" not in str(caught.value)
