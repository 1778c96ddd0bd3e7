"""Weights of unsigned bytes (tinyhil/passes/raised.py): the same integers as ever, at the cost of signed ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import SANITIZED, Case, first_difference, run_natively, run_on_board
from random_models import extreme_inputs
from test_arm_kernels import PORTABLE, along, clipped, dense, often_zero, program_of, sampled, within_bytes
from test_rows import Chain

from tinyhil.formats.fixed import Fixed
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Op, Program, walk
from tinyhil.passes.arrange import arrange
from tinyhil.passes.raised import raised
from tinyhil.passes.stored import stored_bytes
from tinyhil.passes.variants import ARM

BOARDS = {"due": "cortex-m3", "h747": "cortex-m7", "nucleo_l4r5": "cortex-m4", "uno": "avr"}
ON_AN_UNO = ("dense 7 9", "dense 16 13", "dense 33 12", "dense 64 8", "1x1 4-5", "1x1 7-9", "3x3 3-4", "strided")


def networks() -> Iterator[tuple[str, Chain]]:
    """Layers of every kind: whole blocks and rests, windows at edges, rows long enough for larger blocks."""
    for inner, outputs, rows in ((1, 2, 1), (7, 9, 2), (16, 13, 3), (33, 12, 1), (64, 8, 1), (1100, 5, 1)):
        yield f"dense {inner} {outputs}", dense(inner, outputs, rows, "Relu")
    for channels, outputs, side in ((1, 2, 3), (3, 4, 5), (4, 5, 4), (7, 9, 6), (8, 8, 3), (80, 8, 3)):
        yield f"1x1 {channels}-{outputs}", clipped(Chain(channels, side).conv(outputs, 1))
    for channels, outputs, side in ((3, 4, 7), (4, 5, 4), (9, 4, 5)):
        yield f"3x3 {channels}-{outputs}", Chain(channels, side).conv(outputs, 3, pad=1).add("Relu")
    yield "strided", Chain(2, 9).conv(4, 3, stride=2, pad=1)
    yield "innermost", clipped(sampled(3, 7).conv(4, 3, stride=2, pad=1)).conv(4, 1).add("Relu").conv(8, 3, pad=1)
    for side, stride in ((3, 1), (6, 2), (11, 1)):
        yield f"depthwise {side}/{stride}", clipped(Chain(3, side).conv(3, 3, stride=stride, pad=1, group=3))
    yield "separable", clipped(clipped(Chain(3, 12).conv(8, 3, pad=1)).conv(8, 3, pad=1, group=8)).conv(8, 1)
    yield "column", along(3, 33, 8, (7, 9), is_column=True)
    yield "row", along(3, 15, 5, (2, 2), is_column=False)


def unsigned(program: Program, seed: int, least: int) -> Program:
    """`program` with weights as unsigned bytes leave them less a zero point: between `least` and `least` + 255."""
    rng = np.random.default_rng(seed)
    constants, tensors = dict(program.constants), dict(program.tensors)
    for op in layers(program):
        name, count = op.inputs[0], program.constants[op.inputs[0]].size
        codes = rng.integers(least, least + 256, count)
        codes[rng.integers(count)], codes[rng.integers(count)] = least, least + 255
        codes[-1] = least if least + 255 < 128 else least + 255
        constants[name], tensors[name] = codes, replace(tensors[name], format=Fixed(16, 0))
        constants[op.inputs[4]] = constants[op.inputs[4]] - 1  # of weights that are twice as large
    return replace(program, constants=constants, tensors=tensors)


def signed(program: Program) -> Program:
    """The same network with the bytes that stand for its weights."""
    constants, tensors = dict(program.constants), dict(program.tensors)
    for op in layers(program):
        name, above = op.inputs[0], raised(program, op)
        constants[name] = constants[name] - (above or 0)
        tensors[name] = replace(tensors[name], format=Fixed(8, 0))
    return replace(program, constants=constants, tensors=tensors)


def separable() -> Chain:
    """A small MobileNet."""
    chain = clipped(Chain(3, 16).conv(16, 3, stride=2, pad=1))
    for outputs, stride in ((32, 1), (64, 2), (64, 1)):
        chain = clipped(chain.conv(chain.channels, 3, stride=stride, pad=1, group=chain.channels))
        chain = clipped(chain.conv(outputs, 1))
    return chain


def layers(program: Program) -> list[Op]:
    return [op for op in walk(program.body) if op.kernel.base in ("dense", "conv")]


def cases_for(core: str, folder: Path) -> list[Case]:
    cases = []
    for number, (name, chain) in enumerate(networks()):
        if core == "avr" and name not in ON_AN_UNO:
            continue
        program = unsigned(program_of(chain, folder, "int8"), number, (-164, -1, -255, 0)[number % 4])
        if core == "cortex-m4":
            program = within_bytes(program)
        if number % 3 == 2:
            program = often_zero(program)
        arranged = arrange(program, core)
        cases.append(Case(name, arranged, extreme_inputs(program, number)))
    return cases


@pytest.mark.parametrize("core", PORTABLE)
def test_natively(core: str, tmp_path: Path) -> None:
    cases = cases_for(core, tmp_path)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED, *PORTABLE[core])) == ""


@pytest.mark.parametrize("board", BOARDS)
def test_on_boards(board: str, tmp_path: Path) -> None:
    cases = cases_for(BOARDS[board], tmp_path)
    if board == "uno":
        assert all(case.program.tensors[layers(case.program)[0].inputs[0]].blocks for case in cases)
        assert any(tensor.stored for case in cases for tensor in case.program.tensors.values())  # near multipliers
    assert first_difference(cases, run_on_board(cases, load_boards().board(board), tmp_path / "cache")) == ""


@pytest.mark.parametrize(("board", "most"), [("due", 1.05), ("h747", 1.02), ("nucleo_l4r5", 1.03)])
def test_they_cost_as_much_as_signed_ones(board: str, most: float, tmp_path: Path) -> None:
    """In instructions, which are exact, at most so many times as many; in bytes of flash as much."""
    first = within_bytes(unsigned(program_of(separable(), tmp_path, "int8"), 3, -164))
    programs = [arrange(p, BOARDS[board], ["constant-channels"]) for p in (first, signed(first))]
    sizes = [sum(stored_bytes(p.tensors[name], codes) for name, codes in p.constants.items()) for p in programs]
    assert sizes[0] == sizes[1]
    cases = [Case(name, p, extreme_inputs(p, 1)[:2]) for name, p in zip(("unsigned", "signed"), programs, strict=True)]
    results = run_on_board(cases, load_boards().board(board), tmp_path / "cache")
    assert first_difference(cases, results) == ""
    assert results.instructions[0] < most * results.instructions[1]


@pytest.mark.parametrize("core", ARM)
def test_all_layers_are_of_bytes(core: str, tmp_path: Path) -> None:
    for case in cases_for(core, tmp_path):
        for op in layers(case.program):
            blocks = case.program.tensors[op.inputs[0]].blocks
            assert blocks is not None, case.name
            assert blocks.raised == raised(case.program, op) is not None
