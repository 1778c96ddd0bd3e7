"""What a search is doing, what each phase of it took, and when `--seconds` end it: on the clock, and of processors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tinyhil import time_limit
from tinyhil.search.search_problem import Enough
from tinyhil.search.trial import Trial

Work = TypeVar("Work")


def processor_seconds() -> float:
    """Of this process and of those that it has waited for, such as compilers."""
    try:
        import resource
    except ImportError:  # not on Windows
        return time.process_time()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def began() -> tuple[float, float]:
    """Now: on the clock, and of processors."""
    return time.monotonic(), processor_seconds()


class OutOfTime(Enough):
    """`--seconds` are over: the rest of the search is left out."""


@dataclass(slots=True)
class Phases:
    """`tell` hears of each phase as it begins. `taken`: seconds and processor seconds of each, in order. `best`: the
    answer if nothing better comes; `sure`: the best of those that were held to their limits on the boards. `judged`:
    formats for all tensors are, so that time that is over ends the search without an answer, too. `least`: of latency
    (us) and flash (B) the least that a board has shown."""

    tell: Callable[[str], None] = lambda name: None
    taken: dict[str, list[float]] = field(default_factory=dict)
    first_answer: dict[str, Any] | None = None
    best: Trial | None = None
    sure: Trial | None = None
    judged: bool = False
    least: dict[str, float] = field(default_factory=dict)
    _most: float | None = None
    _begin: tuple[float, float] = field(default_factory=began)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """A phase; one that comes again adds up."""
        self.tell(name)
        begin, used = time.monotonic(), processor_seconds()
        try:
            yield
        finally:
            spent = self.taken.setdefault(name, [0.0, 0.0])
            spent[0] += time.monotonic() - begin
            spent[1] += processor_seconds() - used

    def answered(self, trial: Trial) -> None:
        """The first trial that keeps the limits, evaluated in full, and when there was one; and the best."""
        if trial.kind != "full" or not trial.fits:
            return
        if self.best is None or trial.rank < self.best.rank:
            self.best = trial
        if self.first_answer is not None:
            return
        begin, used = self._begin
        self.first_answer = {
            "seconds": round(time.monotonic() - begin, 3),
            "processor_seconds": round(processor_seconds() - used, 3),
            "disagreements": trial.score.disagreements,
        }

    def held(self, trial: Trial) -> None:
        """An answer that keeps its limits on the boards, too."""
        self.answered(trial)
        if trial.fits and (self.sure is None or trial.rank < self.sure.rank):
            self.sure = trial

    def failed(self) -> None:
        """The best one exceeded a limit on a board."""
        self.best = self.sure

    def seconds_left(self, seconds: float | None) -> float | None:
        """Of so many since the command began; None: no limit."""
        return None if seconds is None else max(0.0, seconds - self.elapsed())

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """`press` holds what is done here to so many seconds since the command began; builds and boards end with them,
        too."""
        self._most = seconds
        try:
            with time_limit.until(None if seconds is None else self._begin[0] + seconds, self.press):
                yield
        finally:
            self._most = None

    def in_time(self, seconds: float | None, work: Callable[[], Work]) -> Work | None:
        """What it finds; None where the time is over before it has."""
        with suppress(OutOfTime), self.within(seconds):
            time_limit.check()
            return work()
        return None

    def press(self) -> None:
        """OutOfTime where they are over, and there is an answer or formats for all tensors are judged; what may take
        long asks before it begins."""
        is_over = self._most is not None and self.elapsed() >= self._most
        if is_over and (self.judged or self.best is not None):
            raise OutOfTime

    def shown(self, latency_us: float | None, flash_bytes: float) -> None:
        """What a board has measured of some assignment."""
        for name, value in (("latency", latency_us), ("flash", flash_bytes)):
            if value is not None:
                self.least[name] = min(value, self.least.get(name, value))

    def elapsed(self) -> float:
        """Wall seconds since the command began."""
        return time.monotonic() - self._begin[0]

    def as_json(self) -> list[dict[str, Any]]:
        """In order, seconds of wall and of processor each."""
        return [
            {"phase": name, "seconds": round(wall, 3), "processor_seconds": round(used, 3)}
            for name, (wall, used) in self.taken.items()
        ]
