"""Size-only: HAUNTER's baseline that looks at the size of a tensor and not at its error (MinUn, table 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tinyhil.search.study import Ask, Asking, Study


@dataclass(frozen=True, slots=True)
class SizeOnly:
    """Promote the smallest tensors first, within the limit; one evaluation."""

    name: ClassVar[str] = "size_only"
    source: ClassVar[str] = "MinUn (LCTES 2023), section 6, table 1"

    def propose(self, study: Study) -> Asking:
        space = study.space
        order = sorted(range(len(space.groups)), key=lambda index: (space.groups[index].elements, index))
        found, _ = study.promote(order, space.uniform(space.low), space.high)
        yield Ask(found)
        return found
