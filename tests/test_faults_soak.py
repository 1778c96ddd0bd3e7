"""Run after run on each emulated board, a hundred of them by `benchmarks/soak.py`: none flakes."""

from __future__ import annotations

import pytest
from boards_under_test import EMULATED, FLASHED, each


@pytest.mark.slow
@pytest.mark.parametrize("board", each(EMULATED))
def test_no_run_of_twenty_flakes(board: str) -> None:
    from benchmarks import soak

    found = soak.soak(board, runs=20, samples=2, load="direct")
    assert found.flakes == ()


@pytest.mark.slow
@pytest.mark.parametrize("board", each(FLASHED))
def test_no_run_of_three_through_the_boot_loader_flakes(board: str) -> None:
    from benchmarks import soak

    found = soak.soak(board, runs=3, samples=1, load="flash")
    assert found.flakes == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bit_exact": False}, "1 of 2 equal"),
        ({"flaky": True}, "2 attempts"),
        ({"link": {"attempts": 1, "damaged_frames": 3, "rx_overruns": 0}}, "damaged_frames: 3"),
        ({"raw": {"ticks": [1, 3]}}, "than the first run"),
    ],
)
def test_each_flaw_counts(change: dict[str, object], words: str) -> None:
    from benchmarks import soak

    link = {"attempts": 2, "damaged_frames": 0, "rx_overruns": 0}
    good = {"bit_exact": True, "equal_samples": 1, "samples": 2, "flaky": False, "link": link, "raw": {"ticks": [1, 2]}}
    assert list(soak.faults(good, good["raw"])) == []
    (flaw,) = soak.faults({**good, **change}, good["raw"])
    assert words in flaw
