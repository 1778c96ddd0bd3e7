"""What coverage-guided fuzzing has kept, fed again: taken or refused in one line, by every reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz_targets import TARGETS, feed
from mutants import limited

CORPORA = Path(__file__).parent / "fuzz"


@pytest.mark.parametrize("target", TARGETS)
def test_corpora(target: str) -> None:
    seeds = sorted((CORPORA / target).iterdir())
    taken = 0
    for path in seeds:
        try:
            with limited():
                taken += feed(target, path.read_bytes())
        except Exception as error:
            raise AssertionError(f"{path}: {error!r}") from error
    assert taken, "the seeds hold what is right, too"
