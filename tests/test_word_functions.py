"""Sigmoid and Tanh of float models in int16x8: TensorFlow Lite Micro's integers, in the grid that these have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from onnx_models import given_ranges, load, node, samples_for, simple
from scan_models import cell, classifier, scan
from search_models import host_engine

from tinyhil.agreement import agreement
from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import formats, lower
from tinyhil.formats.affine import as_affine
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program, walk
from tinyhil.ops.cells import WORD_FUNCTION, logistic_table, units_of
from tinyhil.ops.word_functions import RESULT, SCALES, WORST_ERROR
from tinyhil.references.reference import run_reference

OPS = ("Sigmoid", "Tanh")
EXACT = {"Sigmoid": lambda x: 0.5 * (np.tanh(0.5 * x) + 1.0), "Tanh": np.tanh}
REACHES = (3e-3, 0.9, 5.7, 12.0, 800.0, 6e4)
CODES = np.arange(-32768, 32768)


def program_of(op: str, reach: float, folder: Path, count: int = 512) -> Program:
    graph = load(simple([node(op, "x", "y")], {"x": (1, count)}), folder)
    return lower(graph, Assignment("int16x8"), given_ranges(x=reach, y=0.5))


def kernels(program: Program) -> list[str]:
    return [name_of(op.kernel) for op in walk(program.body)]


def lowered(nodes: list[Any], constants: dict[str, Any], x: np.ndarray, folder: Path) -> Program:
    graph = load(simple(nodes, {"x": x.shape[1:]}, constants), folder)
    ranges, assignment = calibrate(graph, x, {}), Assignment("int16x8")
    program = lower(graph, assignment, ranges)
    assert agreement(graph, program, formats(graph, assignment, ranges), x).findings == ()
    return program


@pytest.mark.parametrize("reach", [*REACHES, 32767 * SCALES[0] * 1.01, 32767 * SCALES[1] * 0.99])
@pytest.mark.parametrize("op", OPS)
def test_every_code_is_that_of_a_tflite_file_and_near_the_function(op: str, reach: float, tmp_path: Path) -> None:
    program = program_of(op, reach, tmp_path)
    assert kernels(program) == [f"{op.lower()}_affine"]
    made = as_affine(program.tensors["y"].format)
    assert (made.bits, made.scale, made.zero) == (16, *RESULT)
    found = run_reference(program, CODES.reshape(-1, 512))
    assert not found.saturations.any()
    scale = as_affine(program.tensors["x"].format).scale
    off = np.abs(found.outputs.reshape(-1) * made.scale - EXACT[op](CODES * scale))
    assert off.max() <= WORST_ERROR[op] + made.scale / 2
    factor, right = units_of(scale)
    numbers = {"factor": factor, "right": right, "is_tanh": int(op == "Tanh")}
    of_file = WORD_FUNCTION.compute(numbers, [logistic_table()[None], CODES[None]])
    np.testing.assert_array_equal(found.outputs.reshape(-1), of_file[0])


def cases(folder: Path, samples: int, count: int) -> list[Case]:
    spread = np.linspace(-32768, 32767, samples * count).astype(np.int64).reshape(samples, count)
    found = [(f"{op} {reach}", program_of(op, reach, folder, count)) for op in OPS for reach in REACHES]
    return [Case(name, program, spread) for name, program in found]


def test_every_code_natively(tmp_path: Path) -> None:
    found = cases(tmp_path, 128, 512)
    assert first_difference(found, run_natively(found, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("board", ["uno", *(pytest.param(name, marks=pytest.mark.slow) for name in ("due", "pico"))])
def test_on_boards(board: str, tmp_path: Path) -> None:
    found = cases(tmp_path, 24, 32)
    assert first_difference(found, run_on_board(found, load_boards().board(board), tmp_path / "cache")) == ""


def test_the_host_engine_has_every_code(tmp_path: Path) -> None:
    engine = host_engine(default_cache_dir())
    for case in cases(tmp_path, 128, 512):
        found, wanted = engine.run(case.program, case.inputs), run_reference(case.program, case.inputs)
        np.testing.assert_array_equal(found.outputs, wanted.outputs, case.name)


GATE = [node("Sigmoid", "x", "z"), node("Sub", "one z", "g"), node("Tanh", "x", "t"), node("Mul", "g t", "y")]
ROWS = [node("Tanh", "x", "t"), node("Mul", "x two", "d"), node("Concat", "t d", "y", axis=1)]
LIMITED = [node("Tanh", "x", "t"), node("Clip", "x low high", "d"), node("Concat", "t d", "y", axis=1)]
TWICE = [node("Tanh", "x", "t"), node("Sigmoid", "x", "z"), node("Concat", "t z", "y", axis=1)]
WHERE: dict[str, tuple[list[Any], dict[str, Any], float, list[str]]] = {
    "gates": (GATE, {"one": 1.0}, 3.0, ["sigmoid_affine", "tanh_affine"]),
    "two results in one": (TWICE, {}, 3.0, ["tanh_affine", "sigmoid_affine"]),
    "saturated": (TWICE, {}, 40.0, ["tanh_affine", "sigmoid_affine"]),
    "beside larger numbers": (ROWS, {"two": 2.0}, 3.0, ["single_tanh"]),
    "beside a one that it lacks": (LIMITED, {"low": -1.0, "high": 1.0}, 3.0, ["single_tanh", "single_clip"]),
    "small": ([node("Tanh", "x", "y")], {}, 0.05, ["single_tanh"]),
    "an operand that no factor moves": ([node("Tanh", "x", "y")], {}, 1e5, ["single_tanh"]),
}


@pytest.mark.parametrize("name", WHERE)
def test_where_results_have_that_grid(name: str, tmp_path: Path) -> None:
    """Whatever shares their range must fit it, and they must fill some of it."""
    nodes, constants, reach, wanted = WHERE[name]
    x = np.linspace(-reach, reach, 8 * 40, dtype=np.float32).reshape(8, 1, 40)
    program = lowered(nodes, {key: np.float32(value) for key, value in constants.items()}, x, tmp_path)
    assert [kernel for kernel in kernels(program) if not kernel.startswith(("word", "move", "place"))] == wanted


def test_a_state_that_tanh_makes_has_that_grid(tmp_path: Path) -> None:
    graph = load(classifier([scan("h0 x", "h_n", cell())]), tmp_path)
    x = samples_for(graph.shapes["x"], 8)
    ranges, assignment = calibrate(graph, x, {}), Assignment("int16x8")
    program = lower(graph, assignment, ranges)
    assert "tanh_affine" in kernels(program)
    assert program.tensors["h_next"].format.grid == program.tensors["h"].format.grid == RESULT
    assert agreement(graph, program, formats(graph, assignment, ranges), x).findings == ()


@pytest.mark.parametrize("op", OPS)
def test_the_gate_knows_its_error_and_no_more(op: str, tmp_path: Path) -> None:
    """Ten units more in one place are found."""
    graph = load(simple([node(op, "x", "y")], {"x": (1, 400)}), tmp_path)
    x = np.linspace(-9, 9, 4 * 400, dtype=np.float32).reshape(4, 1, 400)
    ranges, assignment = calibrate(graph, x, {}), Assignment("int16x8")
    chosen, program = formats(graph, assignment, ranges), lower(graph, assignment, ranges)
    assert agreement(graph, program, chosen, x).findings == ()
    (table,) = (name for name in program.constants if name.startswith("logistic"))
    program.constants[table] = program.constants[table] + np.where(np.arange(256) == 24, -20, 0)
    assert [finding.tensor for finding in agreement(graph, program, chosen, x).findings] == ["y"]
