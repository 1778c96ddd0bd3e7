"""The journal of a search: several processes answer its questions, none twice, and none is lost with its process."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hil_command import hil, record_of, start_hil, wait_until

from tinyhil.search.evaluator import Score
from tinyhil.search.journal import Journal, Query
from tinyhil.search.space import Choice

SEARCH = ("search", "--model", "digits_mlp", "--arena", 60, "--samples", 200, "--json")
SEARCH = (*SEARCH, "--evaluator", "reference", "--evaluations", 60)


def question(number: int, above: int | None = None) -> Query:
    return Query((Choice("fixed8", -number), Choice("fixed16")), above=above)


def score(number: int) -> Score:
    return Score(10, number, None, 0, number / 7)


def forbidden(asked: Query) -> Score:
    raise AssertionError(f"asked again: {asked}")


def test_answers_outlive_their_process_and_are_given_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as first, Journal(path) as second:
        assert first.answer(question(1), lambda asked: score(1)) == score(1)
        assert second.answer(question(1), forbidden) == score(1)
        assert second.answer(question(1, above=3), forbidden) == score(1), "the whole score answers a bounded question"
        first.post([question(2), question(3), question(2)])
        assert (second.take(), first.take(), first.take()) == (question(2), question(3), question(3))
        first.tell(question(3), score(3))
        assert first.take() is None, "the other one works on it"
    with Journal(path) as third:
        assert third.take() == question(2), "its claim ended with its process"
        assert third.answer(question(3), forbidden) == score(3)
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".alive"] == []


def test_who_waits_answers_something_else_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as asking, Journal(path) as helper:
        asking.post([question(1), question(2)])
        assert helper.take() == question(1)

        def evaluate(asked: Query) -> Score:
            assert asked == question(2)
            helper.tell(question(1), score(1))
            return score(2)

        assert asking.answer(question(1), evaluate) == score(1)
        assert helper.answer(question(2), forbidden) == score(2)


@pytest.mark.parametrize("damage", [b'{"tell": "', b"\xff\x00\n", b"[1]\n{}\nnull\n", b'{"tell": "x", "samples": 1}\n'])
def test_a_line_that_was_torn_harms_no_other(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as first:
        first.answer(question(1), lambda asked: score(1))
        with path.open("ab") as file:
            file.write(damage)
        assert first.answer(question(2), lambda asked: score(2)) == score(2)
    with Journal(path) as later:
        assert [later.answer(question(n), forbidden) for n in (1, 2)] == [score(1), score(2)]


def figures(done: Any) -> dict[str, Any]:
    of_the_call = ("seconds", "assignment_file", "command", "phases", "first_answer", "utc")
    return {key: value for key, value in record_of(done).items() if key not in of_the_call}


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Of the journal, without a line that is being written."""
    paths = list((folder / "results").glob("search/*/journal-*.jsonl"))
    return [json.loads(line) for path in paths for line in path.read_text().split("\n")[:-1]]


def claimers(folder: Path) -> set[str]:
    return {line["by"] for line in lines_of(folder) if "by" in line}


@pytest.mark.slow
def test_several_processes_find_what_one_does(tmp_path: Path) -> None:
    """Also when one of them is killed; and each question is answered once."""
    for name in ("alone", "shared"):
        (tmp_path / name).mkdir()
    alone = figures(hil(*SEARCH, cwd=tmp_path / "alone"))
    shared = tmp_path / "shared"
    helper = start_hil(*SEARCH, "--assist", cwd=shared)
    process = start_hil(*SEARCH, "--workers", 2, cwd=shared)
    wait_until(lambda: process.poll() is not None or len(claimers(shared)) > 1)
    os.kill(helper.pid, signal.SIGKILL)
    helper.communicate()
    out, err = process.communicate()
    assert process.wait() == 0, err
    assert {key: value for key, value in json.loads(out).items() if key in alone} == alone
    assert len(claimers(shared)) > 1, "others helped"
    answered = [line["tell"] for line in lines_of(shared) if "tell" in line]
    assert len(answered) == len(set(answered)) > 20
    again = figures(hil(*SEARCH, "--workers", 1, "--strategy", "random", "--set", "trials=20", cwd=shared))
    assert again["strategy"] == "random"
    assert figures(hil(*SEARCH, "--strategy", "random", "--set", "trials=20", cwd=tmp_path / "alone")) == again
