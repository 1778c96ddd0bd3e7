"""Two products in one exact sum: what is fused, and the blocks of every core against the reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.formats.affine import Affine
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.form import Joined
from tinyhil.language.program import Program, walk
from tinyhil.passes.arrange import arrange
from tinyhil.references.reference import run_reference

CORES = {"uno": "avr", "due": "cortex-m3", "h747": "cortex-m7"}
SIZES = [(9, 12, 16), (3, 2, 6), (8, 8, 9), (5, 1, 13)]  # elements of either row, outputs


def rnd(*shape: int, scale: float) -> np.ndarray:
    return samples_for(shape, 1, sum(shape), scale)[0]


def pair(
    folder: Path,
    sizes: tuple[int, int, int],
    default: str = "fixed8",
    scales: tuple[float, float] = (0.3, 0.9),
    **given: Any,
) -> Program:
    """x W + f(x P) U, with a bias and an activation if asked for."""
    inner, more, outputs = sizes
    bias, end = given.get("bias", False), given.get("end", "")
    function, middle = given.get("function", "Tanh"), "z" if end else "y"
    nodes = [node("MatMul", "x p", "s"), node(function, "s", "t"), node("MatMul", "t u", "n")]
    nodes += [node("Gemm", "x w b", "m") if bias else node("MatMul", "x w", "m"), node("Add", "m n", middle)]
    constants = {"w": rnd(inner, outputs, scale=scales[0]), "u": rnd(more, outputs, scale=scales[1])}
    constants |= {"p": rnd(inner, more, scale=0.7)} | ({"b": rnd(outputs, scale=1.0)} if bias else {})
    nodes += [node(end, "z", "y")] if end else []
    return compiled(load(simple(nodes, {"x": (2, inner)}, constants), folder), samples_for((2, inner)), default)


def kernels(program: Program) -> list[str]:
    return [name_of(op.kernel) for op in walk(program.body)]


@pytest.mark.parametrize("default", ["fixed8", "fixed6", "fixed16"])
def test_one_rounding(default: str, tmp_path: Path) -> None:
    program = pair(tmp_path, SIZES[0], default, bias=True)
    assert kernels(program) == ["dense", "tanh", "dense_bias_pair"]
    lifts = {pair(tmp_path, SIZES[0], default, (a, 0.9)).body[-1].params["lift"] for a in (0.01, 0.9, 30.0)}  # type: ignore[union-attr]
    assert len(lifts) > 1


@pytest.mark.parametrize(
    ("default", "scales"),
    [("int16x8", (0.3, 0.3)), ("posit8es2", (0.3, 0.3)), ("fixed8pc", (0.3, 0.3)), ("fixed8", (0.001, 30))],
)
def test_what_stays_apart(default: str, scales: tuple[float, float], tmp_path: Path) -> None:
    assert not [name for name in kernels(pair(tmp_path, SIZES[0], default, scales)) if "pair" in name]


@pytest.mark.parametrize("stated", ["m", "n", "w", "u"])
def test_stated_scales_stay(stated: str, tmp_path: Path) -> None:
    """Of a quantized model every product is rounded as TensorFlow Lite rounds it."""
    nodes = [node("MatMul", "x w", "m"), node("MatMul", "x u", "n"), node("Add", "m n", "y")]
    constants = {"w": rnd(9, 12, scale=0.3), "u": rnd(9, 12, scale=0.9)}
    loaded, samples = load(simple(nodes, {"x": (1, 9)}, constants), tmp_path), samples_for((1, 9))
    assert kernels(compiled(loaded, samples, "int8")) == ["dense_affine_pair"]
    if stated in constants:
        loaded = replace(loaded, steps={stated: np.full((9, 12), 1 / 64, np.float32)})
    else:
        loaded = replace(loaded, pinned={stated: Affine(8, 0.043, -7)})
    assert kernels(compiled(loaded, samples, "int8")) == ["dense_affine", "dense_affine", "sum_affine"]


def test_large_operands_die_before_the_sum(tmp_path: Path) -> None:
    assert "dense_pair" not in kernels(pair(tmp_path, (9, 40, 16)))
    assert "dense_pair" in kernels(pair(tmp_path, (40, 9, 16)))


def test_both_are_arranged_or_none(tmp_path: Path) -> None:
    for core, blocks in (("avr", 2), ("cortex-m3", 2), ("cortex-m7", 2), ("host", 0)):
        arranged = arrange(pair(tmp_path, SIZES[0]), core)
        op = next(op for op in walk(arranged.body) if op.kernel.joined is Joined.PAIR)
        assert sum(arranged.tensors[name].blocks is not None for name in op.inputs) == blocks
    mixed = compiled_mixed(tmp_path)
    op = next(op for op in walk(mixed.body) if op.kernel.joined is Joined.PAIR)
    assert not any(mixed.tensors[name].blocks for name in op.inputs)


def compiled_mixed(folder: Path) -> Program:
    nodes = [node("Tanh", "x", "t"), node("MatMul", "t u", "n"), node("MatMul", "x w", "m"), node("Add", "m n", "y")]
    constants = {"w": rnd(9, 12, scale=0.3), "u": rnd(9, 12, scale=0.5)}
    loaded = load(simple(nodes, {"x": (1, 9)}, constants), folder)
    return arrange(compiled(loaded, samples_for((1, 9)), "fixed8", w="fixed16"), "cortex-m7")


def cases(folder: Path, core: str) -> list[Case]:
    found = []
    for number, sizes in enumerate(SIZES):
        end, function = ("", "Relu")[number % 2], ("Tanh", "Relu", "Sigmoid")[number % 3]
        for default in ("fixed8", "int8", "fixed16")[: 2 + (number == 1)]:
            program = pair(
                folder, sizes, default, (1.5, 0.3 + number), bias=number % 2 == 1, end=end, function=function
            )
            arranged, inputs = arrange(program, core), extreme_inputs(program, number, 2)
            assert np.array_equal(run_reference(arranged, inputs).outputs, run_reference(program, inputs).outputs)
            found.append(Case(f"{sizes} {default} {core}", arranged, inputs))
    return found


def test_natively_with_sanitizers(tmp_path: Path) -> None:
    made = [*cases(tmp_path, "cortex-m3"), *cases(tmp_path, "cortex-m7")]
    assert first_difference(made, run_natively(made, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("board", ["uno", *(pytest.param(name, marks=pytest.mark.slow) for name in ("due", "h747"))])
def test_on_boards(board: str, tmp_path: Path) -> None:
    made = cases(tmp_path, CORES[board])
    assert first_difference(made, run_on_board(made, load_boards().board(board), tmp_path)) == ""
