"""Knuth's Algorithm X with dancing links, in the encoding of the MinUn paper: planning as exact cover.

Primary columns: the buffers, each to be covered exactly once. Secondary columns: the cells (unit of memory x
section of time), each covered at most once. A row says that a buffer starts at a certain unit. The column with the
fewest rows left is covered first; among equals the buffer of the largest area.

The height is tried from the lower bound upwards. The unit is the common divisor of all sizes, so nothing is lost;
when the table would grow beyond CELLS, the unit is doubled until it does not and sizes are rounded up to it:
the plan is then valid, but neither it nor a failure proves anything about fewer bytes.

`Links` is the algorithm for reading; cover_core.c does the same step for step, some hundred times faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from time import monotonic

from tinyhil.memplan import greedy_by_size
from tinyhil.memplan.blocks import EXHAUSTED, FOUND, NO_MEMORY, STOPPED, make_blocks, sections_of
from tinyhil.memplan.bound import Bound, lower_bound
from tinyhil.memplan.branch_and_bound import checked_size
from tinyhil.memplan.compiled_cores import cover_compiled
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.planner import Budget, Planner
from tinyhil.memplan.problem import Buffer, Plan, Problem, ProblemError

NAME = "algorithm-x"
CELLS = 300_000  # of the table of one height, about 50 MB of Python integers
MOST_LOOKED_AT = 5_000_000  # buffers times sections: about a second
CHOICES = 20_000  # rows chosen, over all heights


@dataclass(frozen=True, slots=True)
class Encoding:
    """The buffers by decreasing area, the sections of each, and bytes per unit."""

    buffers: tuple[Buffer, ...]
    sections: tuple[tuple[int, ...], ...]
    section_count: int
    unit: int
    exact: bool

    def units(self, buffer: Buffer) -> int:
        """Its size in units, rounded up."""
        return -(-buffer.size_bytes // self.unit)

    def rows(self, index: int, height: int) -> Iterator[int]:
        """The units at which the buffer may start below this height (in units)."""
        buffer = self.buffers[index]
        highest = height - self.units(buffer)
        if buffer.offset is not None:
            fixed = buffer.offset // self.unit
            yield from (fixed,) if fixed <= highest else ()
            return
        for start in range(highest + 1):
            if start * self.unit % buffer.alignment == 0:
                yield start

    def cells(self, height: int) -> int:
        """Nodes of the table at `height` units: one per row and one per cell that it covers."""
        return sum(
            max(0, height - self.units(b) + 1) * (1 + self.units(b) * len(s))
            for b, s in zip(self.buffers, self.sections, strict=True)
        )


def run(problem: Problem, budget: Budget) -> Plan:
    """Plan by exact cover within the budget; ProblemError for what it can not plan."""
    if len(problem.regions) > 1:
        raise ProblemError(f"planner {NAME}: it can not plan {len(problem.regions)} regions; the portfolio can")
    open_ended = problem.in_region(None, problem.regions[0].name)
    bound = lower_bound(problem)
    best = greedy_by_size.run(open_ended, budget)
    best = make_plan(problem, dict(best.offsets), NAME, bound=bound)
    if not best.proven and best.peak_bytes > (budget.enough_bytes or 0):
        best = _improve(problem, best, bound, budget)
    return checked_size(problem, best)


def _improve(problem: Problem, best: Plan, bound: Bound, budget: Budget) -> Plan:
    encoding = encode(problem, bound.bytes)
    unit = encoding.unit
    height, top = -(-bound.bytes // unit), (best.peak_bytes - 1) // unit
    left, per_height = min(CHOICES, budget.nodes), min(CHOICES, budget.nodes) // 4
    stop = None if budget.seconds is None else monotonic() + budget.seconds
    refuted = encoding.exact  # so far every smaller height is
    while height <= top and left > 0 and (stop is None or monotonic() < stop):
        state, placed, choices = cover(encoding, height, min(left, per_height), stop)
        left -= choices
        if state == FOUND:
            offsets = {b.name: 0 for b in problem.buffers} | placed
            found = make_plan(problem, offsets, NAME, bound=bound)
            best = found if found.peak_bytes < best.peak_bytes else best
            break
        refuted = refuted and state == EXHAUSTED
        if refuted:
            bound = Bound((height + 1) * unit, "search")
        height += 1 if refuted else max(1, (top - height) // 4)
    statement = f"no plan below {bound.bytes} B: exact covers exhausted, unit {unit} B" if bound.how == "search" else ""
    return make_plan(problem, dict(best.offsets), NAME, bound=bound, statement=statement)


def encode(problem: Problem, bound_bytes: int) -> Encoding:
    """Sections and units, coarse enough for the table to stay below CELLS at a tenth above the bound."""
    times = sections_of(make_blocks(problem))
    buffers = [buffer for buffer in problem.buffers if buffer.size_bytes]
    if len(buffers) * len(times) > MOST_LOOKED_AT:
        raise _too_many(len(buffers))
    live = {b.name: tuple(k for k, time in enumerate(times) if b.live_at(time)) for b in buffers}
    buffers.sort(key=lambda b: (-b.size_bytes * len(live[b.name]), b.start))
    unit = gcd(*(b.size_bytes for b in buffers), *(b.alignment for b in buffers if b.alignment > 1))
    fixed = gcd(*(b.offset for b in buffers if b.offset is not None))
    exact_unit = unit = gcd(unit, fixed)
    while True:
        sections = tuple(live[b.name] for b in buffers)
        encoding = Encoding(tuple(buffers), sections, len(times), unit, unit == exact_unit)
        height = -(-bound_bytes * 11 // (10 * unit))
        if encoding.cells(height) <= CELLS or height <= 1:
            break
        if any(b.offset is not None and b.offset % (2 * unit) for b in buffers):
            break
        unit *= 2
    if encoding.cells(height) > CELLS:
        raise _too_many(len(buffers))
    return encoding


def _too_many(buffers: int) -> ProblemError:
    return ProblemError(
        f"planner {NAME}: {buffers} buffers make a table of more than {CELLS} cells; use another planner"
    )


def cover(encoding: Encoding, height: int, choices: int, stop: float | None) -> tuple[int, dict[str, int], int]:
    """FOUND, EXHAUSTED or STOPPED at this height (in units), the offsets, and how many rows were chosen."""
    buffers = encoding.buffers
    rows = [tuple(encoding.rows(index, height)) for index in range(len(buffers))]
    table = [(encoding.units(b), s, r) for b, s, r in zip(buffers, encoding.sections, rows, strict=True)]
    seconds = None if stop is None else max(1e-9, stop - monotonic())
    found = cover_compiled(table, (encoding.section_count, height), choices, seconds)
    if found is not None and found[0] != NO_MEMORY:
        state, starts, chosen = found
        return state, {b.name: start * encoding.unit for b, start in zip(buffers, starts, strict=True)}, chosen
    links = Links(encoding, height)
    state = links.search(choices, stop)
    return state, links.offsets(encoding.unit), links.choices


class Links:
    """The table as circular lists: columns 1 .. buffers are primary, the cells follow; 0 is the root."""

    def __init__(self, encoding: Encoding, height: int) -> None:
        self.encoding = encoding
        buffers = len(encoding.buffers)
        columns = 1 + buffers + height * encoding.section_count
        self.left = list(range(columns))
        self.right = list(range(columns))
        for column in range(buffers + 1):
            self.left[column] = (column - 1) % (buffers + 1)
            self.right[column] = (column + 1) % (buffers + 1)
        self.up = list(range(columns))
        self.down = list(range(columns))
        self.column = list(range(columns))
        self.size = [0] * columns
        self.start_of = [0] * columns
        self.choices = 0
        self.chosen: list[int] = []
        for index, sections in enumerate(encoding.sections):
            units = encoding.units(encoding.buffers[index])
            for start in encoding.rows(index, height):
                first_cell = 1 + buffers
                cells = [
                    first_cell + section * height + unit for section in sections for unit in range(start, start + units)
                ]
                self._add_row([1 + index, *cells], start)

    def _add_row(self, columns: list[int], start: int) -> None:
        first = len(self.column)
        for place, column in enumerate(columns):
            node = first + place
            self.left.append(node - 1 if place else first + len(columns) - 1)
            self.right.append(node + 1 if place + 1 < len(columns) else first)
            self.up.append(self.up[column])
            self.down.append(column)
            self.down[self.up[column]] = node
            self.up[column] = node
            self.column.append(column)
            self.start_of.append(start)
            self.size[column] += 1

    def _cover(self, column: int) -> None:
        left, right, up, down = self.left, self.right, self.up, self.down
        right[left[column]], left[right[column]] = right[column], left[column]
        row = down[column]
        while row != column:
            node = right[row]
            while node != row:
                down[up[node]], up[down[node]] = down[node], up[node]
                self.size[self.column[node]] -= 1
                node = right[node]
            row = down[row]

    def _uncover(self, column: int) -> None:
        left, right, up, down = self.left, self.right, self.up, self.down
        row = up[column]
        while row != column:
            node = left[row]
            while node != row:
                self.size[self.column[node]] += 1
                down[up[node]], up[down[node]] = node, node
                node = left[node]
            row = up[row]
        right[left[column]], left[right[column]] = column, column

    def _smallest_column(self) -> int:
        best = column = self.right[0]
        while column:
            if self.size[column] < self.size[best]:
                best = column
            column = self.right[column]
        return best

    def search(self, choices: int, stop: float | None) -> int:
        """FOUND, EXHAUSTED or STOPPED; the stack holds the chosen row of each level."""
        node = self._descend()
        while True:
            if node is None:
                return FOUND
            if self.choices >= choices or (stop is not None and monotonic() > stop):
                return STOPPED
            while node == self.column[node]:  # all rows of this column were tried
                self._uncover(node)
                if not self.chosen:
                    return EXHAUSTED
                node = self.down[self._retract()]
            self.choices += 1
            self._choose(node)
            node = self._descend()

    def _descend(self) -> int | None:
        """Cover the smallest column and point at its first row; None if all buffers are placed."""
        if self.right[0] == 0:
            return None
        column = self._smallest_column()
        self._cover(column)
        return self.down[column]

    def _choose(self, row: int) -> None:
        self.chosen.append(row)
        node = self.right[row]
        while node != row:
            self._cover(self.column[node])
            node = self.right[node]

    def _retract(self) -> int:
        row = self.chosen.pop()
        node = self.left[row]
        while node != row:
            self._uncover(self.column[node])
            node = self.left[node]
        return row

    def offsets(self, unit: int) -> dict[str, int]:
        """Bytes from the bottom of each buffer, of the rows chosen."""
        found = {}
        for row in self.chosen:
            node = row
            while self.column[node] > len(self.encoding.buffers):
                node = self.right[node]
            found[self.encoding.buffers[self.column[node] - 1].name] = self.start_of[node] * unit
        return found


PLANNER = Planner(NAME, run, "exact cover with dancing links (MinUn)", exact=True)
