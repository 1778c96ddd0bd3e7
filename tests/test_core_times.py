"""Schedules are weighed by the cycles of the board's core (memplan/arena/core_times.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_plan_cli import hil

from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program, walk
from tinyhil.memplan.arena.core_times import EXACT, RESCALED, TABLE, USUAL, WIDE, CoreTime, counts_of
from tinyhil.memplan.arena.schedules import front
from tinyhil.memplan.arena.windows_in_place import may_read_in_place
from tinyhil.passes.arrange import arrange

ROOT = Path(__file__).resolve().parent.parent
CORES = {core for core, _ in TABLE}
MEASURED = {  # cycles of digits_cnn with `--prefer least`, as a multiple of those with `latency`
    ("avr", "fixed8"): 6.5,
    ("avr", "int8"): 7.2,
    ("cortex-m0plus", "fixed8"): 2.6,
    ("cortex-m0plus", "int8"): 3.4,
    ("cortex-m3", "fixed8"): 3.1,
    ("cortex-m3", "int8"): 4.4,
    ("cortex-m7", "fixed8"): 5.1,
    ("cortex-m7", "int8"): 7.4,
}


def digits(fmt: str, core: str) -> Program:
    graph = load_model(ROOT / "models/digits_cnn/digits_cnn.onnx").graph
    return arrange(lower(graph, Assignment(fmt), Ranges.any_of(graph)), core)


def test_each_core_has_each_arithmetic() -> None:
    assert set(TABLE) == {(core, arithmetic) for core in CORES for arithmetic in (EXACT, RESCALED, WIDE)}
    assert CoreTime("host").measured == CoreTime().measured == USUAL


@pytest.mark.parametrize(("core", "fmt"), MEASURED)
def test_the_least_ram_takes_as_long_as_measured(core: str, fmt: str) -> None:
    more = front(digits(fmt, core), core=core)[-1].more_time
    assert 1 / 1.5 < more / (MEASURED[core, fmt] - 1) < 1.5


def test_a_window_in_place_is_weighed_by_core_and_arithmetic() -> None:
    found = {}
    for core in sorted(CORES):
        for fmt in ("fixed8", "int8"):
            program = digits(fmt, core)
            op = next(op for op in walk(program.body) if may_read_in_place(program, op))
            found[core, fmt] = CoreTime(core).in_place(program, op)
            assert counts_of(program, op)["padded"] == 0  # of this network windows are inside of the plane
    assert all(found[core, "int8"] > found[core, "fixed8"] > 0 for core in CORES)
    assert found["avr", "int8"] > found["cortex-m3", "int8"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--board", "pico"), "modelled for cortex-m0plus (pico)"),
        (("--board", "uno"), "modelled for avr (uno)"),
        ((), f"modelled for {USUAL} (its own core needs --board)"),
        (("--board", "host"), f"modelled for {USUAL} (nothing is known of host's core)"),
    ],
)
def test_the_table_says_whose_time_it_is(more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = hil(capsys, "--model", "digits_cnn", "--format", "fixed8", "--pareto", *more)
    assert said in out.splitlines()[-1]
