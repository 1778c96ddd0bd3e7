"""Where plans take more scratch for less time on a Cortex-M3, and where they do not."""

from __future__ import annotations

import pytest

from tinyhil.compiler.lower import lower
from tinyhil.harness.build.pipeline import place_for
from tinyhil.harness.job.job import open_model
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Program
from tinyhil.passes.arrange import arrange
from tinyhil.passes.row_pairs import for_time
from tinyhil.preference import BALANCED, LATENCY, LEAST, RAM, Wish


@pytest.fixture(scope="module")
def program() -> Program:
    opened = open_model("digits_cnn")
    return lower(opened.model.graph, opened.assignment(None, "int8"), opened.required_ranges(None))


def in_factors(program: Program) -> int:
    return sum(t.blocks is not None and t.blocks.lanes for t in program.tensors.values())


def test_only_where_ram_does_not_count(program: Program) -> None:
    board = load_boards().board("due")
    found = {prefer: place_for(program, board, Wish(prefer))[0] for prefer in (BALANCED, LATENCY, RAM, LEAST)}
    assert {prefer: in_factors(one.program) for prefer, one in found.items()} == {
        BALANCED: 1,
        LATENCY: 1,
        RAM: 0,
        LEAST: 0,
    }
    least = found[RAM].plan.peak_bytes
    assert least < found[BALANCED].plan.peak_bytes
    for wish in (Wish(ram_bytes=least + 200), Wish(arena_bytes=least)):  # no room for more
        assert in_factors(place_for(program, board, wish)[0].program) == 0


def test_other_cores_have_none(program: Program) -> None:
    for core in ("avr", "cortex-m0plus", "cortex-m4", "cortex-m7"):
        arranged = arrange(program, core)
        assert for_time(arranged, core) is arranged
    arranged = arrange(program, "cortex-m3")
    assert for_time(arranged, "cortex-m3", without=["row-pairs"]) is arranged
