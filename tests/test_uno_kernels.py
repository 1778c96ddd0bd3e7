"""Kernels of the ATmega: assembler against its portable forms in C++, layers of interleaved weights against numpy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from kernel_cases import Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs
from test_arm_kernels import FORMATS, convolutions, matrices, often_zero, program_of, residual
from uno_bench import build_firmware, run_to_end

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate, load_ranges, save_ranges
from tinyhil.compiler.lower import lower
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import walk
from tinyhil.passes.arrange import arrange
from tinyhil.references.reference import run_reference


@pytest.mark.parametrize("speed", ["-O2", "-Os"])
def test_assembler_computes_what_its_portable_forms_do(speed: str, tmp_path: Path) -> None:
    lines, _ = run_to_end(build_firmware(tmp_path, "rows", speed))
    assert lines == [" 0 0 0 0 0 0 0 0 0 0 0"]


def cases(folder: Path, zeros: bool = False) -> list[Case]:
    """Layers in the formats in turn, as the Uno has them."""
    found = []
    for number, (name, chain) in enumerate((*matrices(), ("residual", residual()), *list(convolutions())[::6])):
        default = FORMATS[number % len(FORMATS)]
        program = program_of(chain, folder, default)
        if zeros:  # by kernels that leave out the products of zeros
            program = often_zero(program)
        found.append(Case(f"{name} {default}", arrange(program, "avr"), extreme_inputs(program, number)))
    return found


@pytest.mark.parametrize("part", [0, 1])  # one image has no room for all
def test_layers_of_interleaved_weights_on_the_uno(part: int, tmp_path: Path) -> None:
    found = cases(tmp_path)[part::2]
    interleaved = [case for case in found if any(t.blocks for t in case.program.tensors.values())]
    assert len(interleaved) > len(found) // 2
    assert first_difference(found, run_on_board(found, load_boards().board("uno"), tmp_path / "cache")) == ""


def test_layers_without_the_products_of_zeros(tmp_path: Path) -> None:
    found = cases(tmp_path, zeros=True)[::4]
    assert sum(any(t.blocks and t.blocks.left_out == 0 for t in case.program.tensors.values()) for case in found) > 1
    assert first_difference(found, run_on_board(found, load_boards().board("uno"), tmp_path / "cache")) == ""


def test_asymmetric_layers_without_the_products_of_zeros(tmp_path: Path) -> None:
    """Numbers that are never negative: the code of 0 is -128, and what others are above it a byte without a sign."""
    found, mixed = [], 0
    for number, (name, chain) in enumerate([*matrices(), *convolutions()][::5]):
        loaded = load(chain.model(), tmp_path)
        program = compiled(loaded, np.abs(samples_for(loaded.shapes["x"])), "int8")
        x = replace(program.tensors[program.input], zeros=0.5)
        arranged = arrange(replace(program, tensors={**program.tensors, x.name: x}), "avr")
        left_out = {t.blocks.left_out for t in arranged.tensors.values() if t.blocks}
        if -128 in left_out:
            mixed += any(t.blocks and t.blocks.axes[0] % 4 for t in arranged.tensors.values())
            found.append(Case(name, arranged, extreme_inputs(program, number)))
    assert len(found) > 2
    assert mixed  # biases of the last rows contain the zero point
    assert first_difference(found, run_on_board(found, load_boards().board("uno"), tmp_path / "cache")) == ""


SLOPES = (("Neg", None), ("Abs", None), *(("LeakyRelu", alpha) for alpha in (0.2, -0.3, 1.7, -2.5, -1e-9, 0.0)))


@pytest.mark.parametrize("default", ["int8", "int16x8"])
def test_slopes_of_either_sign(default: str, tmp_path: Path) -> None:
    """An ATmega's multipliers have no sign: what is below zero must not be taken for something large."""
    codes = np.linspace(-128, 127, 512).astype(np.int64).reshape(16, 32)
    if default == "int16x8":
        codes = codes * 256 + np.arange(32)
    found, x = [], samples_for((1, 32))
    for op, alpha in SLOPES:
        proto = simple([node(op, "x", "y", **({} if alpha is None else {"alpha": alpha}))], {"x": (1, 32)}, {})
        program = compiled(load(proto, tmp_path), x, default)
        assert [name_of(each.kernel) for each in walk(program.body)] == ["slopes_affine"]
        found.append(Case(f"{op} {alpha}", program, codes))
    assert first_difference(found, run_natively(found, tmp_path)) == ""
    assert first_difference(found, run_on_board(found, load_boards().board("uno"), tmp_path / "cache")) == ""


@pytest.mark.parametrize("inner", [9, 256, 600])
def test_sums_of_words_times_bytes_exceed_no_part_of_them(inner: int, tmp_path: Path) -> None:
    """The largest products that there are, of one sign and of both, beside a bias: 32 bits hold 256 of them."""
    weights = np.array([[1.0] * inner, [-1.0] * inner, np.resize([1.0, -1.0], inner)], np.float32).T
    constants = {"W": weights, "b": np.array([0.5, -3.0, 0.0], np.float32)}
    program = compiled(load(simple([node("Gemm", "x W b", "y")], {"x": (1, inner)}, constants), tmp_path),
                       samples_for((1, inner)), "int16x8")  # fmt: skip
    op = next(iter(walk(program.body)))
    assert name_of(op.kernel) == "dense_affine"
    assert 32 < op.accumulator_bits <= 40
    codes = np.stack([np.full(inner, -32768), np.full(inner, 32767), np.arange(inner) - inner // 2])
    found = [Case(f"{inner} products", program, codes.astype(np.int64))]
    assert first_difference(found, run_natively(found, tmp_path)) == ""
    assert first_difference(found, run_on_board(found, load_boards().board("uno"), tmp_path / "cache")) == ""


def distances_and_lists(default: str) -> onnx.ModelProto:
    """A projection that is mostly zeros, distances to prototypes, and their exponential."""
    rng = np.random.default_rng(3)
    projection = np.where(rng.random((40, 9)) < 0.2, rng.normal(size=(40, 9)), 0).astype(np.float32)
    projection[:, 4] = 0
    prototypes = rng.normal(size=(7, 9)).astype(np.float32)
    constants = {"P": projection, "b": np.linspace(-1, 1, 9, dtype=np.float32), "B": prototypes, "axes": np.array([1])}
    after = "Relu" if default == "fixed6" else "Identity"
    nodes = [
        node("Gemm", "x P b", "z"), node(after, "z", "r"), node("Sub", "r B", "d"), node("Mul", "d d", "q"),
        node("ReduceSum", "q axes", "s", keepdims=0), node("Neg", "s", "n"), node("Exp", "n", "y"),
    ]  # fmt: skip
    return simple(nodes, {"x": (1, 40)}, constants)


@pytest.mark.parametrize("default", ["fixed8", "fixed6", "fixed16"])
def test_distances_and_streams_of_sparse_weights(default: str, tmp_path: Path) -> None:
    loaded = load(distances_and_lists(default), tmp_path)
    program = compiled(loaded, samples_for((1, 40)), default)
    arranged = arrange(program, "avr")
    kernels = {name_of(op.kernel) for op in walk(arranged.body)}
    assert "squared_distance" in kernels
    assert ("stream_dense_bias" in kernels) == (default in ("fixed8", "fixed16"))
    inputs = extreme_inputs(program, 5)
    assert np.array_equal(run_reference(program, inputs).outputs, run_reference(arranged, inputs).outputs)
    found = [Case(default, arranged, inputs)]
    assert first_difference(found, run_natively(found, tmp_path)) == ""
    assert first_difference(found, run_on_board(found, load_boards().board("uno"), tmp_path / "cache")) == ""


@pytest.mark.parametrize(("zeros", "sparse"), [(0.0, [False, True]), (0.05, [False, True]), (0.5, [True, True])])
def test_a_layer_skips_zeros_where_there_were_enough(zeros: float, sparse: list[bool], tmp_path: Path) -> None:
    """Behind a ReLU of random sums about half of the elements are 0."""
    rng = np.random.default_rng(1)
    first, second = (rng.normal(size=shape).astype(np.float32) for shape in ((16, 12), (12, 8)))
    nodes = [node("MatMul", "x first", "h"), node("Relu", "h", "r"), node("MatMul", "r second", "y")]
    graph = load(simple(nodes, {"x": (1, 16)}, {"first": first, "second": second}), tmp_path)
    x = np.where(rng.random((50, 16)) < zeros, 0, rng.normal(size=(50, 16))).astype(np.float32)
    ranges = calibrate(graph, x, {"name": "test"})
    save_ranges(tmp_path / "ranges.json", ranges, "0")
    assert load_ranges(tmp_path / "ranges.json", "0").zeros == ranges.zeros
    assert ranges.zeros.get("x", 0) == pytest.approx(zeros, abs=0.03)
    program = arrange(lower(graph, Assignment("fixed8"), ranges), "avr")
    layers = [op for op in walk(program.body) if op.kernel.base == "dense"]
    blocks = [program.tensors[op.inputs[0]].blocks for op in layers]
    assert [one.left_out == 0 for one in blocks if one is not None] == sparse
