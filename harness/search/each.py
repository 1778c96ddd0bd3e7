"""One search for each of several boards: each answer is that of its board alone, but no question is asked twice.

How well an assignment agrees with the float model does not depend on the board: a journal (search/journal.py) holds the
answers, those of `--workers`, too, and those of earlier searches of the same model, samples and formats.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyhil.errors import ConfigError, HilError
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import SearchOutcome, run_search
from tinyhil.harness.search.task import Progress
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say
from tinyhil.search.trial import writing_into


@dataclass(frozen=True, slots=True)
class OnBoard:
    """The answer for one board, or why there is none."""

    board: str
    outcome: SearchOutcome | None
    error: HilError | None = None

    @property
    def printed(self) -> dict[str, Any]:
        """What `--json` prints of it."""
        found = {"error": str(self.error)} if self.outcome is None else self.outcome.record
        return {"board": self.board, **found}


def run_each(
    request: SearchRequest, cache_dir: Path, say: Say, progress: Progress, boards: Boards | None
) -> tuple[OnBoard, ...]:
    """The boards in the order asked for; one whose limits can not be kept does not end the others. `out` is a folder.
    ConfigError for options that are for one search."""
    _check(request)
    if request.out is not None:
        with writing_into(request.out):
            request.out.mkdir(exist_ok=True)
    found = []
    names, begin = (request.board or "", *request.also), time.monotonic()
    for number, name in enumerate(names):
        out = None if request.out is None else request.out / f"{name}.yaml"
        seconds = request.seconds  # in all: to each its share of those that are left
        if seconds is not None:
            seconds = max(0.0, seconds - (time.monotonic() - begin)) / (len(names) - number)
        own = replace(request, board=name, also=(), out=out, workers=request.workers or 1, seconds=seconds)
        try:
            found.append(OnBoard(name, run_search(own, cache_dir, say, progress, boards)))
        except HilError as error:
            say(f"search: {name}: {error}")
            found.append(OnBoard(name, None, error))
    return tuple(found)


def _check(request: SearchRequest) -> None:
    if not request.also:
        raise ConfigError("search: --each is for several boards; give --board for each of them")
    for option, given in (("--pareto", request.pareto), ("--port", request.port), ("--plot", request.plot)):
        if given is not None:
            raise ConfigError(f"search: {option} and --each exclude each other; search for one board at a time")
    if request.out is not None and request.out.exists() and not request.out.is_dir():
        raise ConfigError(f"search: --out {request.out} is a file; with --each name a folder, for a file per board")
    replace(request, also=()).check()
    replace(request, minimize=None, every=None).check()
