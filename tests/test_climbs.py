"""A run goes down through the floors: few calls lead from a lower floor to a higher one (tests/test_layers.py)."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType

import pytest

from tests.test_layers import FILES, FLOORS, floor_of
from tinyhil.compiler_pass import SETTING
from tinyhil.harness.cli import main

LEVELS = {str(path): FLOORS.index(floor_of(path)) for path in FILES}
MOST = 50


def level_of(frame: FrameType) -> int | None:
    return None if frame.f_code.co_name == "<module>" else LEVELS.get(frame.f_code.co_filename)


@pytest.mark.slow
@pytest.mark.data("small/har6_subset.npz")
def test_a_run_climbs_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of files of which the higher one is called by the lower one, mostly with what a stage was handed: passes,
    observers."""
    monkeypatch.delenv(SETTING)  # as users run it
    climbs = set[tuple[str, str]]()
    files = set[str]()

    def called(frame: FrameType, event: str, _: object) -> None:
        level, outer = level_of(frame), frame.f_back
        if event != "call" or level is None:
            return
        files.add(frame.f_code.co_filename)
        while outer is not None and level_of(outer) is None:
            outer = outer.f_back
        if outer is not None and (level_of(outer) or 0) < level:
            climbs.add((outer.f_code.co_filename, frame.f_code.co_filename))

    threading.setprofile(called)
    sys.setprofile(called)
    try:
        with pytest.raises(SystemExit) as end:
            main(["run", "--board", "due", "--model", "fastgrnn_har", "--samples", "1", "--results", str(tmp_path)])
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert not end.value.code
    assert len(files) > 200  # a whole run
    assert 10 < len(climbs) < MOST, sorted(climbs)
