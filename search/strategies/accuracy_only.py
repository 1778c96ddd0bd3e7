"""Accuracy-only: HAUNTER's baseline that looks at the error of a tensor and not at its size (MinUn, table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.strategies.demotion import demoted


@dataclass(frozen=True, slots=True)
class AccuracyOnly:
    """All high, then tensor by tensor demoted until the limit holds: first what alone at the low width costs least
    accuracy. `promote` is a way of our own: from all low, by decreasing error, whatever the limit permits."""

    promote: bool = False
    percentile: float = 95.0

    name: ClassVar[str] = "accuracy_only"
    source: ClassVar[str] = "MinUn (LCTES 2023), section 6, table 1"

    def propose(self, problem: SearchProblem) -> Asking:
        space = problem.space
        if self.promote:
            errors = problem.heat(space.high, space.low, self.percentile)
            order = sorted(range(len(errors)), key=lambda index: (-errors[index], index))
            found, _ = problem.promote(order, space.uniform(space.low), space.high)
        else:
            ranking = []
            for index in problem.free():
                alone = space.with_choices(space.uniform(space.high), {index: space.low})
                trial = yield Ask(alone, complete=True)
                ranking.append((trial.score.disagreements, index))
            found = demoted(problem, [index for _, index in sorted(ranking)])
        yield Ask(found)
        return found
