"""Accuracy-only: HAUNTER's baseline that looks at the error of a tensor and not at its size (MinUn, table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tinyhil.search.study import Ask, Asking, Study


@dataclass(frozen=True, slots=True)
class AccuracyOnly:
    """Promote in the order of decreasing error, within the limit; one evaluation."""

    percentile: float = 95.0

    name: ClassVar[str] = "accuracy_only"
    source: ClassVar[str] = "MinUn (LCTES 2023), section 6, table 1"

    def propose(self, study: Study) -> Asking:
        space = study.space
        errors = study.heat(space.high, space.low, self.percentile)
        order = sorted(range(len(errors)), key=lambda index: (-errors[index], index))
        found, _ = study.promote(order, space.uniform(space.low), space.high)
        yield Ask(found)
        return found
