"""What an exact search has used up of its budget and what it knows so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from tinyhil.memplan.blocks import EXHAUSTED, FOUND, Block
from tinyhil.memplan.planner import Budget


@dataclass(slots=True)
class Account:
    """The budget as it is used up; `enough_bytes`: no lower peak is asked for."""

    budget: Budget
    nodes: int = 0
    started: float = field(default_factory=monotonic)

    def nodes_left(self) -> int:
        """Of the budget, not below 0."""
        return max(0, self.budget.nodes - self.nodes)

    def seconds_left(self) -> float | None:
        """Wall seconds; None: no limit of time."""
        if self.budget.seconds is None:
            return None
        return self.budget.seconds - self.elapsed()

    def elapsed(self) -> float:
        """Wall seconds since the search began."""
        return monotonic() - self.started

    def left(self) -> Budget:
        """What a planner may use up that is asked now."""
        seconds = self.seconds_left()
        return replace(self.budget, nodes=self.nodes_left(), seconds=None if seconds is None else max(1e-3, seconds))

    def spent(self) -> bool:
        """Whether nodes or seconds are used up."""
        seconds = self.seconds_left()
        return self.nodes_left() == 0 or (seconds is not None and seconds <= 0)


@dataclass(frozen=True, slots=True)
class Solved:
    """Offsets of the blocks (in their order), their peak, and the proven lower bound on it."""

    offsets: tuple[int, ...]
    peak: int
    lower: int

    def learn(self, blocks: Sequence[Block], height: int, state: int, offsets: tuple[int, ...], step: int) -> Solved:
        """What is known after a search at this height; peaks of canonical plans are multiples of `step`."""
        if state == FOUND:
            peak = max(offset + block.size_bytes for offset, block in zip(offsets, blocks, strict=True))
            return Solved(offsets, peak, self.lower) if peak < self.peak else self
        if state == EXHAUSTED:
            return replace(self, lower=max(self.lower, next_peak(height, step)))
        return self


def next_peak(height: int, step: int) -> int:
    """The smallest peak above `height` that a canonical plan can have."""
    return (height // step + 1) * step
