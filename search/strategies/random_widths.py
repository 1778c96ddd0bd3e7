"""Random assignments that fit: the control every other strategy has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tinyhil.errors import ConfigError
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.space import Candidate, Choice

FORESEEN = 16  # drawn before the first of them is asked, for several processes


@dataclass(frozen=True, slots=True)
class RandomWidths:
    """Widths drawn for each tensor, then random tensors demoted until the limit holds."""

    trials: int = 100

    name: ClassVar[str] = "random"
    source: ClassVar[str] = "control"

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise ConfigError("random: trials must be 1 or more")

    def propose(self, problem: SearchProblem) -> Asking:
        random = np.random.default_rng(problem.seed)
        for start in range(0, self.trials, FORESEEN):
            several = [_drawn(problem, random) for _ in range(min(FORESEEN, self.trials - start))]
            problem.foresee(several)
            for candidate in several:
                yield Ask(candidate)
        return None


def _drawn(problem: SearchProblem, random: np.random.Generator) -> Candidate:
    space = problem.space
    drawn = random.integers(0, len(space.formats), len(space.groups))
    candidate = tuple(Choice(space.formats[number]) for number in drawn)
    for index in random.permutation(len(space.groups)):
        if problem.fits(candidate):
            break
        candidate = space.with_choices(candidate, {int(index): space.low})
    return candidate
