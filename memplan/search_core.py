"""Exact search over canonical positions: is there a plan of at most this height?

The readable form of search_core.c: same nodes, same order, same offsets. docs/measured/memplan_method.md explains it.

A plan is canonical if no block can be moved down: each rests on the floor or on another block. The state is a
skyline, a height per section. A valley is a run of equal height whose neighbours are higher; what covers a section
of it next either rests on the valley's floor or the floor is wasted up to the lower neighbour. The search branches
on one section: which block covers it, resting on the floor, or none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import or_
from time import monotonic

from tinyhil.memplan.blocks import EXHAUSTED, FAILING, FEWEST, FOUND, LOWEST, STOPPED, Instance, Result, Search

WALL = 1 << 60
PLACE, LIFT, SKIP = 0, 1, 2
CHOICE, SOLVED, FAILED = 0, 1, 2
FIRST_RESTART, RESTARTS_GROW, FINE = 700, 5, 1_000_000


@dataclass(slots=True)
class Frame:
    """One level of the search: the valley [a, b] at height v, its options, and where to undo to."""

    enter_events: int
    enter_changes: int
    a: int = 0
    b: int = 0
    v: int = 0
    option: int = 0
    forced: bool = False
    candidates: list[int] = field(default_factory=list)
    events: int = 0
    changes: int = 0
    conflict: int = 0  # a set of levels, as bits


def search_python(instance: Instance, search: Search) -> Result:
    """The search as `search_core.c` does it, in Python."""
    return _Searcher(instance, search).run()


class _Searcher:
    def __init__(self, instance: Instance, search: Search) -> None:
        self.search = search
        self.height = search.height
        self.sections = instance.sections
        self.alignment, self.high = instance.alignment, instance.high
        count = len(instance.alignment)
        self.end = count
        bounds = list(pairwise(instance.piece_start))
        pieces = list(zip(instance.first, instance.last, instance.size, strict=True))
        self.pieces = [pieces[begin:end] for begin, end in bounds]
        self.h = [0] * self.sections
        self.r = [0] * self.sections
        self.top = [-1] * self.sections
        self.flagged = [0] * count
        self.next = [*range(1, count + 1), 0]
        self.prev = [count, *range(count)]
        self.offset = [0] * count
        self.trail: list[tuple[list[int], int, int]] = []
        self.events: list[tuple[int, int, int, int]] = []
        self.frames: list[Frame] = []
        self.nodes = self.began = 0
        self.restart_after = FIRST_RESTART
        self.failures = [0] * self.sections
        self.levels_room = 4 * count + 64
        self.events_room = 2 * self.levels_room + 2 * self.sections + 3 * count + 16
        self.full = False
        self._measure()

    def _measure(self) -> None:
        self.start = [pieces[0][0] for pieces in self.pieces]
        self.stop = [pieces[-1][1] for pieces in self.pieces]
        self.least = [min(size for _, _, size in pieces) for pieces in self.pieces]
        self.most = [max(size for _, _, size in pieces) for pieces in self.pieces]
        self.gapped = [any(b[0] != a[1] + 1 for a, b in pairwise(pieces)) for pieces in self.pieces]
        spans = [reduce(or_, (((1 << (b - a + 1)) - 1) << a for a, b, _ in pieces)) for pieces in self.pieces]
        self.gapped_sections = [span for span, gapped in zip(spans, self.gapped, strict=True) if gapped]
        self.spans = spans
        self.equal = []
        latest: dict[object, int] = {}
        for i, pieces in enumerate(self.pieces):
            shape = (tuple(pieces), self.alignment[i], self.high[i])
            self.equal.append(latest.get(shape, -1))
            latest[shape] = i
            for first, last, size in pieces:
                for t in range(first, last + 1):
                    self.r[t] += size

    # State: every change goes through the trail, so that it can be undone.

    def _set(self, array: list[int], index: int, value: int) -> None:
        self.trail.append((array, index, array[index]))
        array[index] = value

    def _undo(self, changes: int, events: int) -> None:
        while len(self.trail) > changes:
            array, index, old = self.trail.pop()
            array[index] = old
        del self.events[events:]

    def _explain(self, a: int, b: int, events: int, level: int) -> int:
        """Which levels made the sections a..b what they are? A lift of c..d rests on c-1..d+1, what blocks with gaps
        may do there rests on all of their sections."""
        marked = self._span(a, b)
        conflict = 0
        for kind, first, last, at in reversed(self.events[:events]):
            if not (marked >> first) & ((1 << (last - first + 1)) - 1):
                continue
            if kind == LIFT:
                marked |= self._span(first - 1, last + 1)
            else:
                conflict |= 1 << at
        return conflict

    def _span(self, a: int, b: int) -> int:
        """The sections a..b as bits, with all sections of every block with gaps that has one of them."""
        span = ((1 << (b + 1)) - 1) & ~((1 << max(a, 0)) - 1)
        return reduce(or_, (sections for sections in self.gapped_sections if sections & span), span)

    # Looking at a state: runs of equal height, what can rest where.

    def _find_runs(self) -> None:
        self.run_at = [0] * self.sections
        self.run_a: list[int] = []
        self.run_b: list[int] = []
        self.run_v: list[int] = []
        t = 0
        while t < self.sections:
            v = self.h[t] if self.r[t] else WALL
            begin = t
            while t < self.sections and (self.h[t] if self.r[t] else WALL) == v:
                self.run_at[t] = len(self.run_a)
                t += 1
            self.run_a.append(begin)
            self.run_b.append(t - 1)
            self.run_v.append(v)
        runs = len(self.run_a)
        walled = [WALL, *self.run_v, WALL]
        self.run_w = [min(walled[q], walled[q + 2]) for q in range(runs)]
        self.run_count = [0] * runs
        self.run_least = [WALL] * runs
        self.run_hole = [WALL] * runs
        self.run_blocked = [False] * runs

    def _gapped_rests(self, i: int) -> bool:
        """A block with gaps rests on the highest of its sections; runs it may rest on later are blocked."""
        sections = [t for first, last, _ in self.pieces[i] for t in range(first, last + 1)]
        high = max(self.h[t] for t in sections)
        if min(self.h[t] for t in sections) == high:
            return True
        for t in sections:
            q = self.run_at[t]
            if self.run_v[q] == high:
                self.run_blocked[q] = True
            if self.run_v[q] < high:
                self.run_w[q] = min(self.run_w[q], high)
        return False

    def _lower_neighbours(self, i: int) -> None:
        """A block with gaps that does not rest here rests on something not placed yet, perhaps at another of its
        runs: above its runs that is as good as a neighbour of such a height."""
        rests_on = (j for j in self._unplaced() if j != i and self.spans[j] & self.spans[i])
        smallest = min((self.least[j] for j in rests_on), default=WALL)
        for first, last, _ in self.pieces[i]:
            for t in range(first, last + 1):
                q = self.run_at[t]
                self.run_w[q] = min(self.run_w[q], self.run_v[q] + smallest)

    def _is_candidate(self, i: int, q: int) -> bool:
        """May it be put on run q? Not where an equal plan is met elsewhere in the tree."""
        if self.flagged[i] or (self.equal[i] >= 0 and self.next[self.equal[i]] >= 0):
            return False
        j = self.top[self.start[i]]
        if j <= i or self.gapped[i] or self.gapped[j]:
            return True
        if self.least[i] != self.most[i] or self.least[j] != self.most[j]:
            return True
        if self.alignment[i] != 1 or self.alignment[j] != 1:
            return True
        same = self.start[i] == self.start[j] and self.stop[i] == self.stop[j]
        return not (same and self.offset[j] + self.most[j] == self.run_v[q])

    def _unplaced(self) -> list[int]:
        found = []
        i = self.next[self.end]
        while i != self.end:
            found.append(i)
            i = self.next[i]
        return found

    def _count_candidates(self) -> None:
        self.count = [0] * (self.sections + 1)
        for i in self._unplaced():
            q = self.run_at[self.start[i]]
            if self.gapped[i]:
                if not self._gapped_rests(i):
                    continue
                self._lower_neighbours(i)
            elif q != self.run_at[self.stop[i]] or self.run_v[q] >= self.run_w[q]:
                continue
            lead = -self.run_v[q] % self.alignment[i]
            if not self.gapped[i]:
                self.run_hole[q] = min(self.run_hole[q], lead + self.most[i])
            if not self._is_candidate(i, q):
                continue
            for first, last, _ in self.pieces[i]:
                q = self.run_at[first]
                self.run_count[q] += 1
                self.run_least[q] = min(self.run_least[q], lead + self.least[i])
                self.count[first] += 1
                self.count[last + 1] -= 1

    def _lift_one(self, level: int) -> int:
        """Raise one valley in which nothing can rest. 1: raised, 0: none to raise, -1: dead end."""
        for q, v in enumerate(self.run_v):
            rise = self.run_w[q] - v
            if rise <= 0 or self.run_count[q] or self.run_blocked[q]:
                continue
            a, b = self.run_a[q], self.run_b[q]
            dead = self.run_w[q] >= WALL or self.run_hole[q] <= rise  # what fits into the hole belongs there
            if dead or any(self.height - self.h[t] - self.r[t] < rise for t in range(a, b + 1)):
                for t in range(a, b + 1):
                    self.failures[t] += 1
                self.frames[level].conflict = self._explain(a - 1, b + 1, len(self.events), level)
                return -1
            if len(self.events) + 2 >= self.events_room:
                self.full = True  # run() stops at the next node
                return 0
            self.events.append((LIFT, a, b, level))
            for t in range(a, b + 1):
                self._set(self.h, t, self.run_w[q])
            return 1
        return 0

    def _choose_section(self, level: int) -> tuple[int, bool]:
        """The section to branch on and whether it must be covered; -1 where one can not be covered any more."""
        best, best_forced, best_key, count = -1, False, (WALL, WALL), 0
        for t in range(self.sections):
            count += self.count[t]
            q = self.run_at[t]
            v = self.run_v[q]
            if v >= self.run_w[q] or self.run_blocked[q]:
                continue
            waste = min(self.run_w[q] - v, self.run_least[q])  # if nothing rests here
            slack = self.height - self.h[t] - self.r[t]
            forced = slack < waste
            if count == 0:
                if forced:
                    self.failures[t] += 1
                    around = (self.run_a[q] - 1, self.run_b[q] + 1)
                    self.frames[level].conflict = self._explain(*around, len(self.events), level)
                    return -1, True
                continue
            key = (self._rank(t, count + (not forced), forced), slack if self.search.tie else v)
            if key < best_key:
                best, best_forced, best_key = t, forced, key
        return best, best_forced

    def _rank(self, t: int, options: int, forced: bool) -> int:
        if self.search.rule == FEWEST:
            return options
        if self.search.rule == LOWEST:
            return self.h[t]
        if self.search.rule == FAILING:
            return FINE * options // (1 + self.failures[t])
        return options if forced else FINE + options

    # Moving through the tree.

    def _enter(self, level: int) -> int:
        frame = Frame(len(self.events), len(self.trail))
        self.frames.append(frame)
        if self.next[self.end] == self.end:
            return SOLVED
        while True:
            self._find_runs()
            self._count_candidates()
            lifted = self._lift_one(level)
            if lifted < 0:
                return FAILED
            if not lifted:
                break
        section, frame.forced = self._choose_section(level)
        if section < 0:
            self.full |= not frame.forced  # no section at all: _lift_one stopped
            return FAILED
        q = self.run_at[section]
        frame.a, frame.b, frame.v = self.run_a[q], self.run_b[q], self.run_v[q]
        for i in self._unplaced():
            covers = any(first <= section <= last for first, last, _ in self.pieces[i])
            if covers and self._rests_on(i, q) and self._is_candidate(i, q):
                frame.candidates.append(i)
        frame.events, frame.changes = len(self.events), len(self.trail)
        return CHOICE

    def _rests_on(self, i: int, q: int) -> bool:
        if self.gapped[i]:
            return self._gapped_rests(i)
        return self.run_at[self.start[i]] == q and self.run_at[self.stop[i]] == q

    def _place(self, i: int, v: int, level: int) -> bool:
        at = v + -v % self.alignment[i]
        if at > self.high[i]:
            return False
        sections = [(t, size) for first, last, size in self.pieces[i] for t in range(first, last + 1)]
        if any(self.height - self.h[t] - self.r[t] < at - v for t, _ in sections):
            return False
        for t, size in sections:
            self._set(self.h, t, at + size)
            self._set(self.r, t, self.r[t] - size)
            self._set(self.top, t, i)
        self.offset[i] = at
        self._set(self.next, self.prev[i], self.next[i])
        self._set(self.prev, self.next[i], self.prev[i])
        self._set(self.next, i, -1)  # placed
        for j in self._unplaced():
            if self.flagged[j] and any(a <= d and c <= b for a, b, _ in self.pieces[i] for c, d, _ in self.pieces[j]):
                self._set(self.flagged, j, 0)
        self.events.append((PLACE, self.start[i], self.stop[i], level))
        return True

    def _take_next(self, level: int) -> bool:
        """Take the frame's next option, if there is one left."""
        frame = self.frames[level]
        self._undo(frame.changes, frame.events)
        while frame.option < len(frame.candidates):
            frame.option += 1
            if self._place(frame.candidates[frame.option - 1], frame.v, level):
                return True
        if frame.forced or frame.option > len(frame.candidates):
            return False
        frame.option += 1
        for i in frame.candidates:
            self._set(self.flagged, i, 1)
        self.events.append((SKIP, frame.a, frame.b, level))
        return True

    def _backtrack(self) -> int:
        """The last frame failed for the reason in its conflict: go back to a level that can change it."""
        while True:
            frame = self.frames.pop()
            self._undo(frame.enter_changes, frame.enter_events)
            if not self.frames:
                return -1
            level = len(self.frames) - 1
            above = self.frames[level]
            if not frame.conflict >> level & 1:  # this choice had no part in it
                above.conflict = frame.conflict
                continue
            above.conflict |= frame.conflict
            if self._take_next(level):
                return level
            self._close(level)

    def _close(self, level: int) -> None:
        """All options failed: the reason is theirs together, and why there were no others."""
        frame = self.frames[level]
        frame.conflict &= ~(1 << level)
        frame.conflict |= self._explain(frame.a - 1, frame.b + 1, frame.events, level)

    def _begin_anew(self) -> None:
        """Where the search failed it chooses first, so to begin anew with what was learnt is worth more nodes."""
        self._undo(self.frames[0].enter_changes, self.frames[0].enter_events)
        self.frames.clear()
        self.began = self.nodes
        self.restart_after += self.restart_after // RESTARTS_GROW

    def run(self) -> Result:
        if any(load > self.height for load in self.r):
            return Result(EXHAUSTED, (), 0)
        stop = monotonic() + self.search.max_seconds if self.search.max_seconds else None
        level = 0
        while True:
            if self.search.rule == FAILING and level and self.nodes - self.began >= self.restart_after:
                self._begin_anew()
                level = 0
            if self.full or self.nodes >= self.search.max_nodes or level + 2 >= self.levels_room:
                return Result(STOPPED, (), self.nodes)
            if stop is not None and monotonic() > stop:
                return Result(STOPPED, (), self.nodes)
            self.nodes += 1
            state = self._enter(level)
            if state == SOLVED:
                return Result(FOUND, tuple(self.offset), self.nodes)
            if state == CHOICE:
                if self._take_next(level):
                    level += 1
                    continue
                self._close(level)
            level = self._backtrack()
            if level < 0:
                return Result(STOPPED if self.full else EXHAUSTED, (), self.nodes)
            level += 1
