"""Windows read in place: no patch, the same integers, in whole layers, rows and strips, on every kind of core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from arena_machine import Arena, compiled_cases
from kernel_cases import SANITIZED, first_difference, run_natively, run_on_board
from onnx_models import node, simple
from test_rows import inputs_of, program_of
from test_rows_strips import planned, striped

import tinyhil
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.form import Arithmetic
from tinyhil.language.program import Program, walk
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.windows_in_place import may_read_in_place, read_in_place, weights_of
from tinyhil.passes.arrange import arrange
from tinyhil.references.reference import run_reference
from tinyhil.references.verify import checked

FORMATS = ("fixed8", "int8", "fixed16")


def without_patches(program: Program) -> Program:
    """Every convolution that can read its windows in place does."""
    layers = {weights_of(op) for op in walk(program.body) if may_read_in_place(program, op)}
    assert layers
    return checked(read_in_place(program, layers), "windows in place")


def made(name: str, default: str, folder: Path, core: str | None) -> list[tuple[Placement, np.ndarray]]:
    """Layer by layer and in two strips, as plans without patches, with the inputs."""
    lowered = program_of(name, folder, default)
    program = lowered if core is None else arrange(lowered, core)
    inputs = inputs_of(lowered, 3)
    whole = (program, striped(program, 0, 2))
    return [(planned(without_patches(one)), inputs) for one in whole if one is not None]


@pytest.mark.parametrize(
    ("name", "default", "core"),
    [
        ("digits", "int8", None),
        ("digits", "int8", "avr"),
        ("residual", "int8", "cortex-m7"),
        ("fire", "fixed8", "cortex-m7"),
    ],
)
def test_the_same_integers(name: str, default: str, core: str | None, tmp_path: Path) -> None:
    """In numpy, and on the bytes of a plan; of asymmetric layers no records are left."""
    wanted = run_reference(lowered := program_of(name, tmp_path, default), inputs_of(lowered, 3)).outputs
    for placed, inputs in made(name, default, tmp_path, core):
        convolutions = [op for op in walk(placed.program.body) if op.kernel.base == "conv"]
        left = [op for op in convolutions if op.scratch or op.kernel.arithmetic is Arithmetic.RESCALED]
        assert all(op.params["groups"] == op.params["outputs"] > 1 for op in left)
        assert np.array_equal(run_reference(placed.program, inputs).outputs, wanted)
        machine = Arena(placed)
        assert np.array_equal([machine.run(sample) for sample in inputs], wanted)


def cases_of(
    folder: Path, core: str | None, name: str, formats: Sequence[str]
) -> tuple[list[Placement], list[np.ndarray]]:
    found = [one for default in formats for one in made(name, default, folder, core)]
    return [placed for placed, _ in found], [inputs for _, inputs in found]


@pytest.mark.parametrize("name", ["odd", "residual"])
def test_natively_with_sanitizers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = compiled_cases(*cases_of(tmp_path, None, name, FORMATS), monkeypatch)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize(
    ("board", "name", "formats"),
    [
        ("uno", "digits", FORMATS[:1]),
        ("uno", "digits", FORMATS[1:2]),
        ("h747", "residual", FORMATS),
        ("due", "fire", FORMATS),
    ],
)
def test_on_boards(
    board: str, name: str, formats: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_boards().board(board)
    cases = compiled_cases(*cases_of(tmp_path, spec.chip.core, name, formats), monkeypatch)
    assert first_difference(cases, run_on_board(cases, spec, tmp_path / "cache")) == ""


@pytest.mark.parametrize(("board", "default"), [("nucleo_g0b1", "fixed8"), ("h747", "int8")])
def test_a_convolution_of_one_row_needs_no_patch_either(board: str, default: str, tmp_path: Path) -> None:
    """Of a signal, where nothing can go by rows: the least RAM has none, and the board gives the same integers."""
    random = np.random.default_rng(3)
    weights = {"w": random.normal(0, 0.3, (6, 3, 5)), "v": random.normal(0, 0.3, (48, 4))}
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("MaxPool", "r", "m", kernel_shape=[2], strides=[2])]
    nodes += [node("Flatten", "m", "f"), node("MatMul", "f v", "y")]
    x = random.normal(size=(12, 3, 20)).astype(np.float32)
    model = tinyhil.load(simple(nodes, {"x": (1, 3, 20)}, weights)).calibrate(x)
    fast, least = (model.run(board, x[:4], formats=default, prefer=prefer) for prefer in ("latency", "least"))
    assert least.bit_exact
    assert least.raw["outputs"] == fast.raw["outputs"]
    assert least.memory["arena_bytes"] <= 160 < fast.memory["arena_bytes"]
