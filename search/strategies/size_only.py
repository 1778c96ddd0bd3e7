"""Size-only: HAUNTER's baseline that looks at the size of a tensor and not at its error (MinUn, table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.strategies.demotion import demoted


@dataclass(frozen=True, slots=True)
class SizeOnly:
    """All high, then the largest tensors demoted first, until the limit holds; one evaluation. `promote` is a way of
    our own: from all low, the smallest first, whatever the limit permits."""

    promote: bool = False

    name: ClassVar[str] = "size_only"
    source: ClassVar[str] = "MinUn (LCTES 2023), section 6, table 1"

    def propose(self, problem: SearchProblem) -> Asking:
        groups = problem.space.groups
        if self.promote:
            order = sorted(range(len(groups)), key=lambda index: (groups[index].elements, index))
            found, _ = problem.promote(order, problem.space.uniform(problem.space.low), problem.space.high)
        else:
            found = demoted(problem, sorted(problem.free(), key=lambda index: (-groups[index].elements, index)))
        yield Ask(found)
        return found
