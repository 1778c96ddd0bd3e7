"""An answer that takes no more of anything than it must: what a search for the least RAM leaves wide for nothing."""

from __future__ import annotations

from dataclasses import replace

from tinyhil.errors import ModelError
from tinyhil.search.search_problem import SearchProblem
from tinyhil.search.space import Candidate, Choice
from tinyhil.search.trial import Trial

ROUNDED = 1e-9  # shares of samples are compared as floats


def slimmed(problem: SearchProblem, trial: Trial, wanted: float) -> Trial:
    """The trial with groups outside of the arena (constants, the input) as narrow as `wanted` quality and the limits
    allow, all of them at once if possible, else the largest first; RAM never grows."""
    fixed = set(problem.in_ram())
    loose = sorted(
        (i for i in range(len(problem.space.groups)) if i not in fixed), key=lambda i: -problem.space.groups[i].elements
    )
    if trial.quality < wanted - ROUNDED:
        return trial
    for indices in (loose, *([index] for index in loose)):
        for name in problem.space.formats:
            candidate = problem.space.with_choices(trial.candidate, dict.fromkeys(indices, Choice(name)))
            if _bits(problem, candidate) < _bits(problem, trial.candidate):
                trial = _better(problem, trial, candidate, wanted)
    return trial


def _better(problem: SearchProblem, trial: Trial, candidate: Candidate, wanted: float) -> Trial:
    """The candidate's trial if it is good enough, else the one before."""
    try:
        ram = problem.planned_bytes(candidate)
        if ram > trial.ram_bytes or not problem.fits(candidate):
            return trial
        found = replace(
            trial, candidate=candidate, ram_bytes=ram, score=problem.evaluator.score(problem.program(candidate))
        )
    except ModelError:
        return trial
    problem.charge(1.0)
    return found if found.quality >= wanted - ROUNDED else trial


def _bits(problem: SearchProblem, candidate: Candidate) -> int:
    """Of all groups together."""
    return sum(group.elements * choice.bits for group, choice in zip(problem.space.groups, candidate, strict=True))
