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
from tinyhil.search.space import Choice
from tinyhil.search.study import Ask, Asking, Study
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

    def propose(self, study: Study) -> Asking:
        low, high = yield from choose_pair(study)
        if self.permit_overflow:
            low = Choice(low.format, -1)
        order = promotion_order(study, study.heat(high, low, self.percentile))
        yield Ask(study.space.uniform(low))  # run for the heat map anyway: a candidate like others
        yield from promotions(study, order, low, high, self.soft_limit_factor)
        return None


def choose_pair(study: Study) -> Generator[Ask, Trial, tuple[Choice, Choice]]:
    """Phase I: of each width the best format on offer (es of posits), by homogeneous runs; then, if there are more
    than two, the two neighbouring widths that enclose the float model's accuracy."""
    by_width: dict[int, list[Choice]] = {}
    for name in study.space.formats:
        by_width.setdefault(Choice(name).bits, []).append(Choice(name))
    ladder: list[tuple[Choice, float]] = []
    for width in sorted(by_width):
        offered = by_width[width]
        if len(offered) == 1 and len(by_width) == 2:  # nothing to choose
            ladder.append((offered[0], 0.0))
            continue
        found: list[tuple[float, int, Choice]] = []
        for choice in offered:
            trial = yield Ask(study.space.uniform(choice), complete=True)
            found.append((trial.quality, int(choice.format.partition("es")[2] or 0), choice))
        quality, _, best = max(found, key=lambda entry: entry[:2])  # of equally good posits the one of the larger es
        ladder.append((best, quality))
    return enclosing(study, ladder)


def enclosing(study: Study, ladder: Sequence[tuple[Choice, float]]) -> tuple[Choice, Choice]:
    """The first neighbours of which the wider is as good as float; a pair whose narrower width fits the limit nowhere
    gives way to the next narrower one."""
    if len(ladder) == 1:
        (only, _), *_ = ladder
        return only, only
    first = next((i for i, (_, quality) in enumerate(ladder[1:]) if quality >= study.float_quality), len(ladder) - 2)
    while first > 0 and not study.fits(study.space.uniform(ladder[first][0])):
        first -= 1
    return ladder[first][0], ladder[first + 1][0]


def promotion_order(study: Study, errors: Sequence[float]) -> list[int]:
    """Groups by decreasing promotability, the error per element."""
    groups = study.space.groups
    return sorted(range(len(groups)), key=lambda index: (-errors[index] / max(1, groups[index].elements), index))


def promotions(
    study: Study, order: Sequence[int], low: Choice, high: Choice, factor: float = 1.0
) -> Generator[Ask, Trial, None]:
    """Phase III: as it comes, then each overshooting tensor in front, then all of them in front together."""
    start = study.space.uniform(low)
    first, overshooting = study.promote(order, start, high, factor)
    yield Ask(first)
    for index in overshooting:
        alone = study.space.having(start, {index: high})
        if study.fits(alone, factor):
            yield Ask(study.promote(order, alone, high, factor)[0])
    if overshooting:  # in front together, as many as there is room for
        yield Ask(study.promote([*overshooting, *order], start, high, factor)[0])
