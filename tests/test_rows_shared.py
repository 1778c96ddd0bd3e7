"""Two line buffers in one ring: the result of a depthwise layer or a pool stays where rows of its operand were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from random_models import extreme_inputs
from test_rows import Chain, runs
from test_rows_overlap import difference, program_of
from test_rows_strips import assert_alike, planned

from tinyhil.language.program import Program, walk
from tinyhil.memplan.arena.execution_check import faults_of_plan
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.row_stages import joined_parts
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.memplan.arena.schedules import cheapest_within, front, least
from tinyhil.memplan.arena.shared_rings import _are_apart
from tinyhil.ops import rows
from tinyhil.passes.arrange import arrange
from tinyhil.references.reference import run_reference


def between(kernel: int, pad: int, dilation: int = 1) -> Chain:
    """A depthwise layer between two that read windows."""
    chain = Chain(2, 13).conv(6, 3, pad=1).add("Relu")
    return chain.conv(6, kernel, pad=pad, group=6, dilation=dilation).conv(5, 3, pad=1)


def pooled(name: str) -> Chain:
    return Chain(2, 12).conv(6, 1).pool(name, 2, 1).conv(4, 3, pad=1).add("Relu")


CHAINS = {
    "3x3": between(3, 1),
    "valid": between(3, 0),
    "wider": between(3, 2),
    "5x5": between(5, 2),
    "two": between(3, 1).conv(5, 3, pad=1, group=5).conv(3, 3, pad=1),
    "small": Chain(1, 8).conv(4, 3, pad=1).conv(4, 3, pad=1, group=4).conv(2, 3, pad=1),
    "pools": pooled("MaxPool").pool("MaxPool", 2, 1),
    "means": pooled("AveragePool"),
}


def in_one_ring(program: Program, strips: int = 1) -> tuple[Program, Program]:
    """By rows with rings of their own, and with all that may stay in that of its operand."""
    (part,) = runs(program)
    apart = row_wise(program, part, strips, over=())
    stages = joined_parts(part)
    assert apart is not None
    assert stages is not None
    made = row_wise(program, part, strips, over=(), staying=[stage.target for stage in stages])
    assert made is not None
    return apart, made


def staying(program: Program) -> list[str]:
    return [op.name for op in walk(program.body) if rows.STAYS in op.params]


@pytest.mark.parametrize(
    ("name", "default"), [*((name, "fixed8") for name in CHAINS), ("3x3", "fixed16"), ("5x5", "int8"), ("two", "int8")]
)
def test_integers_are_the_same_on_the_bytes_of_a_smaller_plan(name: str, default: str, tmp_path: Path) -> None:
    program = program_of(CHAINS[name], tmp_path, default)
    inputs = extreme_inputs(program, 2)
    wanted = run_reference(program, inputs)
    for core in (None, "cortex-m7"):
        for strips in (1, 3):
            apart, made = in_one_ring(program if core is None else arrange(program, core), strips)
            assert not staying(apart)
            assert len(staying(made)) == strips * (2 if name == "two" else 1)
            assert_alike(made, inputs, wanted, strips)
    apart, made = in_one_ring(program)
    assert planned(made).plan.peak_bytes < planned(apart).plan.peak_bytes


def test_a_ring_that_is_a_row_too_short_is_found_out() -> None:
    """Row n of an operand, and row n of the result from when it dies on: five live at once."""
    sections = [(n, n, n + 2) for n in range(9)] + [(n, n + 3, n + 5) for n in range(9)]
    assert _are_apart(sections, 6)
    assert not _are_apart(sections, 5)


def test_a_place_that_is_a_byte_too_high_is_found_out(tmp_path: Path) -> None:
    placed = planned(in_one_ring(program_of(CHAINS["3x3"], tmp_path, "fixed8"))[1])
    (op,) = (op for op in walk(placed.program.body) if rows.STAYS in op.params)
    higher = dict(placed.plan.offsets) | {op.output: placed.plan.offsets[op.output] + 1}
    faults = list(faults_of_plan(placed.program, replace(placed.plan, offsets=higher)))
    assert any(op.name in fault and "before its element" in fault for fault in faults)


def shared(program: Program) -> Program:
    return in_one_ring(program)[1]


NATIVELY = [("3x3", "int8"), ("5x5", "fixed16"), ("wider", "fixed8"), ("pools", "fixed8pc"), ("two", "fixed8")]
ON_DUE = [("3x3", "int8"), ("wider", "fixed16"), ("means", "fixed8")]
ON_H747 = [("3x3", "int8"), ("two", "fixed8"), ("5x5", "fixed16")]


@pytest.mark.parametrize(
    ("board", "which"), [(None, NATIVELY), ("uno", [("small", "fixed8")]), ("due", ON_DUE), ("h747", ON_H747)]
)
def test_everywhere(
    board: str | None, which: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert difference(board, tmp_path, monkeypatch, *which, chains=CHAINS, made=shared) == ""


def test_schedules_for_less_ram_take_it_and_the_usual_ones_do_not(tmp_path: Path) -> None:
    program = program_of(CHAINS["3x3"], tmp_path, "fixed8")
    once = [one for one in front(program) if one.more_products == 0.0]
    best = min(once, key=lambda one: one.peak_bytes)
    assert staying(best.placed.program)
    usual = place(program)
    assert not staying(usual.program)
    assert best.peak_bytes < usual.plan.peak_bytes
    again = cheapest_within(program, best.peak_bytes)
    assert again.peak_bytes == best.peak_bytes
    assert least(program).peak_bytes <= best.peak_bytes
