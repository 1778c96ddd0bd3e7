"""`hil plan --pareto --board`: what each `--ram` gives, with what holds the sample."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_plan_cli import hil, record

from tinyhil.compiler.lower import lower
from tinyhil.harness.build.board_image import compile_for
from tinyhil.harness.build.pipeline import limited, place_for
from tinyhil.harness.job.job import open_model, wish_for
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.preference import Wish


@pytest.mark.parametrize(
    ("model", "board"),
    [
        ("digits_mlp", "uno"),
        ("digits_cnn", "uno"),
        ("digits_cnn", "h747"),
        ("fastgrnn_har", "uno"),
        ("digits_cnn", "pico"),
        ("digits_cnn", "due"),
    ],
)
def test_what_each_ram_gives_on_a_board(model: str, board: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what holds the sample: two slots, one of the arena's own bytes, or rows."""
    asked = ("--model", model, "--format", "fixed8", "--board", board)
    rows = json.loads(hil(capsys, *asked, "--pareto", "--json")[1])
    for row in rows:
        found = record(capsys, *asked, "--ram", row["peak_bytes"] + row["input_bytes"])
        assert {name: found[name] for name in ("peak_bytes", "input_bytes")}.items() <= row.items()
    times = [row["more_time"] for row in rows]
    assert times == sorted(times), "with more RAM no schedule is slower"
    least = rows[-1]["peak_bytes"] + rows[-1]["input_bytes"]
    assert "exceed" in hil(capsys, *asked, "--ram", least - 1)[2]
    assert len(hil(capsys, *asked, "--pareto")[1].splitlines()) == 3 + len(rows)


@pytest.mark.parametrize("prefer", ["balanced", "latency", "ram", "least"])
@pytest.mark.parametrize(
    ("model", "board", "limit"),
    [
        ("digits_mlp", "uno", None),
        ("digits_cnn", "uno", None),
        ("digits_cnn", "uno", 500),  # where products are computed again, whatever is preferred
        ("digits_cnn", "due", None),
        ("fastgrnn_har", "uno", None),
        ("digits_cnn", "h747", None),
    ],
)
def test_what_is_preferred_is_planned_as_a_run_has_it(
    model: str, board: str, limit: int | None, prefer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opened, boards = open_model(model), load_boards()
    ranges = opened.known_ranges(None)
    assert ranges is not None
    given = boards.board(board) if limit is None else limited(boards.board(board), limit + 256)
    more = () if limit is None else ("--capacity", given.chip.ram_bytes)
    asked = ("--model", model, "--board", board, "--format", "fixed8", "--prefer", prefer, *more)
    placed, transfer = place_for(lower(opened.model.graph, Assignment("fixed8"), ranges), given, Wish(prefer))
    found = record(capsys, *asked)
    assert (found["peak_bytes"], found["input_bytes"]) == (placed.plan.peak_bytes, transfer.input_bytes)


@pytest.mark.parametrize(
    ("model", "board"), [("digits_cnn", "uno"), ("digits_cnn", "pico"), ("digits_cnn", "h747"), ("digits_cnn", "due")]
)
@pytest.mark.parametrize("apart", [False, True])
def test_an_assignment_s_arena_is_planned_as_a_run_has_it(
    model: str, board: str, apart: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """858 B and two slots of 256 B were said where the run has 864 B with the sample in it."""
    boards, opened = load_boards(), open_model(model)
    asked = ("--model", model, "--board", board)
    rows = json.loads(hil(capsys, *asked, "--format", "fixed8", "--pareto", "--json")[1])
    ranges = opened.known_ranges(None)
    assert ranges is not None
    for row in rows:
        path = tmp_path / "w.yaml"
        conditions = {"prefer": "ram", "arena": row["peak_bytes"], **({"input_apart": True} if apart else {})}
        path.write_text(json.dumps({"default": "fixed8", "found": conditions}))
        found = record(capsys, *asked, "--assignment", path)
        assignment = opened.assignment(path, "fixed8")
        compiled = compile_for(boards.board(board), boards, opened.model, assignment, ranges, wish_for(path))
        taken = compiled.plan.peak_bytes, compiled.transfers[board].input_bytes
        assert (found["peak_bytes"], found["input_bytes"]) == taken
