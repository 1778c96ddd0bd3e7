"""Below a given height, whatever is in the way of a buffer is ejected and placed anew (eject_core.c is the same in C).

A buffer without a place, drawn by chance or the largest, goes where what it must eject weighs least; if that is
something, it weighs one more from then on. So what is hard to place is ejected seldom, and no two buffers eject each
other for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import NDArray

IMMOVABLE = 1 << 40  # the weight of a fixed buffer; no sum of other weights reaches it
STEPS_PER_LOOK_AT_THE_CLOCK = 1024
MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Movables:
    """Sizes and alignments (bytes), whether the offset is fixed, and which two are live at once (count x count)."""

    size: Sequence[int]
    alignment: Sequence[int]
    fixed: Sequence[bool]
    meets: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Limits:
    """The height in bytes, and after how many steps or wall seconds to give up; `seed`: of what is drawn, not 0.
    `largest`: the largest buffer without a place is next, not one by chance."""

    height: int
    steps: int
    seed: int
    seconds: float | None = None
    largest: bool = False


def eject_python(movables: Movables, offsets: Sequence[int], limits: Limits) -> tuple[list[int] | None, int]:
    """Offsets below the height, from those of a plan above it, or None; and the steps that were taken."""
    return _Ejection(movables, offsets, limits).run()


class _Ejection:
    def __init__(self, movables: Movables, offsets: Sequence[int], limits: Limits) -> None:
        self.movables, self.limits, self.chance = movables, limits, limits.seed
        self.meets = movables.meets.astype(bool).tolist()
        self.at = list(offsets)
        self.weight = [IMMOVABLE if fixed else 1 for fixed in movables.fixed]
        self.left: list[int] = []  # without a place
        self.by_start: list[int] = []
        self.by_end: list[int] = []
        for i, size in enumerate(movables.size):
            if self.at[i] + size > limits.height and not movables.fixed[i]:
                self.left.append(i)
            else:
                self._put(i)

    def _below(self, count: int) -> int:
        value = self.chance
        value ^= value << 13 & MASK
        value ^= value >> 7
        self.chance = value ^ (value << 17 & MASK)
        return (self.chance >> 11) % count

    def _next_left(self) -> int:
        if not self.limits.largest:
            return self._below(len(self.left))
        return max(range(len(self.left)), key=lambda at: self.movables.size[self.left[at]])

    def _end(self, i: int) -> int:
        return self.at[i] + self.movables.size[i]

    def _put(self, i: int) -> None:
        place = len(self.by_start)
        while place and self.at[self.by_start[place - 1]] > self.at[i]:
            place -= 1
        self.by_start.insert(place, i)
        place = len(self.by_end)
        while place and self._end(self.by_end[place - 1]) > self._end(i):
            place -= 1
        self.by_end.insert(place, i)

    def _candidates(self, i: int, starts: list[int], ends: list[int]) -> list[list[int]]:
        """Offsets right above and right below what is in the way, both ascending."""
        size, step = self.movables.size[i], self.movables.alignment[i]
        top = (self.limits.height - size) // step * step
        above = [-(-end // step) * step for end in (0, *(self._end(j) for j in ends))]
        below = [(self.at[j] - size) // step * step for j in starts if self.at[j] >= size]
        return [[at for at in above if at <= top] + [top], [at for at in below if at <= top]]

    def _cheapest(self, i: int) -> tuple[int, int]:
        """The weight of what is in the way, and the offset at which it is least; among equals by chance."""
        starts = [j for j in self.by_start if self.meets[i][j]]
        ends = [j for j in self.by_end if self.meets[i][j]]
        best, place, equals = IMMOVABLE, -1, 0
        for offsets in self._candidates(i, starts, ends) if self.movables.size[i] <= self.limits.height else ():
            begun = ended = cost = 0
            for at in offsets:
                while begun < len(starts) and self.at[starts[begun]] < at + self.movables.size[i]:
                    cost += self.weight[starts[begun]]
                    begun += 1
                while ended < len(ends) and self._end(ends[ended]) <= at:
                    cost -= self.weight[ends[ended]]
                    ended += 1
                equals = 1 if cost < best else equals + (cost == best)
                if cost < best or (cost == best < IMMOVABLE and not self._below(equals)):
                    best, place = cost, at
        return best, place

    def _place(self, i: int, at: int) -> None:
        end = at + self.movables.size[i]
        for j in [j for j in self.by_start if self.meets[i][j] and self.at[j] < end and self._end(j) > at]:
            self.by_start.remove(j)
            self.by_end.remove(j)
            self.left.append(j)
        self.at[i] = at
        self._put(i)

    def run(self) -> tuple[list[int] | None, int]:
        stop = monotonic() + self.limits.seconds if self.limits.seconds else None
        for step in range(self.limits.steps):
            if not self.left:
                return self.at, step
            if stop is not None and step % STEPS_PER_LOOK_AT_THE_CLOCK == 0 and monotonic() > stop:
                return None, step
            drawn = self._next_left()
            i, self.left[drawn] = self.left[drawn], self.left[-1]
            self.left.pop()
            cost, at = self._cheapest(i)
            if cost == IMMOVABLE:  # what is fixed leaves no room
                return None, step
            self.weight[i] += cost > 0
            self._place(i, at)
        return (None if self.left else self.at), self.limits.steps
