"""The C++ kernels give the bits and the saturation counts of the numpy reference: natively and on every board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from boards_under_test import EMULATED, EVERY, each
from kernel_cases import FIRMWARE, UNDEFINED, Case, first_difference, output_of, run_natively, run_on_board
from onnx_models import given_ranges, load, model, node, simple
from onnx_models import graph as onnx_graph
from random_models import extreme_inputs, random_cases
from scan_models import HIDDEN, SCANS, U, W, cell, scan

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower, tied_values
from tinyhil.formats.fixed import Fixed
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.form import Limit
from tinyhil.language.program import Program, walk
from tinyhil.ops import activation, elementwise, linear
from tinyhil.ops import scan as scan_ops


@pytest.fixture(scope="module")
def build_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernel_builds")


@pytest.mark.parametrize("first", [1000, 2000, 3000])
def test_random_programs(first: int, tmp_path: Path) -> None:
    cases = random_cases(first, 40, tmp_path)
    kernels = {op.kernel for case in cases for op in walk(case.program.body)}
    families = (activation, elementwise, linear, scan_ops)
    wanted = [kernel for family in families for kernel in family.KERNELS]
    without = [
        kernel.form for kernel in wanted if kernel.form.limit is Limit.NONE
    ]  # tests/test_fuse_layers.py has those
    assert kernels >= set(without)
    widths = {op.accumulator_bits for case in cases for op in walk(case.program.body)}
    assert len([bits for bits in widths if bits > 40]) >= 5
    assert first_difference(cases, run_natively(cases, tmp_path, *UNDEFINED)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100_000, 125_000, 1000))
def test_many_more_random_programs(first: int, tmp_path: Path) -> None:
    cases = random_cases(first, 60, tmp_path)
    assert first_difference(cases, run_natively(cases, tmp_path, *UNDEFINED)) == ""


# ---- directed edge cases


def magnitude(fmt: Fixed) -> float:
    """A range that gets exactly this format."""
    return 0.75 * 2.0 ** (fmt.exponent + fmt.bits - 1)


def formatted(
    folder: Path, nodes: list[onnx.NodeProto], shape: tuple[int, ...], formats: Mapping[str, Fixed], **constants: Any
) -> Program:
    """A program whose run-time values have exactly these formats."""
    loaded = load(simple(nodes, {"x": shape}, constants), folder)
    known = loaded.all_shapes()
    mix = {name: f"fixed{fmt.bits}" for name, fmt in formats.items() if name in known}
    ranges = given_ranges(**{name: magnitude(fmt) for name, fmt in formats.items()})
    program = lower(loaded, Assignment("fixed16", mix), ranges)
    for name, fmt in formats.items():
        if name in program.tensors and name not in constants:
            assert program.tensors[name].format == fmt, name
    return program


NEARLY_ONE = 0.999999  # rounds to 2^(bits-1): -32768 (or -128) when negative, clipped when positive


def worst_weights(inner: int) -> np.ndarray:
    """Columns: all lowest, all highest, alternating, and something ordinary."""
    alternating = np.where(np.arange(inner) % 2 == 0, NEARLY_ONE, -NEARLY_ONE)
    ordinary = np.sin(np.arange(inner) + 1.0) * NEARLY_ONE
    return np.stack([np.full(inner, -NEARLY_ONE), np.full(inner, NEARLY_ONE), alternating, ordinary], axis=1)


def dense(folder: Path, inner: int, bits: tuple[int, int, int], shift: int) -> Program:
    """x (exponent 0) times weights of almost 1, rescaled by `shift`. bits: of x, weights, result."""
    x_bits, w_bits, y_bits = bits
    formats = {"x": Fixed(x_bits, 0), "w": Fixed(w_bits, 1 - w_bits), "y": Fixed(y_bits, shift + 1 - w_bits)}
    return formatted(folder, [node("MatMul", "x w", "y")], (1, inner), formats, w=worst_weights(inner))


def dense_bias(folder: Path, inner: int, bits: tuple[int, int, int], shift: int, bias_shift: int) -> Program:
    x_bits, w_bits, y_bits = bits
    formats = {"x": Fixed(x_bits, 0), "w": Fixed(w_bits, 1 - w_bits), "y": Fixed(y_bits, shift + 1 - w_bits)}
    bias = np.array([-1.0, 1.0, 0.3, -0.6]) * NEARLY_ONE * 2.0 ** (1 - w_bits + bias_shift + 15)
    program = formatted(
        folder, [node("Gemm", "x w b", "y")], (1, inner), formats, w=worst_weights(inner), b=bias.astype(np.float32)
    )
    op = next(walk(program.body))
    assert op.params["bias_shift"] == bias_shift
    return program


def sums(folder: Path, op: str, bits: tuple[int, int, int], exponents: tuple[int, int, int]) -> Program:
    """x and a constant of exponents far apart."""
    x_bits, w_bits, y_bits = bits
    x_exp, w_exp, y_exp = exponents
    w = np.array([-1, 1, -0.37, 0.01]) * NEARLY_ONE * 2.0 ** (w_exp + w_bits - 1)
    formats = {"x": Fixed(x_bits, x_exp), "w": Fixed(w_bits, w_exp), "y": Fixed(y_bits, y_exp)}
    return formatted(folder, [node(op, "x w", "y")], (3, 4), formats, w=w.astype(np.float32))


def product(folder: Path, inner: int, bits: tuple[int, int], shift: int) -> Program:
    """x times itself as a matrix: two run-time operands."""
    nodes = [node("Reshape", "x a_shape", "a"), node("Reshape", "x b_shape", "b"), node("MatMul", "a b", "y")]
    same = Fixed(bits[0], 0)
    formats = {"x": same, "a": same, "b": same, "y": Fixed(bits[1], shift)}
    shapes = {"a_shape": [2, inner], "b_shape": [inner, 2]}
    return formatted(folder, nodes, (1, 2 * inner), formats, **shapes)


def squares(folder: Path, bits: tuple[int, int], shift: int) -> Program:
    return formatted(folder, [node("Mul", "x x", "y")], (1, 6), {"x": Fixed(bits[0], 0), "y": Fixed(bits[1], shift)})


def unary(folder: Path, op: str, x: Fixed, y: Fixed, count: int = 12) -> Program:
    return formatted(folder, [node(op, "x", "y")], (1, count), {"x": x, "y": y})


def board_programs(folder: Path) -> dict[str, Program]:
    """What the boards run: each accumulator class and each of its ends, in little flash."""
    made: dict[str, Program] = {}
    for inner, bits, shift in [
        (2, (16, 16, 16), 15),  # 32 bits and a little more
        (60, (16, 16, 16), 30),  # rounding in the byte above the lowest 32 bits
        (60, (16, 16, 16), 8),
        (60, (16, 16, 8), 36),
        (200, (16, 16, 16), 21),  # 39 bits
        (3, (16, 16, 16), -6),  # 40 bits by the left shift, saturating
        (7, (16, 16, 16), 3),
        (60, (16, 16, 16), -20),  # 57 bits
        (1, (16, 16, 16), 38),  # the rounding addend alone is 2^37
        (1, (16, 16, 16), 45),
        (40, (8, 16, 16), 9),
        (40, (16, 8, 8), 15),
        (40, (8, 8, 8), 7),
        (5, (8, 8, 16), -30),
        (5, (8, 8, 16), -20),  # 40 bits for other pairs of widths
        (5, (8, 16, 16), -12),
        (5, (16, 8, 16), -12),
        (1, (16, 8, 8), 34),
    ]:
        made[f"dense {inner} {bits} >> {shift}"] = dense(folder, inner, bits, shift)
    for inner, bits, shift, bias_shift in [
        (20, (16, 16, 16), 18, 16),
        (20, (16, 16, 16), 30, 22),  # 39 bits, most of it bias
        (4, (16, 16, 16), 40, 40),
        (9, (8, 8, 8), 10, 3),
        (9, (8, 16, 16), 4, 0),
    ]:
        made[f"dense_bias {inner} {bits} >> {shift} bias << {bias_shift}"] = dense_bias(
            folder, inner, bits, shift, bias_shift
        )
    for inner, bits, shift in [(4, (16, 16), 17), (5, (16, 8), -24), (6, (8, 16), 3)]:
        made[f"matmul {inner} {bits} >> {shift}"] = product(folder, inner, bits, shift)
    return made


def more_board_programs(folder: Path) -> dict[str, Program]:
    """The operators without long sums."""
    made: dict[str, Program] = {}
    for op, bits, exponents in [
        ("Add", (16, 16, 16), (0, 0, 1)),
        ("Sub", (16, 16, 16), (0, 0, 0)),
        ("Sub", (16, 16, 16), (0, 14, 14)),
        ("Add", (16, 16, 16), (20, -5, 0)),  # 41 bits and more
        ("Add", (16, 8, 8), (-40, -3, -6)),
        ("Sub", (8, 16, 16), (-3, -9, -12)),
        ("Mul", (16, 8, 8), (-3, -9, -1)),
        ("Mul", (8, 8, 16), (-3, -4, -22)),
    ]:
        made[f"{op} {bits} {exponents}"] = sums(folder, op, bits, exponents)
    for bits, shift in [((16, 16), 15), ((16, 16), 0), ((16, 8), -10), ((8, 8), 7), ((16, 16), 31), ((16, 8), 33)]:
        made[f"squares {bits} >> {shift}"] = squares(folder, bits, shift)
    for x, y in [(Fixed(16, 0), Fixed(16, 1)), (Fixed(16, 0), Fixed(8, -3)), (Fixed(8, 0), Fixed(16, -25))]:
        made[f"Relu {x} {y}"] = unary(folder, "Relu", x, y)
    for op in ("Sigmoid", "Tanh"):
        for x, y in [
            (Fixed(16, -12), Fixed(16, -15)),
            (Fixed(8, -4), Fixed(8, -7)),
            (Fixed(16, -20), Fixed(16, -15)),
            (Fixed(8, 3), Fixed(16, -30)),
        ]:
            made[f"{op} {x} {y}"] = unary(folder, op, x, y, 40)
    return made


def native_programs(folder: Path) -> dict[str, Program]:
    """Every accumulator width from narrow to 63 bits, and every pair of storage widths."""
    made = {}
    for x_bits in (8, 16):
        for w_bits in (8, 16):
            for y_bits in (8, 16):
                for inner, shift in [(1, 0), (1, -12), (13, 5), (13, -28), (130, 14), (3, 50), (2, 61)]:
                    bits = (x_bits, w_bits, y_bits)
                    made[f"dense {inner} {bits} >> {shift}"] = dense(folder, inner, bits, shift)
    for total in range(33, 63):  # one product: 31 bits, so a left shift gives any width
        made[f"dense to {total} bits"] = dense(folder, 1, (16, 16, 16), 31 - total)
        assert next(walk(made[f"dense to {total} bits"].body)).accumulator_bits in (total, total + 1)
    for op in ("Sigmoid", "Tanh"):
        for x_exponent in (-40, -16, -15, -11, -9, -5, -1, 0, 4, 9):
            for y in (Fixed(16, -15), Fixed(16, -14), Fixed(8, -7), Fixed(16, -31), Fixed(16, 3)):
                for x_bits in (8, 16):
                    x = Fixed(x_bits, x_exponent)
                    made[f"{op} {x} {y}"] = unary(folder, op, x, y, 64)
    return made


def every_shift_of_32_bits(folder: Path) -> dict[str, Program]:
    """Each distance by which a sum is rescaled: the AVR treats every one in its own way."""
    made = {f"32 bits >> {shift}": dense(folder, 1, (16, 16, 16), shift) for shift in range(31)}
    made["32 bits >> 31"] = dense(folder, 1, (8, 16, 16), 31)
    assert all(next(walk(program.body)).accumulator_bits <= 32 for program in made.values())
    return made


def every_shift_of_40_bits(folder: Path) -> dict[str, Program]:
    made = {f"40 bits >> {shift}": dense(folder, 4, (16, 16, 16), shift) for shift in range(40)}
    assert all(32 < next(walk(program.body)).accumulator_bits <= 40 for program in made.values())
    return made


def every_table_position(folder: Path) -> dict[str, Program]:
    """Each way of finding the place in the table: bits dropped, kept below the point, or lifted."""
    return {
        f"{op} {exponent}": unary(folder, op, Fixed(16, exponent), Fixed(16, -15 + exponent % 3), 10)
        for exponent in range(-34, 6)
        for op in (("Sigmoid", "Tanh") if -18 <= exponent <= -4 else ("Sigmoid",))
    }


def every_length(folder: Path) -> dict[str, Program]:
    """Sums of different lengths, short and beyond a byte's count, for each pair of widths."""
    return {
        f"{inner} terms of {bits}": dense(folder, inner, bits, 12)
        for inner, widths in {
            1: ((8, 8, 8), (8, 16, 16), (16, 8, 16)),
            2: ((8, 8, 16), (16, 8, 8)),
            3: ((8, 8, 8), (8, 16, 8), (16, 16, 8)),
            7: ((8, 8, 8), (8, 16, 16), (16, 8, 16), (16, 16, 16)),
            255: ((8, 8, 16),),
            256: ((8, 8, 8),),
            257: ((16, 8, 16), (8, 16, 16)),
            300: ((16, 16, 16),),
        }.items()
        for bits in widths
    }


def at_the_end_of_40_bits(folder: Path) -> dict[str, Program]:
    """511 products of -32768 by itself are the most that 40 bits hold; two more take 64."""
    made = {f"{inner} terms": dense(folder, inner, (16, 16, 16), 25) for inner in (511, 513)}
    assert [next(walk(program.body)).accumulator_bits for program in made.values()] == [40, 41]
    return made


def as_cases(programs: Mapping[str, Program], random_rows: int = 3) -> list[Case]:
    return [
        Case(name, program, extreme_inputs(program, index, random_rows))
        for index, (name, program) in enumerate(programs.items())
    ]


@pytest.mark.parametrize("programs", [board_programs, more_board_programs, native_programs], ids=lambda f: f.__name__)
def test_edges_natively(programs: Any, tmp_path: Path) -> None:
    cases = as_cases(programs(tmp_path))
    assert first_difference(cases, run_natively(cases, tmp_path, *UNDEFINED)) == ""


def test_edges_saturate_and_do_not(tmp_path: Path) -> None:
    """The edge cases reach what they are for."""
    programs = board_programs(tmp_path)
    widths = [next(walk(program.body)).accumulator_bits for program in programs.values()]
    assert sum(bits <= 32 for bits in widths) >= 3
    assert sum(32 < bits <= 40 for bits in widths) >= 6
    assert sum(40 < bits <= 63 for bits in widths) >= 4
    products = [np.abs(values).max() for p in programs.values() for values in p.constants.values()]
    assert 32768 in products


def loop_cases(name: str, folder: Path) -> list[Case]:
    """One loop at 8 bits, at 16, and mixed."""
    loaded = load(SCANS[name](), folder)
    x = np.random.default_rng(5).normal(size=(6, *loaded.shapes[loaded.inputs[0]])).astype(np.float32)
    observed = calibrate(loaded, x, {})
    groups = tied_values(loaded)
    cases = []
    for seed, default in enumerate(["fixed8", "fixed16", "mixed", "mixed the other way"]):
        mix = {group[0]: "fixed8" for group in groups[seed % 2 :: 2]} if seed > 1 else {}
        program = lower(loaded, Assignment("fixed16" if mix else default, mix), observed)
        cases.append(Case(f"{name} {default}", program, extreme_inputs(program, seed)))
    return cases


def test_loops_natively(tmp_path: Path) -> None:
    cases = [case for name in SCANS for case in loop_cases(name, tmp_path)]
    assert first_difference(cases, run_natively(cases, tmp_path, *UNDEFINED)) == ""


# ---- the boards


def recurrent(folder: Path) -> Program:
    """A gated cell in mixed widths."""
    body = cell(
        [
            node("MatMul", "h U", "hu"),
            node("MatMul", "x_t W", "xw"),
            node("Add", "hu xw", "s"),
            node("Sigmoid", "s", "z"),
            node("Tanh", "s", "c"),
            node("Sub", "one z", "k"),
            node("Mul", "k c", "kc"),
            node("Mul", "z h", "zh"),
            node("Add", "kc zh", "h_next"),
        ]
    )
    constants = {"U": U, "W": W, "h0": np.zeros((1, HIDDEN)), "one": 1.0, "three": [5, 1, 3], "R": U}
    nodes = [node("Reshape", "x three", "q"), scan("h0 q", "h_n", body), node("MatMul", "h_n R", "y")]
    loaded = load(model(onnx_graph(nodes, {"x": (1, 15)}, "y", constants)), folder)
    x = np.random.default_rng(3).normal(size=(20, 1, 15)).astype(np.float32)
    mix = {"W": "fixed8", "z": "fixed8", "kc": "fixed8", "y": "fixed8"}
    return lower(loaded, Assignment("fixed16", mix), calibrate(loaded, x, {}))


@pytest.mark.parametrize("board", each(EVERY))
def test_long_sums_on_boards(board: str, build_cache: Path, tmp_path: Path) -> None:
    cases = as_cases(board_programs(tmp_path), random_rows=2)
    results = run_on_board(cases, load_boards().board(board), build_cache)
    assert first_difference(cases, results) == ""


@pytest.mark.parametrize("board", each(EVERY))
def test_other_operators_on_boards(board: str, build_cache: Path, tmp_path: Path) -> None:
    cases = as_cases({**more_board_programs(tmp_path), "recurrent": recurrent(tmp_path)}, random_rows=2)
    results = run_on_board(cases, load_boards().board(board), build_cache)
    assert first_difference(cases, results) == ""


@pytest.mark.parametrize(
    "programs",
    [every_shift_of_32_bits, every_shift_of_40_bits, every_table_position, every_length, at_the_end_of_40_bits],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("board", each(EMULATED))
def test_every_variant_on_boards(board: str, programs: Any, build_cache: Path, tmp_path: Path) -> None:
    cases = as_cases(programs(tmp_path), random_rows=0 if programs in (every_length, at_the_end_of_40_bits) else 2)
    results = run_on_board(cases, load_boards().board(board), build_cache)
    assert first_difference(cases, results) == ""


def test_a_wrong_result_would_be_found(tmp_path: Path) -> None:
    """The comparison itself: an operation with another shift gives a difference, and a saturation more does too."""
    case = as_cases({"squares": squares(tmp_path, (16, 16), 15)})[0]
    op = next(walk(case.program.body))
    other = replace(op, params={**op.params, "shift": 16})
    results = run_natively([replace(case, program=replace(case.program, body=(other,)))], tmp_path, "-O0")
    assert "outputs of sample 0" in first_difference([case], results)
    right = run_natively([case], tmp_path, "-O0")
    right.saturations[0][2] += 1
    assert "saturations of sample 2" in first_difference([case], right)


def test_undefined_behaviour_fails_a_native_run_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text("int main(int count, char **) { return count + 0x7fffffff == 7; }\n")
    with pytest.raises(AssertionError, match="signed integer overflow"):
        output_of(("main.cpp",), tmp_path, *UNDEFINED)


def test_ends_of_activations(tmp_path: Path) -> None:
    """Ends of -128 and 127 above and below others, such as a Relu has whose zero point is not the least code."""
    output_of((str(FIRMWARE / "ends.cpp"),), tmp_path, *UNDEFINED)
