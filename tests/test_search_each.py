"""`hil search --each`: an assignment for each of several boards, the evaluations shared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import hil_command
import pytest
import yaml

from tinyhil.errors import EXIT_BUILD, ConfigError
from tinyhil.harness.search.each import run_each
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import run_search
from tinyhil.harness.settings.config import load_boards
from tinyhil.native import default_cache_dir
from tinyhil.search import search_loop

BOARDS = ("uno", "pico", "h747")


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every question that was answered by running samples."""
    seen: list[object] = []
    answered = search_loop.answered

    def counted(problem: object, question: object) -> object:
        seen.append(question)
        return answered(problem, question)  # type: ignore[arg-type]

    monkeypatch.setattr(search_loop, "answered", counted)
    return seen


def test_each_answer_is_that_of_its_board_alone(evaluated: list[object], tmp_path: Path) -> None:
    request = SearchRequest("digits_mlp", arena=50, samples=100, evaluations=6, board="uno", also=BOARDS[1:])
    nothing = (default_cache_dir(), lambda line: None, lambda trial, best: None, load_boards())
    found = run_each(replace(request, results=tmp_path / "each", out=tmp_path / "widths"), *nothing)
    shared = list(evaluated)
    assert len(set(shared)) == len(shared)  # no question twice
    assert [one.board for one in found] == list(BOARDS)
    evaluated.clear()
    for one in found:
        alone = run_search(replace(request, board=one.board, also=(), results=tmp_path / one.board), *nothing)
        assert one.outcome is not None
        assert one.outcome.found.best == alone.found.best
        assert one.outcome.record["evaluations"] == alone.record["evaluations"]
        assert yaml.safe_load((tmp_path / "widths" / f"{one.board}.yaml").read_text())["values"] is not None
    assert len(evaluated) > 2 * len(shared)


def test_a_board_that_is_too_small_does_not_end_the_others(tmp_path: Path) -> None:
    """A limit that nothing keeps on any board: each says so, and the command ends with the first one's code."""
    asked = ("search", "--model", "digits_mlp", "--samples", "60", "--evaluations", "1", "--json", "--each")
    done = hil_command.hil(*asked, "--board", "uno", "--board", "due", "--arena", "5", cwd=tmp_path)
    assert done.returncode == EXIT_BUILD
    assert [(one["board"], "not feasible" in one["error"]) for one in json.loads(done.stdout)] == [
        ("uno", True), ("due", True)
    ]  # fmt: skip
    assert done.stderr.count("search: uno:") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"also": ()}, "--each is for several boards"),
        ({"pareto": "ram,accuracy"}, "--pareto and --each"),
        ({"port": "x"}, "--port and --each"),
        ({"also": ("uno",)}, "is given twice"),
    ],
)
def test_what_is_for_one_search_is_refused(change: dict, message: str, tmp_path: Path) -> None:
    request = replace(SearchRequest("digits_mlp", board="uno", also=("due",), results=tmp_path), **change)
    with pytest.raises(ConfigError, match=message):
        run_each(request, default_cache_dir(), lambda line: None, lambda trial, best: None, load_boards())
