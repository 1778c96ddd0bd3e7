"""Planned RAM of a candidate, memoised, and whether it fits: the bound first, then a quick plan, then the compiler's;
last, with rows or windows computed again, where the limit asks for that.

What counts is the whole candidate, not the bytes it stores: parts are shown within their whole where both have one
format and scale, a window's patch has the format of what it is cut from, and constants decide which fusions apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from tinyhil.errors import Infeasible, ModelError
from tinyhil.formats import named
from tinyhil.language.program import Program
from tinyhil.memplan import Plan, Problem
from tinyhil.search.space import Candidate, Choice, Space

MORE_SAVED = 1.25  # times the most that computing again saves of one format for all, it may save of a mixture
PRICED = "{}, with which {} for all tensors takes {}, in more time than is permitted now"
AT_LEAST = "--prefer least"
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


class ComputesAgain(Protocol):
    """Plans in which some products are made more than once, at a price that is paid."""

    def within(self, program: Program, arena_bytes: int) -> Placement | None:
        """The fastest within so many bytes; None if there is none at that price."""

    def smallest(self, program: Program) -> Placement:
        """The fewest bytes at that price."""

    def floor_bytes(self, program: Program) -> int:
        """None of these plans takes less."""

    def is_slow(self, program: Program) -> bool:
        """Whether a plan takes about a second, not milliseconds."""


@dataclass(frozen=True, slots=True)
class Memory:
    """`place` plans a program as the compiler does; `quick`, if given, cheaply and perhaps with more bytes; `floor`, if
    given, tells without planning what no plan can undercut that makes each product once. `again`, if given, plans what
    would need more by computing products again."""

    space: Space
    place: Callable[[Program], Placement]
    quick: Callable[[Program], Plan] | None = None
    floor: Callable[[Program], int] | None = None
    again: ComputesAgain | None = None
    option: str = "--ram"  # by which the limit was asked for
    beside: str = ""  # what else a board has within that limit, or beside it
    at_any_price: Callable[[Program], int | None] | None = None  # bytes of the least arena, whatever is computed again
    _planned: dict[Candidate, int] = field(default_factory=dict)
    _at_most: dict[Candidate, int] = field(default_factory=dict)
    _at_least: dict[Candidate, int] = field(default_factory=dict)
    _smallest: dict[Candidate, Placement] = field(default_factory=dict)  # of the candidate of least RAM
    _again_least: dict[Candidate, int] = field(default_factory=dict)
    _last: dict[Candidate, Program] = field(default_factory=dict)
    _most_saved: list[float] = field(default_factory=list)  # of each format for all, once that was asked
    _slow: list[bool] = field(default_factory=list)  # once that was asked
    _again: dict[Candidate, tuple[int, int | None]] = field(default_factory=dict)  # limit, and bytes planned for it

    def at_price(self, again: ComputesAgain) -> Memory:
        """The same, with what is computed again at another price; nothing that was planned is kept."""
        own = (self.space, self.place, self.quick, self.floor)
        return Memory(*own, again, self.option, self.beside, self.at_any_price)

    def _program(self, candidate: Candidate) -> Program:
        """Lowered; that of the candidate that was asked about last is known, and so is what `again` knows of it."""
        if candidate not in self._last:
            program = self.space.lower(candidate)
            self._last.clear()
            self._last[candidate] = program
        return self._last[candidate]

    @property
    def plans_slowly(self) -> bool:
        """Whether what computes again is planned, of so large a network that it takes long."""
        if not self._slow:
            self._slow.append(False)
            with suppress(ModelError):
                wide = self.space.lower(self.space.uniform(self.space.high))
                self._slow[0] = self.again is not None and self.again.is_slow(wide)
        return self._slow[0]

    def planned_bytes(self, candidate: Candidate, within: int = UNLIMITED) -> int:
        """The arena that the compiler would plan, `within` so many bytes if it can; the model input not counted."""
        if candidate not in self._planned:
            self._planned[candidate] = self.place(self._program(candidate)).plan.peak_bytes
        if self._planned[candidate] <= within or self.again is None:
            return self._planned[candidate]
        if not self._may_fit(self._planned[candidate], within):
            return self._planned[candidate]
        limit, found = self._again.get(candidate, (-1, None))
        if within > limit or (found is not None and found > within):
            placed = self.again.within(self._program(candidate), within)
            found = None if placed is None else placed.plan.peak_bytes
            self._again[candidate] = within, found
        return self._planned[candidate] if found is None else found

    def _may_fit(self, once_bytes: int, within: int) -> bool:
        """Whether it is worth to plan what is computed again, of a candidate of so many bytes without."""
        return once_bytes <= MORE_SAVED * self._saved() * within

    def _saved(self) -> float:
        """How many times less computing again takes of one format for all, of that for which it does most; of the
        smallest one where planning is slow."""
        if not self._most_saved:
            uniform = [self.space.uniform(Choice(name)) for name in self.space.formats]
            for candidate in [self.least()] if self.plans_slowly else uniform:
                with suppress(ModelError):
                    self._most_saved.append(self.planned_bytes(candidate) / max(1, self.fewest_bytes(candidate)))
        return max(self._most_saved, default=1.0)

    def _is_too_large(self, candidate: Candidate, limit_bytes: int) -> bool:
        """Whether bounds alone say so, whatever is computed again."""
        least = self._at_least.get(candidate, 0)
        if least <= limit_bytes:
            return False
        if self.again is None or not self._may_fit(least, limit_bytes):
            return True
        if candidate not in self._again_least:
            self._again_least[candidate] = self.again.floor_bytes(self._program(candidate))
        return self._again_least[candidate] > limit_bytes

    def least_bytes(self) -> int:
        """The fewest bytes of arena for which anything is known to be feasible: those that a refusal names."""
        return self.fewest_bytes(self.least())

    def arenas(self, candidate: Candidate) -> Iterator[int]:
        """Bytes of every schedule that takes less than the one before, from each product once down to the fewest."""
        fewest, at = self.fewest_bytes(candidate), self.planned_bytes(candidate)
        yield at
        while at > fewest and (lower := self.planned_bytes(candidate, at - 1)) < at:
            at = lower
            yield at

    def fewest_bytes(self, candidate: Candidate) -> int:
        """The smallest arena to be had, computing again where that is permitted."""
        return self._fewest(candidate).plan.peak_bytes

    def _fewest(self, least: Candidate) -> Placement:
        if least not in self._smallest:
            smallest = self.place if self.again is None else self.again.smallest
            self._smallest[least] = smallest(self._program(least))
        return self._smallest[least]

    def placed(self, candidate: Candidate, within: int = UNLIMITED) -> Placement:
        """As the compiler would place it."""
        program = self._program(candidate)
        found = None
        if self.again is not None and self.planned_bytes(candidate) > within:
            found = self.again.within(program, within)
        return found or self.place(program)

    def schedule_limit(self, candidate: Candidate, planned_bytes: int, within: int) -> int | None:
        """The bytes for which a candidate's schedule is to be chosen again, as `planned_bytes` were; None where nothing
        is computed twice."""
        if self.again is None or self.planned_bytes(candidate) <= planned_bytes:
            return None
        placed = self.again.within(self._program(candidate), planned_bytes)
        return within if placed is None else planned_bytes

    def fits(self, candidate: Candidate, limit_bytes: int) -> bool:
        """No plan is needed where the bound does not fit, no other where the quick one does; what can not be lowered
        does not fit."""
        try:
            if candidate not in self._planned and candidate not in self._at_least:
                self._look(candidate, limit_bytes)
            if self._is_too_large(candidate, limit_bytes):
                return False
            if self._at_most.get(candidate, limit_bytes + 1) <= limit_bytes:
                return True
            return self.planned_bytes(candidate, limit_bytes) <= limit_bytes
        except ModelError:
            return False

    def require(self, limit_bytes: int) -> None:
        """Infeasible when no single format everywhere fits; says what is live at the worst moment, and the
        least."""
        if any(self._holds(Choice(name), limit_bytes) for name in self.space.formats):
            return
        candidate = self.least()
        placed = self._fewest(candidate)
        least, limit = placed.plan.peak_bytes, f"{limit_bytes} B of {'RAM' if self.option == '--ram' else 'arena'}"
        remedy, named_bytes = f"try {self.option} {least}", least
        if self.beside and self.option == "--ram":  # which is all that the board has
            remedy, named_bytes = "choose a board with more RAM, or a smaller model", limit_bytes + 1
        remedy += self.unpermitted(limit_bytes, named_bytes)
        raise Infeasible(
            f"search: {limit} are not feasible, the least is {least} B{self.beside} (every tensor in "
            f"{candidate[0].format}): {_live(placed)}{whole_bytes(self.space)}; {remedy}",
            (self.option, least),
        )

    def unpermitted(self, limit_bytes: int, least_bytes: int) -> str:
        """What a refusal of `limit_bytes` of arena, which names `least_bytes`, says of a format for all tensors that
        keeps them, or takes least, in more time than is permitted; empty if none takes less."""
        found: list[tuple[int, str, str]] = []
        for name in self.space.formats if self.at_any_price is not None else ():
            with suppress(ModelError):
                assert self.at_any_price is not None
                took = self.at_any_price(self._program(self.space.uniform(Choice(name))))
                if took is not None:
                    found.append((took, name, AT_LEAST))
                if took is not None and took <= limit_bytes:
                    break
        return priced(found, limit_bytes, least_bytes, " B of arena")

    def _holds(self, choice: Choice, limit_bytes: int) -> bool:
        """As the compiler plans it; what can not be lowered does not."""
        with suppress(ModelError):
            return self.planned_bytes(self.space.uniform(choice), limit_bytes) <= limit_bytes
        return False

    def least(self, within: int = UNLIMITED) -> Candidate:
        """One format for all tensors, that of the smallest arena: of formats of one width not every one has the fused
        operations that save most. Where none is `within` so many bytes, one that is by computing again. ModelError if
        none can be lowered."""
        found = self._least(UNLIMITED)
        return found if self.again is None or self.planned_bytes(found) <= within else self._least(within)

    def _least(self, within: int) -> Candidate:
        found: Candidate | None = None
        unable: ModelError | None = None
        for name in self.space.formats:
            candidate = self.space.uniform(Choice(name))
            try:
                if found is None or self.planned_bytes(candidate, within) < self.planned_bytes(found, within):
                    found = candidate
            except ModelError as error:
                unable = unable or error
        if found is None:
            assert unable is not None
            raise unable
        return found

    def _look(self, candidate: Candidate, limit_bytes: int) -> None:
        """What is known without the compiler's plan; none is made where the bound alone decides."""
        program = self._program(candidate)
        self._at_least[candidate] = 0 if self.floor is None else self.floor(program)
        if self.quick is not None and self._at_least[candidate] <= limit_bytes:
            self._at_most[candidate] = self.quick(program).peak_bytes


def priced(found: Sequence[tuple[int, str, str]], limit_bytes: int, least_bytes: int, unit: str) -> str:
    """A remedy beside others: of formats, what they take where more time is spent, and what to type for it, the first
    that keeps the limit, else the least, if it is less than what is named without."""
    keeping = [one for one in found if one[0] <= limit_bytes]
    took, name, option = keeping[0] if keeping else min(found, default=(least_bytes, "", ""))
    return f", or {PRICED.format(option, name, f'{took}{unit}')}" if took < least_bytes else ""


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


def whole_bytes(space: Space) -> str:
    """Why narrower formats do not help, where some are offered; empty where none is."""
    narrow = any(named(name).bits < 8 for name in space.formats)
    return "; values of fewer than 8 bits take a byte each, constants alone are packed" if narrow else ""
