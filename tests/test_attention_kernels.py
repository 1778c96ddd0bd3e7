"""Attention on ARM cores: products of computed matrices, softmax, normalisation of rows, dense layers of several rows.

Integers decide what is defined in single precision. Scales that are powers of two make exact ties; ratios of scales
that are, but for the rounding of each, halves make results that floats round by chance: there integers must not
decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, node, samples_for, simple
from random_models import extreme_inputs
from test_arm_kernels import dense

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.formats.affine import Affine
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Program, Role, walk
from tinyhil.passes.arrange import arrange
from tinyhil.passes.decided import exponentials
from tinyhil.references.reference import run_reference

CORE = "cortex-m7"
FORMATS = ("int8", "fixed8", "fixed16")
SIZES = ((8, 8), (5, 9), (2, 11), (7, 34), (13, 16), (1, 10))  # rows, elements: every rest of two rows and of four
SCALES = ((0.1, 0), (0.02, 3), (0.05, -128), (0.4, 11), (0.3, 0), (0.25, 1))


def attention(rows: int, inner: int, centre: bool = True) -> list:
    """Rows against each other, softmax, the mixed rows normalised; `centre`: less their mean."""
    mixed = [
        node("Transpose", "x", "t", perm=[0, 2, 1]),
        node("MatMul", "x t", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p x", "m"),
        node("Add", "m x", "r"),
    ]
    if centre:
        return [*mixed, node("LayerNormalization", "r scale", "y", axis=-1)]
    return [*mixed, *rms("r", "y")]


def rms(x: str, y: str) -> list:
    """RMSNorm as exporters write it."""
    return [
        node("Pow", f"{x} two", "q"),
        node("ReduceMean", "q", "n", axes=[-1], keepdims=1),
        node("Add", "n epsilon", "e"),
        node("Sqrt", "e", "root"),
        node("Div", f"{x} root", "d"),
        node("Mul", "d scale", y),
    ]


def gelu(x: str, y: str) -> list:
    """x * (erf(x / sqrt(2)) + 1) / 2 as exporters write it."""
    return [
        node("Mul", f"{x} slope", "scaled"),
        node("Erf", "scaled", "erf"),
        node("Add", "erf one", "above"),
        node("Mul", f"{x} half", "halved"),
        node("Mul", "halved above", y),
    ]


def program_of(nodes: list, shape: tuple[int, ...], fmt: str, folder: Path, scale: float = 1.0) -> Program:
    constants = {"scale": np.ones(shape[-1]), "two": np.float32(2), "epsilon": np.float32(1e-5)}
    constants |= {"slope": np.float32(0.5**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    constants |= {
        "gains": np.where(np.arange(shape[-1]) % 2, 1.0, 0.5),
        "shifts": np.arange(shape[-1]) / 64 - 0.25,
        "zeros": np.zeros(shape[-1]),
    }
    used = {name for one in nodes for name in one.input}
    given = {name: value for name, value in constants.items() if name in used}
    loaded = load(simple(nodes, {"x": shape}, given), folder)
    return compiled(loaded, samples_for(loaded.shapes["x"], scale=scale), fmt)


def on_grids(program: Program, number: int) -> Program:
    """`program` with the scales and zero points of its computed bytes in turn from SCALES."""
    tensors = dict(program.tensors)
    for at, (name, tensor) in enumerate(tensors.items()):
        if isinstance(tensor.format, Affine) and tensor.role not in (Role.CONSTANT, Role.TABLE):
            scale, zero = SCALES[(at + number) % len(SCALES)]
            tensors[name] = replace(tensor, format=Affine(8, float(np.float32(scale)), zero))
    return replace(program, tensors=tensors)


def random_codes(program: Program, number: int) -> np.ndarray:
    """Codes in a narrow band, whose results hang close together, beside extreme ones."""
    found = extreme_inputs(program, number)
    random = np.random.default_rng(number)
    narrow = random.integers(-9, 10, (8, *found.shape[1:]))
    alike = random.integers(-100, 100, (4, 1)) + np.zeros_like(narrow[:4])
    signs = alike // 2 * (-1) ** np.arange(found.shape[1])
    return np.concatenate([found, narrow, narrow * 5 + 40, alike, signs]).astype(found.dtype)


def halved(scale: float, core: str, folder: Path) -> Case:
    """Softmax of rows whose exponentials are, but for rounding, 1, 1/2, 1/4, .. and the last one twice, in all 2."""
    program = program_of([node("Softmax", "x", "y", axis=-1)], (1, 4, 8), "int8", folder)
    formats = {"x": Affine(8, float(np.float32(np.log(2) / 4)), 5), "y": Affine(8, float(np.float32(scale)), -128)}
    tensors = {name: replace(one, format=formats.get(name, one.format)) for name, one in program.tensors.items()}
    random, steps = np.random.default_rng(1), np.array([0, 1, 2, 3, 4, 5, 6, 6])
    rows = np.stack([random.integers(0, 100) - 4 * random.permutation(steps) for _ in range(4 * 60)])
    return Case(f"halves {scale}", arrange(replace(program, tensors=tensors), core), rows.reshape(60, -1))


def functions(core: str, folder: Path) -> Iterator[Case]:
    """What is one table or one form of bytes, of more elements than a table has entries."""
    alone = {
        "gelu": gelu("x", "y"),
        "softmax by table": [node("Softmax", "x", "y", axis=-1)],
        "one form": [node("LayerNormalization", "x scale zeros", "y", axis=-1)],
        "two forms": [node("LayerNormalization", "x gains shifts", "y", axis=-1)],
    }
    for name, nodes in alone.items():
        for number, fmt in enumerate(("int8", "fixed8")):
            program = arrange(program_of(nodes, (1, 7, 40), fmt, folder, scale=(2.0, 8.0)[number]), core)
            yield Case(f"{name} {fmt}", program, extreme_inputs(program, number))
    twice = [node("Mul", "x x", "square"), node("Mul", "square square", "y")]
    program = arrange(
        program_of(twice, (1, 7, 40), "fixed8", folder, scale=1.5), core
    )  # the largest codes are clipped twice
    yield Case("clipped twice", program, extreme_inputs(program, 0))


def cases_for(core: str, folder: Path) -> Iterator[Case]:
    for number, (rows, inner) in enumerate(SIZES):
        for fmt in FORMATS:
            nodes = attention(rows, inner, centre=number % 3 != 1)
            program = arrange(program_of(nodes, (1, rows, inner), fmt, folder), core)
            yield Case(f"attention {rows} x {inner} {fmt}", program, extreme_inputs(program, number))
    alone = {
        "product": [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "y")],
        "softmax": [node("Softmax", "x", "y", axis=-1)],
        "normalize": [node("LayerNormalization", "x scale", "y", axis=-1, epsilon=1e-12)],
        "rms": rms("x", "y"),
        "pool": [node("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])],
    }
    for name, nodes in alone.items():
        for number, (rows, inner) in enumerate((*SIZES[1:5], (4, 8), (2, 20), (8, 8), (3, 10))):
            shape = (1, 1, rows, inner) if name == "pool" else (1, rows, inner)
            program = arrange(on_grids(program_of(nodes, shape, "int8", folder), number), core)
            yield Case(f"{name} {number} on grids", program, random_codes(program, number))
    yield from (halved(scale, core, folder) for scale in (0.1, 0.02))
    yield from functions(core, folder)
    for number, (inner, outputs, rows) in enumerate(((8, 8, 2), (36, 12, 5), (64, 4, 3), (16, 16, 64), (128, 80, 3))):
        for fmt in FORMATS:
            chain = dense(inner, outputs, rows, after=("", "Relu", "Clip")[number % 3])
            loaded = load(chain.model(), folder)
            program = arrange(compiled(loaded, samples_for(loaded.shapes["x"]), fmt), core)
            yield Case(f"dense {inner} x {outputs}, {rows} rows {fmt}", program, extreme_inputs(program, number))


def test_natively_with_sanitizers(tmp_path: Path) -> None:
    cases = list(cases_for(CORE, tmp_path))
    kernels = {name_of(op.kernel) for case in cases for op in walk(case.program.body)}
    assert {"softmax_decided", "single_normalize", "normalize", "softmax", "matmul", "max_pool_codes"} <= kernels
    assert {"softmax_looked_up", "code_table", "counted_table", "linear_channels"} <= kernels
    forms = [op for case in cases for op in walk(case.program.body) if name_of(op.kernel) == "linear_channels"]
    assert {op.params["steps"] for op in forms} == {1, 2}
    scratch = {op.kernel.base for case in cases for op in walk(case.program.body) if op.scratch}
    assert {"dense", "matmul"} <= scratch
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED, "-DHIL_DSP_PORTABLE")) == ""


BOARDS = [("h747", "attention"), ("nucleo_l4r5", ""), ("due", ""), ("pico", "attention")]


@pytest.mark.parametrize(("board", "first"), BOARDS)
def test_on_boards(board: str, first: str, tmp_path: Path) -> None:
    spec = load_boards().board(board)
    cases = [case for case in cases_for(spec.chip.core, tmp_path) if case.name.startswith(first)][::2]
    assert first_difference(cases, run_on_board(cases, spec, tmp_path / "cache")) == ""


def test_exponentials_end_at_one() -> None:
    table = exponentials(0.1)
    assert table.size == 256
    assert table[-1] == 1 << 30
    assert (np.diff(table) >= 0).all()
    assert table[-11] == round(np.exp(-1.0) * 2**30)


@pytest.mark.parametrize("inner", [40, 256])  # 256: as many as there are codes
def test_what_differs_from_element_to_element_is_no_table(inner: int, tmp_path: Path) -> None:
    """A factor in front of a bias of many numbers, as scores of attention and their positions have it."""
    nodes = [node("Mul", "x half", "scaled"), node("Add", "scaled shifts", "y")]
    program = program_of(nodes, (1, 7, inner), "int8", tmp_path)
    x = extreme_inputs(program, 0)
    assert np.array_equal(run_reference(arrange(program, CORE), x).outputs, run_reference(program, x).outputs)
