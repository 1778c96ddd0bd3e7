"""HAUNTER, the bit-width search of MinUn (Jaiswal et al., LCTES 2023, section 5, algorithms 4 to 8).

Phase I decides the scales of fixed point: from profiled ranges, so that nothing profiled overflows
(`tinyhil.formats.fixed.exponent_for`), and the pair of widths from one homogeneous run per width on offer. Phase II
orders the tensors by the error that the low width causes per element. Phase III promotes in that order as far as
memory allows.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tinyhil.errors import ConfigError
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.space import Choice
from tinyhil.search.trial import Trial


@dataclass(frozen=True, slots=True)
class Haunter:
    """`soft_limit_factor` times the limit is what phase III promotes up to: beyond 1 trials may exceed the limit, which
    are never the result."""

    soft_limit_factor: float = 1.0
    percentile: float = 95.0
    permit_overflow: bool = (
        False  # Shiftry's trade (section 6.1): twice the resolution of the low width, half its range
    )

    name: ClassVar[str] = "haunter"
    source: ClassVar[str] = "MinUn (LCTES 2023), section 5, algorithms 4-8"

    def __post_init__(self) -> None:
        if not 0.0 < self.soft_limit_factor <= 1e6 or not 0.0 <= self.percentile <= 100.0:
            raise ConfigError(
                "haunter: soft_limit_factor must be above 0 and at most a million, percentile between 0 and 100"
            )

    def propose(self, problem: SearchProblem) -> Asking:
        low, high = yield from choose_pair(problem)
        if self.permit_overflow:
            low = Choice(low.format, -1)
        order = promotion_order(problem, problem.heat(high, low, self.percentile))
        yield Ask(problem.space.uniform(low))  # run for the heat map anyway: a candidate like others
        yield from promotions(problem, order, low, high, self.soft_limit_factor)
        return None


def choose_pair(problem: SearchProblem) -> Generator[Ask, Trial, tuple[Choice, Choice]]:
    """Phase I: of each width the best format on offer (es of posits), by homogeneous runs; then, if there are more
    than two, the two neighbouring widths that enclose the float model's accuracy."""
    by_width: dict[int, list[Choice]] = {}
    for name in problem.space.formats:
        by_width.setdefault(Choice(name).bits, []).append(Choice(name))
    qualities: list[tuple[Choice, float]] = []
    for width in sorted(by_width):
        offered = by_width[width]
        if len(offered) == 1 and len(by_width) == 2:  # nothing to choose
            qualities.append((offered[0], 0.0))
            continue
        found: list[tuple[float, int, Choice]] = []
        for choice in offered:
            trial = yield Ask(problem.space.uniform(choice), complete=True)
            found.append((trial.quality, int(choice.format.partition("es")[2] or 0), choice))
        quality, _, best = max(found, key=lambda entry: entry[:2])  # of equally good posits the one of the larger es
        qualities.append((best, quality))
    return enclosing(problem, qualities)


def enclosing(problem: SearchProblem, qualities: Sequence[tuple[Choice, float]]) -> tuple[Choice, Choice]:
    """The first neighbours of which the wider is as good as float; a pair whose narrower width fits the limit nowhere
    gives way to the next narrower one."""
    if len(qualities) == 1:
        (only, _), *_ = qualities
        return only, only
    first = next(
        (i for i, (_, quality) in enumerate(qualities[1:]) if quality >= problem.float_quality), len(qualities) - 2
    )
    while first > 0 and not problem.fits(problem.space.uniform(qualities[first][0])):
        first -= 1
    return qualities[first][0], qualities[first + 1][0]


def promotion_order(problem: SearchProblem, errors: Sequence[float]) -> list[int]:
    """Groups by decreasing promotability, the error per element."""
    groups = problem.space.groups
    return sorted(range(len(groups)), key=lambda index: (-errors[index] / max(1, groups[index].elements), index))


def promotions(
    problem: SearchProblem, order: Sequence[int], low: Choice, high: Choice, factor: float = 1.0
) -> Generator[Ask, Trial, None]:
    """Phase III: as it comes, then each overshooting tensor in front, then all of them in front together."""
    start = problem.space.uniform(low)
    first, overshooting = problem.promote(order, start, high, factor)
    yield Ask(first)
    for index in overshooting:
        alone = problem.space.with_choices(start, {index: high})
        if problem.fits(alone, factor):
            yield Ask(problem.promote(order, alone, high, factor)[0])
    if overshooting:  # in front together, as many as there is room for
        yield Ask(problem.promote([*overshooting, *order], start, high, factor)[0])
