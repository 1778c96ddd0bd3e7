"""Rows over rows that die: depthwise layers and pools inside of loops take no room for their own result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arena_machine import compiled_cases
from kernel_cases import SANITIZED, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, samples_for
from random_models import extreme_inputs
from test_rows import Chain, runs
from test_rows_strips import assert_alike, planned

from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Program, walk
from tinyhil.memplan.arena.execution_check import faults_of_plan
from tinyhil.memplan.arena.lag import row_lag
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.memplan.arena.write_order import Windows
from tinyhil.ops import rows
from tinyhil.ops.window import Window
from tinyhil.passes.arrange import arrange
from tinyhil.references.reference import run_reference


def separable(kernel: int, stride: int, pad: int, activation: str = "", dilation: int = 1) -> Chain:
    """Two depthwise layers, each between two that mix the channels."""
    chain = Chain(2, 13).conv(6, 1).add("Relu")
    for _ in range(2):
        chain.conv(6, kernel, stride=stride, pad=pad, group=6, dilation=dilation)
        chain = chain.add(activation) if activation else chain
        chain.conv(6, 1).add("Relu")
    return chain


def pooled() -> Chain:
    return Chain(2, 12).conv(6, 3, pad=1).pool("MaxPool", 3, 1, pad=1).conv(5, 1).pool("AveragePool", 2, 2).conv(4, 1)


CHAINS = {
    "3x3": separable(3, 1, 1),
    "of two": separable(3, 2, 1),
    "valid": separable(3, 1, 0),
    "wider": separable(3, 1, 2),
    "5x5": separable(5, 1, 2),
    "5x5 of two": separable(5, 2, 2),
    "dilated": separable(3, 1, 2, dilation=2),
    "curved": separable(3, 1, 1, "HardSwish"),
    "pooled": pooled(),
}


def program_of(chain: Chain, folder: Path, default: str) -> Program:
    loaded = load(chain.model(), folder)
    return compiled(loaded, samples_for(loaded.shapes["x"]), default)


def by_rows(program: Program, strips: int = 1) -> Program:
    (part,) = runs(program)
    made = row_wise(program, part, strips)
    assert made is not None
    return made


def moved(program: Program) -> list[str]:
    """Results that are made over rows that die."""
    return [op.name for op in walk(program.body) if op.kernel.rows and rows.moves_of(op, rows.RESULT)]


@pytest.mark.parametrize(
    ("name", "default"),
    [*((name, "fixed8") for name in CHAINS), ("3x3", "fixed16"), ("5x5 of two", "int8"), ("pooled", "int8")],
)
def test_integers_are_the_same_on_the_bytes_of_a_smaller_plan(name: str, default: str, tmp_path: Path) -> None:
    program = program_of(CHAINS[name], tmp_path, default)
    inputs = extreme_inputs(program, 2)
    wanted = run_reference(program, inputs)
    (part,) = runs(program)
    apart = row_wise(program, part, over=())
    assert apart is not None
    assert not moved(apart)
    for core in (None, "cortex-m7"):
        for strips in (1, 3):
            made = by_rows(program if core is None else arrange(program, core), strips)
            assert len(moved(made)) >= (2 if name != "wider" else 1) * strips
            assert_alike(made, inputs, wanted, strips)
    assert planned(by_rows(program)).plan.peak_bytes < planned(apart).plan.peak_bytes


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "lag", "copied"),
    [
        ((4, 9), 3, 1, 1, 1, 0),
        ((4, 9), 3, 2, 1, 0, 0),
        ((4, 9), 5, 1, 2, 2, 0),
        ((4, 9), 3, 1, 0, 0, 0),
        ((4, 9), 3, 1, 2, 8, 8),  # rows of 11: the last of four channels begins 6 elements behind its operand's
        ((1, 8), 2, 2, 0, 0, 0),
    ],
)
def test_a_row_begins_so_far_below_its_operand(
    size: tuple[int, int], kernel: int, stride: int, pad: int, lag: int, copied: int
) -> None:
    """By the formula, and as the least distance at which no element is written before its last use."""
    channels, width = size
    out = (width + 2 * pad - kernel) // stride + 1
    w = Window(channels, 1, width, 1, out, 1, kernel, 1, stride, 0, pad, 1, 1)
    read, written = (np.arange(channels * n).reshape(channels, 1, n) for n in (width, out))
    for copies, wanted in ((False, lag), (True, copied)):
        last = Windows("x", w, 0, read, written, by_channel=True, copies=copies).last_reads().reshape(-1)

        def is_possible(below: int, last: np.ndarray = last) -> bool:
            early = any(last[at - below] > at for at in range(below, min(written.size, last.size + below)))
            return not early and written.size <= read.size + below

        assert row_lag(w, copies=copies) == wanted == next(n for n in range(written.size) if is_possible(n))


def test_a_place_that_is_a_byte_too_high_is_found_out(tmp_path: Path) -> None:
    placed = planned(by_rows(program_of(CHAINS["3x3"], tmp_path, "fixed8")))
    names = moved(placed.program)
    for op in (op for op in walk(placed.program.body) if op.name in names):
        higher = dict(placed.plan.offsets) | {op.output: placed.plan.offsets[op.output] + 1}
        faults = list(faults_of_plan(placed.program, replace(placed.plan, offsets=higher)))
        assert any(op.name in fault and "before its element" in fault for fault in faults)


def cases_of(
    folder: Path,
    core: str | None,
    *which: tuple[str, str],
    chains: Mapping[str, Chain],
    made: Callable[[Program], Program],
) -> tuple[list[Placement], list[np.ndarray]]:
    placed, inputs = list[Placement](), list[np.ndarray]()
    for name, default in which:
        program = program_of(chains[name], folder, default)
        inputs.append(extreme_inputs(program, 1)[:3])
        placed.append(planned(made(program if core is None else arrange(program, core))))
    return placed, inputs


def difference(
    board: str | None,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *which: tuple[str, str],
    chains: Mapping[str, Chain] = CHAINS,
    made: Callable[[Program], Program] = by_rows,
) -> str:
    """The first between the reference and an emulated board; None: this computer with sanitizers."""
    spec = None if board is None else load_boards().board(board)
    core = None if spec is None else spec.chip.core
    cases = compiled_cases(*cases_of(folder, core, *which, chains=chains, made=made), monkeypatch)
    if spec is None:
        return first_difference(cases, run_natively(cases, folder, *SANITIZED))
    return first_difference(cases, run_on_board(cases, spec, folder / "cache"))


def test_natively_with_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = (("3x3", "int8"), ("5x5", "fixed16"), ("wider", "fixed8"), ("curved", "fixed8pc"), ("pooled", "int8"))
    assert difference(None, tmp_path, monkeypatch, *which) == ""


@pytest.mark.parametrize(
    ("board", "which"),
    [
        ("uno", [("pooled", "fixed8")]),
        ("due", [("3x3", "fixed8"), ("of two", "int8"), ("wider", "fixed16")]),
        ("h747", [("3x3", "int8"), ("curved", "fixed8"), ("of two", "fixed16")]),
    ],
)
def test_on_boards(board: str, which: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert difference(board, tmp_path, monkeypatch, *which) == ""


def test_a_window_reads_what_is_added_to_its_result_again(tmp_path: Path) -> None:
    """A sum with the operand of its convolution: only a row that no window needs may be written over."""
    chain = Chain(3, 7).conv(6, 3, pad=1)
    begin = chain.last
    chain = chain.conv(6, 3, pad=1).add("Add", begin).conv(8, 3, pad=1)
    program = by_rows(program_of(chain, tmp_path, "fixed8"))
    assert any(op.inputs.count(begin) == 2 for op in walk(program.body) if op.output != begin)
    assert planned(program).plan.peak_bytes > 0
