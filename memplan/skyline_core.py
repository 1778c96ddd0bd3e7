"""Many buffers laid into the valleys of a skyline (skyline_core.c is the same in C, and some hundred times faster).

The skyline is what lies so far, seen from above: levels of equal height, each over some sections. The lowest one is a
valley, and of the buffers that lie within it the best rests on its floor. If none fits, or a wall is no higher than the
floor, the floor is raised to the lower wall; what is between is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from time import monotonic

import numpy as np
from numpy.typing import NDArray

LOOKED_AT, PASSED_OVER = 32, 256  # buffers at each end of a valley: those that fit, and all
NO_WALL = (1 << 63) - 1  # bytes

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Buffers by the first section in which they are live, of those the longest first; `last` is not included.

    `by_last` has those live last first; `from_first` and `from_last` say for every section where to begin to look in
    these two orders.
    """

    first: Numbers
    last: Numbers
    size: Numbers
    alignment: Numbers
    by_last: Numbers
    from_first: Numbers
    from_last: Numbers


@dataclass(frozen=True, slots=True)
class Weighing:
    """`before`: the weights of all earlier sections. Bytes x weight that may be lost beside a buffer count `gap_cost`
    times those that it covers, a quarter of that where the gap is `fillable` sections wide."""

    before: NDArray[np.float64]
    gap_cost: float
    fillable: float


@dataclass(slots=True)
class _Level:
    first: int
    last: int
    height: int
    left: _Level | None
    right: _Level | None
    is_gone: bool = False


class _Fill:
    """The skyline and who is left."""

    def __init__(self, crowd: Crowd, weighing: Weighing) -> None:
        self.first, self.last, self.size = (part.tolist() for part in (crowd.first, crowd.last, crowd.size))
        self.alignment, self.by_last = crowd.alignment.tolist(), crowd.by_last.tolist()
        self.from_first, self.from_last = crowd.from_first.tolist(), crowd.from_last.tolist()
        self.before = weighing.before.tolist()
        self.gap_cost, self.fillable, self.largest = weighing.gap_cost, weighing.fillable, float(max(self.size))
        count = len(self.size)
        self.next_first, self.next_last = list(range(count + 1)), list(range(count + 1))
        self.place = np.argsort(crowd.by_last).tolist()
        self.offset = [0] * count
        self.levels: list[tuple[int, int, int, _Level]] = []  # the lowest first, of those the earliest
        self.added = 0

    def run(self, seconds: float | None) -> list[int] | None:
        stop = None if seconds is None else monotonic() + seconds
        self._add(0, len(self.before) - 1, 0, None, None)
        left = len(self.size)
        while left:
            valley = heappop(self.levels)[-1]
            if valley.is_gone:
                continue
            chosen = self._choose(valley)
            if chosen is None:
                self._raise(valley)
                continue
            self._lay(valley, chosen)
            left -= 1
            if stop is not None and not left & 255 and monotonic() > stop:
                return None
        return self.offset

    def _add(self, first: int, last: int, height: int, left: _Level | None, right: _Level | None) -> _Level:
        level = _Level(first, last, height, left, right)
        if left is not None:
            left.right = level
        if right is not None:
            right.left = level
        self.added += 1
        heappush(self.levels, (height, first, self.added, level))
        return level

    def _choose(self, valley: _Level) -> int | None:
        """The best one of those that begin soon after the valley does, and that end shortly before it."""
        walls = _depth(valley, valley.left), _depth(valley, valley.right)
        if not all(walls):
            return None
        best, most = None, 0.0
        for by_last in (False, True):
            looked = 0
            for i in self._near(valley, by_last):
                if self.first[i] < valley.first or self.last[i] > valley.last:
                    continue
                looked += 1
                worth = self._worth(valley, walls, i)
                if best is None or worth > most:
                    best, most = i, worth
                if looked == LOOKED_AT:
                    break
        return best

    def _near(self, valley: _Level, by_last: bool) -> list[int]:
        """Those left that begin in the valley, or that end in it, the outermost first."""
        found: list[int] = []
        following = self.next_last if by_last else self.next_first
        at = _left_from(following, self.from_last[valley.last] if by_last else self.from_first[valley.first])
        while at < len(self.size) and len(found) < PASSED_OVER:
            i = self.by_last[at] if by_last else at
            if self.last[i] <= valley.first if by_last else self.first[i] >= valley.last:
                break
            found.append(i)
            at = _left_from(following, at + 1)
        return found

    def _worth(self, valley: _Level, walls: tuple[int, int], i: int) -> float:
        first, last, size = self.first[i], self.last[i], self.size[i]
        covered = self.largest * (self.before[last] - self.before[first])
        beside = self._lost(valley.first, first, walls[0], size) + self._lost(last, valley.last, walls[1], size)
        return covered - self.gap_cost * beside

    def _lost(self, start: int, end: int, depth: int, size: int) -> float:
        """Bytes x weight that are lost between a buffer and a wall, less where the gap is wide enough to be filled."""
        share = 1.0 + (end - start) / self.fillable
        return float(min(depth, size)) * (self.before[end] - self.before[start]) / (share * share)

    def _raise(self, valley: _Level) -> None:
        """The floor is raised to the lower wall, which it joins."""
        to_left, to_right = _depth(valley, valley.left), _depth(valley, valley.right)
        up = min(to_left, to_right)
        valley.is_gone = True
        first, last, left, right = valley.first, valley.last, valley.left, valley.right
        if left is not None and to_left == up:
            left.is_gone = True
            first, left = left.first, left.left
        if right is not None and to_right == up:
            right.is_gone = True
            last, right = right.last, right.right
        self._add(first, last, valley.height + up, left, right)

    def _lay(self, valley: _Level, i: int) -> None:
        offset, left = -(-valley.height // self.alignment[i]) * self.alignment[i], valley.left
        self.offset[i] = offset
        self.next_first[i] = i + 1
        self.next_last[self.place[i]] = self.place[i] + 1
        valley.is_gone = True
        if valley.first < self.first[i]:
            left = self._add(valley.first, self.first[i], valley.height, left, None)
        left = self._add(self.first[i], self.last[i], offset + self.size[i], left, valley.right)
        if self.last[i] < valley.last:
            self._add(self.last[i], valley.last, valley.height, left, valley.right)


def _depth(valley: _Level, wall: _Level | None) -> int:
    return NO_WALL if wall is None else wall.height - valley.height


def _left_from(following: list[int], at: int) -> int:
    """The first place from `at` on that is still left."""
    while following[at] != at:
        following[at] = following[following[at]]
        at = following[at]
    return at


def fill_python(crowd: Crowd, weighing: Weighing, seconds: float | None) -> Numbers | None:
    """Offsets of the buffers; None if that takes longer."""
    offsets = _Fill(crowd, weighing).run(seconds)
    return None if offsets is None else np.array(offsets)
