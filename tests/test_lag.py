"""Depthwise layers and pooling over their own operand: no element is lost, in any arithmetic, on any board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arena_machine import compiled_cases
from kernel_cases import SANITIZED, first_difference, run_natively, run_on_board
from onnx_models import compiled, load, samples_for
from test_rows import Chain
from test_rows_domains import FEW

from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Op, Program
from tinyhil.memplan import Buffer, Problem, check, lower_bound, plan
from tinyhil.memplan.arena.execution_check import faults_of_plan
from tinyhil.memplan.arena.lag import lag_of
from tinyhil.memplan.arena.placement import Placement, place
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.problem import Alias
from tinyhil.ops.window import window_of
from tinyhil.passes.arrange import arrange
from tinyhil.references.reference import quantize_inputs

WITHOUT = {"rows", "order", "views"}


def windows(side: int = 11) -> Chain:
    """Each window is the last to read what the one before has made."""
    chain = Chain(3, side).conv(6, 1).add("Relu").conv(6, 3, pad=1, group=6).pool("MaxPool", 3, 1, pad=1)
    chain.conv(6, 3, stride=2, pad=1, group=6, bias=0).pool("AveragePool", 3, 1, pad=1).conv(6, 2, pad=1, group=6)
    return chain.pool("AveragePool", 2, 2).pool("MaxPool", 2, 1).conv(2, 1)


def placed(folder: Path, default: str, core: str = "", side: int = 11) -> tuple[Placement, np.ndarray]:
    """Every window over its operand, whether the plan needs that or not."""
    x = samples_for((1, 3, side, side), count=4)
    program = arrange(compiled(load(windows(side).model(), folder), x, default), core)
    ops = lagging(program)
    at = sum(lag for *_, lag in ops)
    fixed = {ops[0][1]: at}
    for op, name, lag in ops:
        fixed[op.output] = fixed[name] - lag
    problem = problem_of(program, views=False)
    top = at + max(buffer.size_bytes for buffer in problem.buffers)
    for buffer in problem.buffers:
        if buffer.name not in fixed:
            fixed[buffer.name] = top = -(-top // 4) * 4
            top += buffer.size_bytes
    found = replace(plan(problem), offsets=fixed, peak_bytes=top, proven=False, peaks={})
    check(problem, found)
    return Placement(program, problem, found), quantize_inputs(program, np.concatenate([x, 8 * x]))[0]


def lagging(program: Program) -> list[tuple[Op, str, int]]:
    found = []
    for op in program.body:
        lag = lag_of(program, op) if isinstance(op, Op) else None
        if lag is not None and isinstance(op, Op):
            found.append((op, *lag))
    return found


def test_a_result_may_not_begin_on_the_last_byte_of_its_operand(tmp_path: Path) -> None:
    """Unless no window reads that: of an odd side pooling by two leaves the last column out."""
    found, _ = placed(tmp_path, "fixed8")
    named = [0, 0]
    for op, operand, _ in lagging(found.program):
        for shared_bytes in (0, 1):
            at = found.plan.offsets[operand] + found.program.tensors[operand].size_bytes - shared_bytes
            plan = replace(found.plan, offsets={**found.plan.offsets, op.output: at})
            said = f"'{op.name}' writes over '{operand}' before its element"
            named[shared_bytes] += any(fault.startswith(said) for fault in faults_of_plan(found.program, plan))
    assert named[0] == 0
    assert named[1] >= 4


@pytest.mark.parametrize("default", ["fixed8", "fixed16", "int8"])
def test_windows_lie_over_their_operand(default: str, tmp_path: Path) -> None:
    found, _ = placed(tmp_path, default)
    assert len(lagging(found.program)) >= 6
    assert not list(faults_of_plan(found.program, found.plan))
    wide = Chain(2, 24).conv(8, 1).add("Relu").conv(8, 3, pad=1, group=8).pool("MaxPool", 2, 2).conv(4, 1)
    program = compiled(load(wide.model(), tmp_path), samples_for(wide.shape), default)
    together, apart = place(program, WITHOUT), place(program, WITHOUT | {"in-place"})
    assert together.plan.proven
    assert together.plan.peak_bytes < 0.6 * apart.plan.peak_bytes
    for op, name, lag in lagging(program)[:1]:
        assert together.plan.offsets[name] - together.plan.offsets[op.output] == lag


def test_natively_with_sanitizers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, given = zip(*(placed(tmp_path, default) for default in FEW), strict=True)
    cases = compiled_cases(list(found), list(given), monkeypatch)
    assert first_difference(cases, run_natively(cases, tmp_path, *SANITIZED)) == ""


@pytest.mark.parametrize("board", ["uno", "due", "h747"])
def test_on_boards(board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load_boards().board(board)
    kinds, side = (FEW[:1], 7) if board == "uno" else (("fixed8", "fixed16", "int8"), 9)
    found, given = zip(*(placed(tmp_path, default, spec.chip.core, side) for default in kinds), strict=True)
    cases = compiled_cases(list(found), list(given), monkeypatch)
    assert first_difference(cases, run_on_board(cases, spec, tmp_path / "cache")) == ""


def test_nothing_that_is_read_later_is_written(tmp_path: Path) -> None:
    """Element by element, in the order of the kernels."""
    chance, seen = np.random.default_rng(0), 0
    for _ in range(60):
        kernel, stride, pad = (int(n) for n in chance.integers((1, 1, 0), (6, 4, 3)))
        side, channels = int(chance.integers(kernel, 12)), int(chance.integers(1, 4))
        dilation = int(chance.integers(1, 3)) if side > 2 * kernel else 1
        chain = (
            Chain(channels, side)
            .add("Relu")
            .conv(channels, kernel, stride=stride, pad=min(pad, kernel - 1), group=channels, dilation=dilation)
        )
        program = compiled(load(chain.model(), tmp_path), samples_for(chain.shape), "fixed8")
        for op, _, lag in lagging(program):
            assert lag >= smallest_lag(op)
            assert lag <= smallest_lag(op) + 2 * side
            seen += 1
    assert seen > 30


def smallest_lag(op: Op) -> int:
    """By how many elements the result must begin below: from what each of its elements and all later ones read."""
    w = window_of(op.params)
    first_read, written = [], 0
    for channel in range(w.channels):
        plane = channel * w.height * w.width
        for y in range(w.out_height):
            for x in range(w.out_width):
                down = y * w.stride_y - w.pad_y + np.arange(w.kernel_y) * w.dilation_y
                across = x * w.stride_x - w.pad_x + np.arange(w.kernel_x) * w.dilation_x
                down = down[(down >= 0) & (down < w.height)]
                across = across[(across >= 0) & (across < w.width)]
                inside = down.size > 0 and across.size > 0
                first_read.append(plane + down[0] * w.width + across[0] if inside else np.inf)
                written += 1
    later = np.minimum.accumulate(np.array([*first_read[1:], np.inf])[::-1])[::-1]
    return int(max(0, np.nanmax(np.where(np.isinf(later), -np.inf, np.arange(written) + 1 - later))))


def test_what_lies_outside_of_an_operand_is_in_the_bound() -> None:
    buffers = (Buffer("x", 100, 0, 2), Buffer("y", 90, 1, 3), Buffer("other", 7, 0, 3))
    for shift, wanted in ((12, 119), (0, 107), (95, 197), (-5, 107), (-20, 117)):
        problem = Problem(buffers, aliases=(Alias("y", "x", shift),))
        assert lower_bound(problem).bytes == wanted == plan(problem).peak_bytes


def test_an_operand_that_others_read_later_stays(tmp_path: Path) -> None:
    chain = Chain(4, 8).add("Relu")
    begin = chain.last
    chain.conv(4, 3, pad=1, group=4).add("Relu").add("Concat", begin, axis=1)
    program = compiled(load(chain.model(), tmp_path), samples_for(chain.shape), "fixed8")
    ((op, name, _),) = lagging(program)
    assert not any({alias.first, alias.second} == {op.output, name} for alias in problem_of(program).aliases)
