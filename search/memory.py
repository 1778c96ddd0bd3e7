"""Planned RAM of a candidate, memoised: it depends only on the storage bytes of the groups in the arena."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from memplan import Plan, Problem
from search.space import Candidate, Space
from tinyhil.errors import ConfigError, ModelError
from tinyhil.formats.fixed import Fixed
from tinyhil.program import Program


class Placement(Protocol):
    """What the compiler decides about the arena of a program."""

    @property
    def problem(self) -> Problem: ...

    @property
    def plan(self) -> Plan: ...


@dataclass(frozen=True, slots=True)
class Memory:
    """`place` plans a program as the compiler does; `quick`, if given, cheaply and perhaps with more bytes."""

    space: Space
    place: Callable[[Program], Placement]
    quick: Callable[[Program], Plan] | None = None
    _planned: dict[tuple[int, ...], int] = field(default_factory=dict)
    _at_most: dict[tuple[int, ...], int] = field(default_factory=dict)

    def planned_bytes(self, candidate: Candidate) -> int:
        """The arena that the compiler would plan, the model input not counted."""
        key = self._key(candidate)
        if key not in self._planned:
            self._planned[key] = self.place(self.space.lower(candidate)).plan.peak_bytes
        return self._planned[key]

    def fits(self, candidate: Candidate, limit_bytes: int) -> bool:
        """The quick plan first: where that fits, no other is needed. What can not be lowered does not fit."""
        key = self._key(candidate)
        try:
            if self.quick is not None and key not in self._planned and key not in self._at_most:
                self._at_most[key] = self.quick(self.space.lower(candidate)).peak_bytes
            if self._at_most.get(key, limit_bytes + 1) <= limit_bytes:
                return True
            return self.planned_bytes(candidate) <= limit_bytes
        except ModelError:
            return False

    def require(self, limit_bytes: int) -> None:
        """ConfigError when not even the narrowest format everywhere fits; says what is live at the worst moment."""
        narrowest = self.space.uniform(self.space.low)
        least = self.planned_bytes(narrowest)
        if least <= limit_bytes:
            return
        placed = self.place(self.space.lower(narrowest))
        raise ConfigError(
            f"search: {limit_bytes} B of RAM are not feasible, the least is {least} B (every tensor in "
            f"{self.space.low.format}): {_live(placed)}; try --ram {least}"
        )

    def _key(self, candidate: Candidate) -> tuple[int, ...]:
        return tuple(Fixed(candidate[index].bits, 0).storage_bytes for index in self.space.arena())


def _live(placed: Placement) -> str:
    """What the plan holds at the instant that witnesses its bound, tensors in one place joined by '='."""
    plan = placed.plan
    instant = plan.witness if plan.witness is not None else placed.problem.buffers[0].start
    at: dict[int, list[str]] = {}
    sizes: dict[int, int] = {}
    for buffer in placed.problem.buffers:
        if buffer.live_at(instant):
            offset = plan.offsets[buffer.name]
            at.setdefault(offset, []).append(buffer.name)
            sizes[offset] = max(sizes.get(offset, 0), buffer.size_bytes)
    parts = [f"{' = '.join(at[offset])} {sizes[offset]} B" for offset in sorted(at, key=lambda o: -sizes[o])]
    return "live at once are " + ", ".join(parts)
