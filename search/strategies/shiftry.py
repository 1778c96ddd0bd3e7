"""Shiftry (Kumar et al., OOPSLA 2020, section 5): demote tensor by tensor, each at the scale that suits it best."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from tinyhil.errors import ConfigError
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.space import INPUT, Candidate, Choice
from tinyhil.search.trial import Trial


@dataclass(frozen=True, slots=True)
class Shiftry:
    """`points`: demotion stops where accuracy is more than so many points below float. A demoted tensor has the scale
    of the wide one plus the difference of the widths plus an offset down to `lowest_offset`. `until_it_fits`: it stops
    where the limit holds, too; the paper's goes on to the loss permitted."""

    points: float = 2.0
    lowest_offset: int = -2
    lowest_input_offset: int = -8
    large_elements: int = 50_000
    until_it_fits: bool = False

    name: ClassVar[str] = "shiftry"
    source: ClassVar[str] = "Shiftry (OOPSLA 2020), section 5, stages III and IV"

    def __post_init__(self) -> None:
        if not self.points >= 0.0 or max(self.lowest_offset, self.lowest_input_offset) > 0:
            raise ConfigError("shiftry: points must be 0 or more, lowest_offset and lowest_input_offset 0 or less")

    def propose(self, problem: SearchProblem) -> Asking:
        ranking: list[tuple[bool, float, int, Choice]] = []
        for index, group in enumerate(problem.space.groups):
            trial, choice = yield from self._best_offset(problem, index)
            ranking.append((group.elements < self.large_elements, -trial.quality, index, choice))
        return (yield from self._demote(problem, [(entry[2], entry[3]) for entry in sorted(ranking, key=_rank)]))

    def _best_offset(self, problem: SearchProblem, index: int) -> Generator[Ask, Trial, tuple[Trial, Choice]]:
        """Stage III: this group alone demoted, at each offset."""
        space = problem.space
        lowest = self.lowest_input_offset if space.groups[index].role == INPUT else self.lowest_offset
        best: tuple[Trial, Choice] | None = None
        for offset in range(0, lowest - 1, -1):
            choice = Choice(space.low.format, offset)
            demoted = space.with_choices(space.uniform(space.high), {index: choice})
            trial = yield Ask(demoted, complete=True)
            if best is None or trial.quality > best[0].quality:
                best = trial, choice
        assert best is not None
        return best

    def _demote(
        self, problem: SearchProblem, order: list[tuple[int, Choice]]
    ) -> Generator[Ask, Trial, Candidate | None]:
        """Stage IV: cumulative prefixes up to the first that loses too much; then on, unseen, until the limit holds."""
        current = problem.space.uniform(problem.space.high)
        answer = current if problem.fits(current) else None
        good = True
        for index, choice in order:
            if answer is not None and (self.until_it_fits or not good):
                break
            current = problem.space.with_choices(current, {index: choice})
            if good:
                trial = yield Ask(current, complete=True)
                good = trial.quality >= problem.float_quality - self.points / 100
            if (good or answer is None) and problem.fits(current):
                answer = current
        return answer


def _rank(entry: tuple[bool, float, int, Choice]) -> tuple[bool, float, int]:
    return entry[:3]
