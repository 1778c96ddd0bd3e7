"""What a search is doing, what each phase of it took, and when `--seconds` end it: on the clock, and of processors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tinyhil import time_limit
from tinyhil.search.search_problem import Enough
from tinyhil.search.space import Candidate
from tinyhil.search.trial import Trial

Work = TypeVar("Work")
SEARCHING = "searching"
FEASIBLE, SCHEDULES = "finding out what is feasible", "measuring other schedules"
ANSWER = "holding the answer to others"
USUAL_S = 5.0  # of an image, before any was built and run
PROFILING, MEASURING, REST = "profiling", "measuring on the board", "all else"


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
    """`tell` hears of each phase as it begins. `taken`: seconds and processor seconds of each, in order. `best`:
    the answer if nothing better comes; `own`: the best of the strategy's that is under way; `tried`: all of those
    of all rounds, on all samples; `sure`: the best of those that were held to their limits on the boards. `judged`:
    formats for all tensors are, so that time that is over ends the search without an answer, too; `beside`: those
    of them that are; `measured`: what boards have said of those held to their limits. `least`: of latency (us) and
    flash (B) the least that a board has shown. `looked`: a task of few samples and the answer on them, if there was
    one. `least_run`: of what `--minimize` has found the least that boards have run, with what they said. `slowest`:
    wall seconds that boards take at most to say of an image what it needs, its build included, as far as is known.
    `is_stopped`: somebody interrupted, or the time was over, before all samples were run. `evaluations`: what all
    questions have cost, in runs over all samples; `count` hears of them. `key`: of the task of all samples, where
    one of few may be what is left of it. `meters`: what was profiled for costs, of each board."""

    tell: Callable[[str], None] = lambda name: None
    taken: dict[str, list[float]] = field(default_factory=dict)
    first_answer: dict[str, Any] | None = None
    best: Trial | None = None
    own: Trial | None = None
    tried: dict[Candidate, Trial] = field(default_factory=dict)
    sure: Trial | None = None
    judged: bool = False
    beside: list[Any] = field(default_factory=list)
    measured: dict[Any, tuple[Any, ...]] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    looked: tuple[Any, Trial | None] | None = None
    least_run: tuple[Any, tuple[Any, ...]] | None = None
    slowest: float = USUAL_S
    is_stopped: bool = False
    evaluations: float = 0.0
    count: Callable[[float], None] = lambda evaluations: None
    key: str = ""
    meters: list[Any] = field(default_factory=list)
    _most: float | None = None
    _inside: tuple[str, float, float] = ("", 0.0, 0.0)  # the phase under way, and what phases inside of it took
    _begin: tuple[float, float] = field(default_factory=began)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Boards are asked of an image, which is built for them."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self.slowest = max(self.slowest, time.monotonic() - begin)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """A phase; one that comes again adds up, one inside of another is no part of it."""
        around, self._inside = self._inside, (name, 0.0, 0.0)
        self.tell(name)
        spent = self.taken.setdefault(name, [0.0, 0.0])
        begin, used = time.monotonic(), processor_seconds()
        try:
            yield
        finally:
            wall, busy = time.monotonic() - begin, processor_seconds() - used
            spent[0] += wall - self._inside[1]
            spent[1] += busy - self._inside[2]
            self._inside = (around[0], around[1] + wall, around[2] + busy)
            if around[0]:
                self.tell(around[0])

    def charge(self, evaluations: float) -> None:
        """Questions of a search have cost so much more."""
        self.evaluations += evaluations
        self.count(self.evaluations)

    def searching(self) -> float:
        """Wall seconds of the searches themselves."""
        return self.taken.get(SEARCHING, [0.0])[0]

    def answered(self, trial: Trial) -> None:
        """The first trial that keeps the limits, evaluated in full, and when there was one; and the best."""
        if trial.kind != "full" or not trial.fits:
            return
        if self.best is None or trial.rank < self.best.rank:
            self.best = trial
        self._first(trial)

    def looked_at(self, task: Any, trial: Trial | None) -> None:
        """An answer of few samples: the first one, and what is left where no other comes; None: there is none."""
        self.looked = task, trial
        if trial is not None:
            self._first(trial)

    def left(self, task: Any) -> tuple[Any, Trial | None]:
        """The best answer of a task, or that of few samples, and which task it is of."""
        return (task, self.best) if self.best is not None or self.looked is None else self.looked

    def _first(self, trial: Trial) -> None:
        if self.first_answer is not None:
            return
        begin, used = self._begin
        self.first_answer = {
            "seconds": round(time.monotonic() - begin, 3),
            "processor_seconds": round(processor_seconds() - used, 3),
            "disagreements": trial.score.disagreements,
        }

    def held(self, trial: Trial, measured: tuple[Any, ...]) -> None:
        """An answer that keeps its limits on the boards, too, and what these have said of it."""
        self.measured[trial.candidate] = measured
        self.answered(trial)
        if trial.fits and (self.sure is None or trial.rank < self.sure.rank):
            self.sure = trial

    def failed(self) -> None:
        """The best one exceeded a limit on a board."""
        self.best, self.own = self.sure, None

    def seconds_left(self, seconds: float | None) -> float | None:
        """Of so many since the command began; None: no limit."""
        return None if seconds is None else max(0.0, seconds - self.elapsed())

    def seconds_to_search(self, seconds: float | None, images: int) -> float | None:
        """Of those left at least half: the rest is for asking boards of so many images."""
        left = self.seconds_left(seconds)
        return None if left is None else left - min(left / 2, self.slowest * images)

    def is_over(self, seconds: float | None) -> bool:
        """Whether it was interrupted before all samples were run, or so many seconds have passed."""
        return self.is_stopped or self.seconds_left(seconds) == 0.0

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
        if self.is_over(self._most) and (self.judged or self.best is not None or self.looked is not None):
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
        """In order, seconds of wall and of processor each; what is in none of them is the last one."""
        used = self._begin[1]
        known = [sum(spent[at] for spent in self.taken.values()) for at in (0, 1)]
        rest = [self.elapsed() - known[0], processor_seconds() - used - known[1]]
        return [
            {"phase": name, "seconds": round(max(0.0, wall), 3), "processor_seconds": round(max(0.0, busy), 3)}
            for name, (wall, busy) in (*self.taken.items(), (REST, rest))
        ]
