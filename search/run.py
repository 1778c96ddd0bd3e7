"""The search itself: a strategy asks, the evaluator answers, every answer is logged, the best that fits is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from search.space import Candidate
from search.study import Ask, Strategy, Study
from search.trial import Trial, TrialLog

OnTrial = Callable[[Trial, Trial | None], None]  # the trial, the best so far


@dataclass(frozen=True, slots=True)
class Budget:
    """Where a search stops: `evaluations` counts a probe as its share of the samples; `target` is disagreements."""

    evaluations: int | None = None
    seconds: float | None = None
    target: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """`best` is the answer; `evaluations` what all questions cost, in runs over all samples."""

    best: Trial
    trials: tuple[Trial, ...]
    evaluations: float
    seconds: float
    finished: bool


def search(
    strategy: Strategy,
    study: Study,
    *,
    budget: Budget | None = None,
    log: TrialLog | None = None,
    on_trial: OnTrial = lambda trial, best: None,
) -> Found:
    """Run to the strategy's end or the budget's. ConfigError if the limit can not be met at all.

    The result fits the limit whatever the strategy does; for the same seed and budget of evaluations it is the same,
    also after an interruption.
    """
    study.memory.require(study.limit_bytes)
    session = _Session(study, budget or Budget(), log, on_trial)
    answer, finished = _converse(strategy, session)
    if answer is not None and study.fits(answer):
        best = session.ask(Ask(answer, complete=True))
    else:  # nothing that fits was tried before the budget's end: the narrowest formats do
        best = session.best or session.ask(Ask(study.space.uniform(study.space.low), complete=True))
    return Found(best, tuple(session.trials), session.cost, time.monotonic() - session.begin, finished)


def _converse(strategy: Strategy, session: _Session) -> tuple[Candidate | None, bool]:
    asking = strategy.propose(session.study)
    try:
        ask = next(asking)
        while not session.is_over():
            ask = asking.send(session.ask(ask))
    except StopIteration as end:
        return end.value, True
    asking.close()
    return None, False


class _Session:
    """What has been tried so far. Lives for one call of `search`."""

    def __init__(self, study: Study, budget: Budget, log: TrialLog | None, on_trial: OnTrial) -> None:
        self.begin = time.monotonic()
        self.study = replace(study, charge=self._charge)
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.cost = 0.0
        self._budget, self._log, self._on_trial = budget, log, on_trial
        self._known: dict[tuple[Candidate, int | None], Trial] = {}
        self._earlier = log.read() if log is not None else []
        if log is not None:
            log.start(self._earlier)

    def is_over(self) -> bool:
        budget, best = self._budget, self.best
        if budget.evaluations is not None and self.cost >= budget.evaluations:
            return True
        if budget.seconds is not None and time.monotonic() - self.begin >= budget.seconds:
            return True
        return budget.target is not None and best is not None and best.score.disagreements <= budget.target

    def ask(self, ask: Ask) -> Trial:
        """The answer, from memory if the same was asked before."""
        probe = None if ask.probe is None or ask.probe >= len(self.study.evaluator.examples) else ask.probe
        known = self._known.get((ask.candidate, probe))
        if known is not None and (known.kind != "stopped" or not ask.complete):
            return known
        trial = self._earlier_answer(ask, probe)
        if trial is None:
            trial = self._evaluate(ask, probe)
            if self._log is not None:
                self._log.add(trial)
        self._known[ask.candidate, probe] = trial
        self.trials.append(trial)
        self._charge(trial.score.samples / len(self.study.evaluator.examples) if trial.kind == "probe" else 1.0)
        if trial.kind == "full" and trial.fits and (self.best is None or trial.rank < self.best.rank):
            self.best = trial
        self._on_trial(trial, self.best)
        return trial

    def _charge(self, cost: float) -> None:
        self.cost += cost

    def _earlier_answer(self, ask: Ask, probe: int | None) -> Trial | None:
        """The interrupted run's answer, as long as it was asked the same questions in the same order."""
        number = len(self.trials)
        if number >= len(self._earlier):
            return None
        trial = self._earlier[number]
        same = trial.candidate == ask.candidate and (trial.kind == "probe") == (probe is not None)
        if same and not (ask.complete and trial.kind == "stopped"):
            return trial
        self._earlier = []
        if self._log is not None:
            self._log.start(self.trials)
        return None

    def _evaluate(self, ask: Ask, probe: int | None) -> Trial:
        program = self.study.space.lower(ask.candidate)
        evaluator = self.study.evaluator
        if probe is not None:
            score, kind = evaluator.probe(program, probe), "probe"
        else:
            above = None if ask.complete or self.best is None else self.best.score.disagreements
            score = evaluator.score(program, above)
            kind = "full" if score.samples == len(evaluator.examples) else "stopped"
        ram_bytes = self.study.memory.planned_bytes(ask.candidate)
        fits = ram_bytes <= self.study.limit_bytes
        return Trial(len(self.trials), ask.candidate, kind, ram_bytes, fits, score)
