"""The search itself: a strategy asks, the evaluator answers, every answer is logged.

What the strategy gives in the end is the result, if it fits; else the best of what was tried and does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from tinyhil.errors import ConfigError
from tinyhil.search.evaluator import Score, joined
from tinyhil.search.journal import Query
from tinyhil.search.search_problem import FIT, VALIDATION, Ask, Enough, SearchProblem, Strategy
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.trial import Trial, TrialLog

FEWEST_TO_PART = 30
MOST_REPEATS = 10_000  # questions in a row whose answers are known: they cost nothing of a budget, which never ends
OnTrial = Callable[[Trial, Trial | None], None]  # the trial, the best so far


@dataclass(frozen=True, slots=True)
class Budget:
    """Where a search stops: `evaluations` counts a probe as its share of the samples; `target` is disagreements."""

    evaluations: int | None = None
    seconds: float | None = None
    target: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """`best` is the answer; `evaluations` what all questions cost, in runs over all samples. `is_stalled`: the strategy
    was ended because it asked only what it knew. `is_fallback`: nothing that it asked fits; the answer is known to."""

    best: Trial
    trials: tuple[Trial, ...]
    evaluations: float
    seconds: float
    finished: bool
    is_stalled: bool = False
    is_fallback: bool = False


def search(
    strategy: Strategy,
    problem: SearchProblem,
    *,
    budget: Budget | None = None,
    log: TrialLog | None = None,
    on_trial: OnTrial = lambda trial, best: None,
) -> Found:
    """Run to the strategy's end or the budget's. ConfigError if the limit of RAM can not be met at all.

    The result fits the limits whatever the strategy does; for the same seed and budget of evaluations it is the same,
    also after an interruption.
    """
    for board in problem.boards:
        board.memory.require(board.limit_bytes)
    session = _Session(problem, budget or Budget(), log, on_trial)
    answer, finished = _converse(strategy, session)
    own = session.ask(Ask(answer, complete=True)) if answer is not None and problem.fits(answer) else session.best
    best = own or session.ask(Ask(problem.fallback(), complete=True))
    seconds = time.monotonic() - session.begin
    return Found(best, tuple(session.trials), session.cost, seconds, finished, session.is_stalled(), own is None)


def _converse(strategy: Strategy, session: _Session) -> tuple[Candidate | None, bool]:
    asking = strategy.propose(session.problem)
    try:
        ask = next(asking)
        while not session.is_over():
            _require(strategy, session.problem, ask, getattr(ask, "candidate", None))
            ask = asking.send(session.ask(ask))
    except StopIteration as end:
        if end.value is not None:
            _require(strategy, session.problem, Ask(end.value), end.value)
        return end.value, not session.is_late()
    except Enough:  # time was over while something was planned, for the strategy or for the answer to its question
        pass
    try:
        asking.throw(Enough())
    except StopIteration as end:
        return end.value, False
    except Enough:
        return None, False
    asking.close()
    return None, False


def _require(strategy: Strategy, problem: SearchProblem, ask: object, candidate: object) -> None:
    """ConfigError for what is no question, or no candidate of the space: strategies may be the user's own."""
    groups = problem.space.groups
    if not isinstance(ask, Ask):
        raise ConfigError(f"strategy {strategy.name}: it yields {ask!r:.60}; it must yield Ask(candidate)")
    if not (isinstance(candidate, tuple) and [type(one) for one in candidate] == [Choice] * len(groups)):
        wanted = f"a candidate is a tuple of {len(groups)} Choices, one of each of problem.space.groups"
        raise ConfigError(f"strategy {strategy.name}: {wanted}, not {candidate!r:.60}")
    for index, choice in enumerate(candidate):
        if choice.format not in problem.space.offered(index):
            offered = f"on offer are {', '.join(problem.space.offered(index))}"
            raise ConfigError(f"strategy {strategy.name}: {groups[index].name} in {choice.format}: {offered}")


class _Session:
    """What has been tried so far. Lives for one call of `search`."""

    def __init__(self, problem: SearchProblem, budget: Budget, log: TrialLog | None, on_trial: OnTrial) -> None:
        self.begin = time.monotonic()
        self._charged = problem.charge
        self.problem = replace(problem, charge=self._charge)
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.cost = 0.0
        self._repeats = 0
        self._budget, self._log, self._on_trial = budget, log, on_trial
        self._known: dict[tuple[Candidate, int | None, str | None], Trial] = {}
        self._earlier = log.read() if log is not None else []
        if log is not None:
            log.start(self._earlier)

    def is_late(self) -> bool:
        """The seconds are over."""
        return self._budget.seconds is not None and time.monotonic() - self.begin >= self._budget.seconds

    def is_stalled(self) -> bool:
        """It asks nothing new, and so for ever."""
        return self._repeats >= MOST_REPEATS

    def is_over(self) -> bool:
        budget, best = self._budget, self.best
        if budget.evaluations is not None and self.cost >= budget.evaluations:
            return True
        if self.is_late() or self.is_stalled():
            return True
        return budget.target is not None and best is not None and best.score.disagreements <= budget.target

    def ask(self, ask: Ask) -> Trial:
        """The answer, from memory if the same was asked before."""
        ask = self._simplified(ask)
        known = self._known.get((ask.candidate, ask.probe, _scope(ask)))
        if known is not None and suits(known, ask):
            self._repeats += 1
            return known
        self._repeats = 0
        if ask.part == VALIDATION:
            self.ask(Ask(ask.candidate, part=FIT, complete=True))
        question = ask.candidate, ask.probe, _scope(ask)
        was_answered = question in self.problem.answers
        trial = self._earlier_answer(ask)
        if trial is None:
            trial = self._evaluate(ask)
            if self._log is not None:
                self._log.add(trial)
        self._known[question] = trial
        self.trials.append(trial)
        if trial.kind != "stopped":
            self.problem.answers.setdefault(question, (trial.kind, trial.score))
        if not was_answered:
            self._charge(self._cost(ask, trial))
        if trial.kind == "full" and trial.fits and (self.best is None or trial.rank < self.best.rank):
            self.best = trial
        self._on_trial(trial, self.best)
        return trial

    def _simplified(self, ask: Ask) -> Ask:
        """A probe of all samples is no probe, and two samples can not be parted."""
        count = len(self.problem.evaluator.examples)
        probe = None if ask.probe is None or ask.probe >= count else ask.probe
        return replace(ask, probe=probe, part=ask.part if count >= FEWEST_TO_PART else None)

    def _charge(self, cost: float) -> None:
        self.cost += cost
        self._charged(cost)

    def _cost(self, ask: Ask, trial: Trial) -> float:
        """In evaluations; an early stop counts as the whole of what was asked for."""
        count = len(self.problem.evaluator.examples)
        if trial.kind == "probe":
            return trial.score.samples / count
        return 1.0 if ask.part is None else len(self.problem.part(ask.part).examples) / count

    def _earlier_answer(self, ask: Ask) -> Trial | None:
        """The interrupted run's answer, as long as it was asked the same questions in the same order."""
        number = len(self.trials)
        if number >= len(self._earlier):
            return None
        trial = self._earlier[number]
        if trial.candidate == ask.candidate and suits(trial, ask):
            return trial
        self._earlier = []
        if self._log is not None:
            self._log.start(self.trials)
        return None

    def _evaluate(self, ask: Ask) -> Trial:
        given = self.problem.answers.get((ask.candidate, ask.probe, _scope(ask)))
        kind, score = self._score(ask) if given is None else given
        if kind == "probe":
            return Trial(len(self.trials), ask.candidate, kind, 0, False, score)
        ram_bytes = self.problem.planned_bytes(ask.candidate)
        fits = ram_bytes <= self.problem.limit_bytes and self.problem.fits(ask.candidate)
        return Trial(len(self.trials), ask.candidate, kind, ram_bytes, fits, score)

    def _score(self, ask: Ask) -> tuple[str, Score]:
        if ask.probe is not None:
            return "probe", self._answer(Query(ask.candidate, probe=ask.probe))
        if ask.part == VALIDATION:
            other = self.ask(Ask(ask.candidate, part=FIT, complete=True))
            return "full", joined([other.score, self._answer(Query(ask.candidate, part=VALIDATION))])
        best = None if self.best is None else self.best.score.disagreements
        above = None if ask.complete else ask.above if ask.part is not None else best
        score = self._answer(Query(ask.candidate, part=ask.part, above=above))
        evaluator = self.problem.evaluator if ask.part is None else self.problem.part(ask.part)
        whole = "full" if ask.part is None else ask.part
        return whole if score.samples == len(evaluator.examples) else "stopped", score

    def _answer(self, question: Query) -> Score:
        return asked(self.problem, question)


def asked(problem: SearchProblem, question: Query) -> Score:
    """The score; from the journal, if there is one that knows it."""
    if problem.journal is None:
        return answered(problem, question)
    return problem.journal.answer(question, partial(answered, problem))


def answered(problem: SearchProblem, question: Query) -> Score:
    """The score that a question asks for; who answers it does not matter."""
    program = problem.program(question.candidate)
    if question.probe is not None:
        return problem.evaluator.probe(program, question.probe)
    evaluator = problem.evaluator if question.part is None else problem.part(question.part)
    return evaluator.score(program, question.above)


def suits(trial: Trial, ask: Ask) -> bool:
    """Whether a trial of the same candidate answers the question."""
    if ask.probe is not None or trial.kind == "probe":
        return ask.probe is not None and trial.kind == "probe"
    if trial.kind == "stopped":
        return not ask.complete and ask.part != VALIDATION
    return (trial.kind == FIT) == (ask.part == FIT)


def _scope(ask: Ask) -> str | None:
    """The validation of a candidate makes its trial a full one."""
    return FIT if ask.part == FIT else None
