"""Time that `--seconds` leave for the boards: what a search has found is held to its limits before the time is over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tinyhil.harness.search.device import decide
from tinyhil.harness.search.phases import OutOfTime, Phases
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import load_task, make_bench
from tinyhil.harness.search.uniform import measured_on, uniforms
from tinyhil.harness.settings.config import load_boards
from tinyhil.native import default_cache_dir
from tinyhil.search.costs import Limits
from tinyhil.search.trial import TrialLog


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
