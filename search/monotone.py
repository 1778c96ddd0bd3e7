"""What is known of candidates that fit a limit of RAM, and of those that do not, says it of others without a plan.

Who is narrower wherever it differs from one that fits takes no more, as long as formats of one width are the same: of
these not every one has the operations that save most. It is what moves are tried by; an answer is planned.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tinyhil.formats import named
from tinyhil.search.space import Candidate, Choice


@dataclass(frozen=True, slots=True)
class Known:
    """Under one limit."""

    fit: list[Candidate] = field(default_factory=list)
    exceed: list[Candidate] = field(default_factory=list)

    def says(self, candidate: Candidate) -> bool | None:
        """Whether it fits; None where nothing that is known tells."""
        if any(_is_within(candidate, other) for other in self.fit):
            return True
        return False if any(_is_within(other, candidate) for other in self.exceed) else None

    def learn(self, candidate: Candidate, *, fits: bool) -> None:
        """What was found out about a candidate."""
        (self.fit if fits else self.exceed).append(candidate)


def storage_bytes(choice: Choice) -> int:
    """Bytes of one element in RAM."""
    bits = named(choice.format).bits
    return 1 if bits <= 8 else 2 if bits <= 16 else 4


def _is_within(narrow: Candidate, wide: Candidate) -> bool:
    """Whether each group has the same choice, or fewer bytes."""
    return all(
        one == other or storage_bytes(one) < storage_bytes(other) for one, other in zip(narrow, wide, strict=True)
    )
