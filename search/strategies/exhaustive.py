"""Every assignment of a small model: what the others are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product
from typing import ClassVar

from tinyhil.errors import ConfigError
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.space import Choice

FORESEEN = 64  # before the first of them is asked, for several processes


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """`arena_only`: constants and the input stay wide, as they take no RAM of the arena."""

    most_groups: int = 12
    arena_only: bool = True

    name: ClassVar[str] = "exhaustive"
    source: ClassVar[str] = "MinUn (LCTES 2023), section 5: what phase III approximates"

    def propose(self, problem: SearchProblem) -> Asking:
        """ConfigError for too many assignments."""
        space = problem.space
        free = problem.in_ram() if self.arena_only else tuple(range(len(space.groups)))
        if len(free) > self.most_groups:
            raise ConfigError(
                f"exhaustive: {len(free)} tensors are free, {len(space.formats)}^{len(free)} assignments; "
                f"the limit is {self.most_groups}: take another strategy, or --set most_groups={len(free)}"
            )
        wide = space.uniform(space.high)
        choices = [Choice(name) for name in reversed(space.formats)]
        combinations = product(choices, repeat=len(free))
        while several := list(islice(combinations, FORESEEN)):
            candidates = [space.with_choices(wide, dict(zip(free, chosen, strict=True))) for chosen in several]
            fitting = [candidate for candidate in candidates if problem.fits(candidate)]
            problem.foresee(fitting)
            for candidate in fitting:
                yield Ask(candidate)
        return None
