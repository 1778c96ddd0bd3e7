"""Demotion from the wide format for everything, in a given order, until the limits hold."""

from __future__ import annotations

from collections.abc import Iterable

from tinyhil.search.space import Candidate
from tinyhil.search.study import Study


def demoted(study: Study, order: Iterable[int]) -> Candidate:
    """The first that fits; where limits other than RAM count, brought back towards what is known to keep them."""
    candidate = study.space.uniform(study.space.high)
    for index in order:
        if study.fits(candidate):
            break
        candidate = study.space.having(candidate, {index: study.space.low})
    return study.repaired(candidate)
