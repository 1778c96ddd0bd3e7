"""Ours: sensitivities, the best widths by them under the planner's true RAM, then local search.

Every tensor alone is narrowed on a few samples, to each format on offer and each of its scales; the rise of the output
error is its sensitivity. Of the choices that take the same bytes the least sensitive stays: a few widths per
tensor (tradeoffs.py). If sensitivities added up, the best assignment would be the one of least sum that fits:
candidates come in that order, from greedy rules by sensitivity per byte, and from each pair of a narrow and a wide
format. Neighbours of the best are screened on the same few samples, then evaluated. When nothing new improves,
sensitivities are measured again on four times as many samples, until these are all or the budget ends.

A neighbour must be better on two thirds of the samples and not worse on the third that it was not chosen by: hundreds
of comparisons on the same samples would else pick whoever fits their noise. Better means fewer disagreements and less
output error (`merit`): over random assignments of four models that foretold the disagreements on held-out data best,
rank correlations 0.79 to 0.96 where their number alone had 0.12 to 0.97. It can be stopped at any time.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tinyhil.errors import ConfigError
from tinyhil.search.search_problem import FIT, VALIDATION, Ask, Asking, Enough, SearchProblem
from tinyhil.search.space import Candidate
from tinyhil.search.tradeoffs import Tradeoffs, best_alone, measure, neighbours, shaken, starts
from tinyhil.search.trial import Trial

CHANCE = 16  # disagreements; see `merit`
TINY = 1e-12
LOWEST_OFFSET = -8  # a 256th of the range: further down everything saturates
MOST_STALE = 8  # rounds without a new question
FIRST, DEEPER = 0.5, 4  # evaluations that the sensitivities take, and how much closer to look when nothing improves


@dataclass(frozen=True, slots=True)
class Lagrange:
    """`probe`: samples per sensitivity and screening. `finalists`: first assignments that are evaluated. `checks`:
    assignments of the integer program that the planner may see. `rounds`: of local search between two measurements.
    `screened`: neighbours probed per round, of which `tried` are evaluated. `lowest_offset`: how far the scale of a
    narrow fixed-point tensor may be moved down."""

    probe: int = 64
    finalists: int = 3
    checks: int = 200
    rounds: int = 100
    screened: int = 16
    tried: int = 4
    lowest_offset: int = -1

    name: ClassVar[str] = "lagrange"
    source: ClassVar[str] = "own: integer program over measured sensitivities, then local search"

    def __post_init__(self) -> None:
        least = min(self.checks, self.rounds, self.screened, self.tried)
        if min(self.probe, self.finalists) < 1 or least < 0 or not LOWEST_OFFSET <= self.lowest_offset <= 0:
            raise ConfigError(
                "lagrange: probe and finalists must be 1 or more, checks, rounds, screened and tried 0 or more, "
                f"lowest_offset between {LOWEST_OFFSET} and 0"
            )

    def propose(self, problem: SearchProblem) -> Asking:
        best: _Best | None = None
        most, samples = FIRST, self.probe
        random = np.random.default_rng(problem.seed)
        try:
            while True:
                wide = yield from best_alone(problem, samples)
                tradeoffs = yield from measure(problem, wide, samples, self.lowest_offset, most)
                for candidate in (yield from self._finalists(problem, tradeoffs)):
                    best = yield from _challenge(best, candidate)
                assert best is not None
                best, is_over = yield from self._improved(problem, tradeoffs, best, random)
                if is_over or samples >= len(problem.evaluator.examples):
                    break
                most, samples = DEEPER * most, DEEPER * samples
        except Enough:
            if best is None:
                raise
        return best.full.candidate

    def _finalists(self, problem: SearchProblem, tradeoffs: Tradeoffs) -> Generator[Ask, Trial, list[Candidate]]:
        """Of the first assignments those with the least output error on few samples."""
        found = []
        for candidate in dict.fromkeys(starts(problem, tradeoffs, self.finalists, self.checks)):
            if problem.fits(candidate):
                trial = yield Ask(candidate, probe=self.probe)
                found.append((trial.score.loss, trial.number, candidate))
        return [candidate for _, _, candidate in sorted(found)[: self.finalists]] or [problem.fallback()]

    def _improved(
        self, problem: SearchProblem, tradeoffs: Tradeoffs, best: _Best, random: np.random.Generator
    ) -> Generator[Ask, Trial, tuple[_Best, bool]]:
        """The best after local search, until nothing new is asked; and whether the search is over before that."""
        seen, stale = -1, 0
        for _ in range(self.rounds):
            try:
                best, newest = yield from self._round(problem, tradeoffs, best, random)
            except Enough:
                return best, True
            seen, stale = max(seen, newest), 0 if newest > seen else stale + 1
            if stale == MOST_STALE:
                break
        return best, False

    def _round(
        self, problem: SearchProblem, tradeoffs: Tradeoffs, best: _Best, random: np.random.Generator
    ) -> Generator[Ask, Trial, tuple[_Best, int]]:
        """The best after the neighbours that promise most were tried, one random jump if none was better; and the
        number of the newest trial."""
        near, newest = [], -1
        around = list(neighbours(problem, tradeoffs, best.full.candidate, self.screened))
        problem.foresee(around, self.probe)
        for candidate in around:
            trial = yield Ask(candidate, probe=self.probe)
            newest = max(newest, trial.number)
            near.append((trial.score.loss, trial.number, candidate))
        for _, _, candidate in sorted(near)[: self.tried]:
            after = yield from _challenge(best, candidate)
            if after is not best:
                return after, after.full.number
        jump = shaken(problem, tradeoffs, best.full.candidate, random)
        trial = yield Ask(jump, probe=self.probe)
        return (yield from _challenge(best, jump)), max(newest, trial.number)


@dataclass(frozen=True, slots=True)
class _Best:
    """The best so far on the part that is fitted, and on both."""

    fit: Trial
    full: Trial

    @property
    def merits(self) -> tuple[float, float]:
        """On the fitted part, and on the rest."""
        fit, full = self.fit.score, self.full.score
        rest = full.samples - fit.samples
        if rest == 0:  # too few samples to part them
            return merit(fit.disagreements, fit.loss), merit(fit.disagreements, fit.loss)
        loss = max(0.0, (full.loss * full.samples - fit.loss * fit.samples) / rest)
        return merit(fit.disagreements, fit.loss), merit(full.disagreements - fit.disagreements, loss)


def merit(disagreements: int, loss: float) -> float:
    """Smaller is better. The fewer disagreements, the more their number is chance, and the output error tells."""
    return math.log(disagreements + CHANCE) + 0.5 * math.log(loss + TINY)


def _challenge(best: _Best | None, candidate: Candidate) -> Generator[Ask, Trial, _Best]:
    """The candidate if it is better than the best, also on samples it was not chosen by; else the best."""
    if best is None:
        fit = yield Ask(candidate, part=FIT, complete=True)
        return _Best(fit, (yield Ask(candidate, part=VALIDATION)))
    known = best.fit.score.disagreements
    fit = yield Ask(candidate, part=FIT, above=known + 2 * math.isqrt(known + 1))
    if fit.kind == "stopped" or merit(fit.score.disagreements, fit.score.loss) >= best.merits[0]:
        return best
    challenger = _Best(fit, (yield Ask(candidate, part=VALIDATION)))
    return challenger if challenger.merits[1] <= best.merits[1] else best
