"""Time that `--seconds` leave for the boards: what a search has found is held to its limits before the time is over."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from test_search_anytime import Late

from tinyhil.harness.search import rounds
from tinyhil.harness.search.device import decide
from tinyhil.harness.search.first_answer import trial_of
from tinyhil.harness.search.phases import OutOfTime, Phases
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import run_pareto, run_search
from tinyhil.harness.search.task import load_task, make_bench
from tinyhil.harness.search.unasked import kernels
from tinyhil.harness.search.uniform import measured_on, uniforms
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Role
from tinyhil.native import default_cache_dir
from tinyhil.search.costs import Limits
from tinyhil.search.space import Choice
from tinyhil.search.trial import Trial, TrialLog


@pytest.mark.parametrize(
    ("slowest", "images", "expected"), [(4.0, 2, 92.0), (4.0, 0, 100.0), (40.0, 2, 50.0), (0.0, 2, 100.0)]
)
def test_a_search_ends_while_boards_can_still_be_asked(slowest: float, images: int, expected: float) -> None:
    phases = Phases(_begin=(time.monotonic(), 0.0))
    phases.slowest = slowest
    assert phases.seconds_to_search(None, images) is None
    left = phases.seconds_to_search(100.0, images)
    assert left is not None
    assert expected - 1 < left <= expected


def test_what_was_measured_by_the_end_decides(tmp_path: Path) -> None:
    """A search under a limit of latency: one format is known from the board, the time is over before the other is."""
    request = SearchRequest(
        "digits_mlp", board="uno", latency_us=60_000, samples=20, formats="fixed8,fixed16", results=tmp_path
    )
    task = load_task(request, default_cache_dir(), str, lambda *_: None, load_boards())
    narrow, wide = uniforms(task)
    assert narrow.trial is not None
    assert wide.trial is not None
    assert task.phases.slowest > 0
    log = TrialLog(None, task.problem.space, "")
    measured_on(task, log, narrow)
    bench = make_bench(task, log)
    with task.phases.within(1e-6):
        ((trial, (known,)),) = decide([bench], [narrow.trial, wide.trial], [None], [Limits(latency_us=60_000)])
        with pytest.raises(OutOfTime):
            decide([bench], [wide.trial], [None], [Limits(latency_us=60_000)])
    assert trial is narrow.trial
    assert known.latency_us == narrow.on_all[0].latency_us


@pytest.mark.parametrize("phase", [("searching", 0), ("searching", 1), ("searching", 2)])
def test_an_interrupted_front_is_the_front_so_far(phase: tuple[str, int], tmp_path: Path) -> None:
    """Between two of its searches: what no board has run is an estimate, and said to be one."""
    name, times = phase
    request = SearchRequest(
        "digits_mlp",
        board="uno",
        pareto="flash,latency,accuracy",
        samples=20,
        formats="fixed4,fixed8,fixed16",
        evaluations=6,
        levels=3,
        results=tmp_path,
    )
    said: list[str] = []
    outcome = run_pareto(request, default_cache_dir(), said.append, Interrupting(name, times), load_boards())
    interrupted = any("interrupted; the " in line for line in said)
    assert interrupted == (times > 0)
    assert {row["estimated"] for row in outcome.record["points"]} <= {False, interrupted}
    assert all(row["latency_us"] and row["flash_bytes"] for row in outcome.record["points"])
    assert all(Path(row["assignment_file"]).is_file() for row in outcome.record["points"])


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("profiling", "the least that was run so far is the answer"),
        ("holding the answer to others", "not been held to"),
    ],
)
def test_an_interrupted_minimum_is_the_least_that_was_run(
    phase: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it begins to profile an answer that took more than was estimated, and as the answer is held to others."""
    monkeypatch.setattr(rounds, "NEARLY", 0.0 if phase == "profiling" else 2.0)
    request = SearchRequest("digits_mlp", board="uno", minimize="flash", points=5.0, samples=60, evaluations=8)
    said: list[str] = []
    watch = Interrupting("measuring on the board", 1 << 30)
    begun: list[str] = []

    def begins(name: str) -> None:
        begun.append(name)
        if name == phase and "measuring on the board" in begun:
            begun.clear()
            raise KeyboardInterrupt

    watch.phase = begins  # type: ignore[method-assign]
    outcome = run_search(replace(request, results=tmp_path), default_cache_dir(), said.append, watch, load_boards())
    assert outcome.measured
    assert outcome.record["flash_bytes"] == outcome.measured[0].flash_bytes
    assert any(words in line for line in said)


def test_what_a_board_has_said_is_not_of_another_candidate(tmp_path: Path) -> None:
    """What was made of a trial, such as a slimmer answer, has its number: --minimize printed the other's figures."""
    request = SearchRequest("digits_mlp", board="uno", formats="fixed8,fixed16", results=tmp_path, samples=20)
    task = load_task(request, default_cache_dir(), str, lambda *_: None, load_boards())
    space, log = task.problem.space, TrialLog(tmp_path / "log.jsonl", task.problem.space, "key")
    one, other = (trial_of(task.problem, 0, name) for name in space.formats)
    log.start([one])
    device = {"board": "uno", "samples": 1, "accuracy": None, "disagreements": 0, "median": 1.0, "unit": "cycles"}
    device |= {"arena_bytes": 1, "static_bytes": 1, "stack_bytes": 1, "total_bytes": 2, "flash_bytes": 3, "record": "r"}
    log.add_device(one, {**device, "latency_us": 1.0})
    again = TrialLog(tmp_path / "log.jsonl", space, "key")
    assert again.read() == [one]
    for each in (log, again):
        assert each.device(one, "uno") is not None
        assert each.device(other, "uno") is None
        assert each.device(replace(one, ram_bytes=7), "uno") is None


class Interrupting:
    """Ctrl-C as a phase begins for so many times; 0: never."""

    def __init__(self, phase: str, times: int) -> None:
        self.at, self.left = phase, times

    def __call__(self, trial: Trial, best: Trial | None) -> None:
        """Of a trial nothing is told."""

    def phase(self, name: str) -> None:
        if name == self.at:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def test_of_equals_what_has_the_fewest_kernels_is_measured_first(tmp_path: Path) -> None:
    """Three are measured: each single bias in fixed16 took static RAM beyond the limit that all biases so kept."""
    request = SearchRequest("digits_cnn", arena=4000, formats="fixed8,fixed16", samples=4, results=tmp_path)
    space = load_task(request, default_cache_dir(), str, lambda *_: None, load_boards()).problem.space
    narrow = space.uniform(Choice("fixed8"))
    biases = [at for at, one in enumerate(space.groups) if one.role is Role.CONSTANT and not one.is_matrix]
    changes = [dict.fromkeys(some, Choice("fixed16")) for some in ([], biases[:1], biases)]
    uniform, single, every = (len(kernels(space.lower(space.with_choices(narrow, one)))) for one in changes)
    assert uniform == every < single


def test_what_was_profiled_and_keeps_the_limit_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between profiling and the first answer of the strategy --seconds ended in a refusal of what shorter ones had."""
    request = SearchRequest("digits_mlp", board="uno", flash=7200, samples=60, results=tmp_path, seconds=3600)
    late = Late("finding out what is feasible", monkeypatch)
    outcome = run_search(request, default_cache_dir(), lambda line: None, late, load_boards())
    assert outcome.record["flash_bytes"] <= 7200
    assert all(row["flash_bytes"] > 7200 for row in outcome.record["uniform"])
