"""Planned RAM of a candidate, memoised, and whether it fits: the bound first, then a quick plan, then the compiler's.

What counts is the whole candidate, not the bytes it stores: parts are shown within their whole where both have one
format and scale, a window's patch has the format of what it is cut from, and constants decide which fusions apply.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from tinyhil.errors import Infeasible, ModelError
from tinyhil.language.program import Program
from tinyhil.memplan import Plan, Problem
from tinyhil.search.space import Candidate, Choice, Space

UNLIMITED = 1 << 40  # bytes, beside an accelerator, or where limits are swept over


class Placement(Protocol):
    """What the compiler decides about the arena of a program."""

    @property
    def program(self) -> Program:
        """The program after all passes."""

    @property
    def problem(self) -> Problem:
        """Its live ranges in bytes, as they were planned."""

    @property
    def plan(self) -> Plan:
        """The checked plan."""


@dataclass(frozen=True, slots=True)
class Memory:
    """`place` plans a program as the compiler does; `quick`, if given, cheaply and perhaps with more bytes; `floor`, if
    given, tells without planning what no plan can undercut."""

    space: Space
    place: Callable[[Program], Placement]
    quick: Callable[[Program], Plan] | None = None
    floor: Callable[[Program], int] | None = None
    option: str = "--ram"  # by which the limit was asked for
    _planned: dict[Candidate, int] = field(default_factory=dict)
    _at_most: dict[Candidate, int] = field(default_factory=dict)
    _at_least: dict[Candidate, int] = field(default_factory=dict)

    def planned_bytes(self, candidate: Candidate) -> int:
        """The arena that the compiler would plan, the model input not counted."""
        if candidate not in self._planned:
            self.placed(candidate)
        return self._planned[candidate]

    def placed(self, candidate: Candidate) -> Placement:
        """As the compiler would place it; only its bytes are remembered."""
        found = self.place(self.space.lower(candidate))
        self._planned[candidate] = found.plan.peak_bytes
        return found

    def fits(self, candidate: Candidate, limit_bytes: int) -> bool:
        """No plan is needed where the bound does not fit, no other where the quick one does; what can not be lowered
        does not fit."""
        try:
            if candidate not in self._planned and candidate not in self._at_least:
                self._look(candidate, limit_bytes)
            if self._at_least.get(candidate, 0) > limit_bytes:
                return False
            if self._at_most.get(candidate, limit_bytes + 1) <= limit_bytes:
                return True
            return self.planned_bytes(candidate) <= limit_bytes
        except ModelError:
            return False

    def require(self, limit_bytes: int) -> None:
        """Infeasible when no single format everywhere fits; says what is live at the worst moment, and the
        least."""
        if any(self._holds(Choice(name), limit_bytes) for name in self.space.formats):
            return
        candidate = self.least()
        least = self.planned_bytes(candidate)
        placed = self.place(self.space.lower(candidate))
        raise Infeasible(
            f"search: {limit_bytes} B of RAM are not feasible, the least is {least} B (every tensor in "
            f"{candidate[0].format}): {_live(placed)}; try {self.option} {least}",
            (self.option, least),
        )

    def _holds(self, choice: Choice, limit_bytes: int) -> bool:
        """As the compiler plans it; what can not be lowered does not."""
        with suppress(ModelError):
            return self.planned_bytes(self.space.uniform(choice)) <= limit_bytes
        return False

    def least(self) -> Candidate:
        """One format for all tensors, that of the smallest arena: of formats of one width not every one has the fused
        operations that save most. ModelError if none can be lowered."""
        found: Candidate | None = None
        unable: ModelError | None = None
        for name in self.space.formats:
            candidate = self.space.uniform(Choice(name))
            try:
                if found is None or self.planned_bytes(candidate) < self.planned_bytes(found):
                    found = candidate
            except ModelError as error:
                unable = unable or error
        if found is None:
            assert unable is not None
            raise unable
        return found

    def _look(self, candidate: Candidate, limit_bytes: int) -> None:
        """What is known without the compiler's plan; none is made where the bound alone decides."""
        program = self.space.lower(candidate)
        self._at_least[candidate] = 0 if self.floor is None else self.floor(program)
        if self.quick is not None and self._at_least[candidate] <= limit_bytes:
            self._at_most[candidate] = self.quick(program).peak_bytes


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
