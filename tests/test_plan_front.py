"""`hil plan --pareto --board`: what each `--ram` gives, with what holds the sample."""

from __future__ import annotations

import json

import pytest
from test_plan_cli import hil, record


@pytest.mark.parametrize(
    ("model", "board"),
    [
        ("digits_mlp", "uno"),
        ("digits_cnn", "uno"),
        ("digits_cnn", "h747"),
        ("fastgrnn_har", "uno"),
        ("digits_cnn", "pico"),
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
