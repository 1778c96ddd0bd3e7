"""Demotion from the wide format for everything, in a given order, until the limits hold."""

from __future__ import annotations

from collections.abc import Iterable

from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate


def demoted(problem: SearchProblem, order: Iterable[int]) -> Candidate:
    """The first that fits; where limits other than RAM count, brought back towards what is known to keep them."""
    candidate = problem.space.uniform(problem.space.high)
    for index in order:
        if problem.fits(candidate):
            break
        candidate = problem.space.with_choices(candidate, {index: problem.space.low})
    return problem.repaired(candidate)
