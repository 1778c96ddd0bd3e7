"""A candidate that costs least by some measure: where a search under limits can always return to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tinyhil.search.space import Candidate, Choice, Space

PASSES = 3


def least(
    space: Space, cost: Callable[[Candidate], float], known: Iterable[Candidate] = (), enough: float = float("-inf")
) -> Candidate:
    """The best of one format for all and of `known`, then one group after the other as long as that helps; ends where
    the cost is at most `enough`."""
    starts = [*space.starts(), *known]
    best = min(starts, key=cost)
    value = cost(best)
    for _ in range(PASSES):
        before = value
        for index in range(len(space.groups)):
            for name in space.offered(index):
                if value <= enough:
                    return best
                other = space.with_choices(best, {index: Choice(name)})
                if other != best and (found := cost(other)) < value:
                    best, value = other, found
        if value == before:
            break
    return best
