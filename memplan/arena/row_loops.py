"""What a loop over the rows of some stages needs at once and computes again, in however many strips it is carried out.

Line buffers last from step to step or for an instant; beside them lie patches, and rows made over rows that die.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyhil.language.program import Op, Program, Role
from tinyhil.memplan.arena.core_times import CoreTime
from tinyhil.memplan.arena.row_costs import PRODUCTS
from tinyhil.memplan.arena.row_overlap import Gain, least_together, overlaps_of
from tinyhil.memplan.arena.row_schedule import Links, overwritten
from tinyhil.memplan.arena.row_shapes import Shapes, Span, Strips
from tinyhil.memplan.arena.row_stages import Stage, joined_parts
from tinyhil.memplan.arena.shared_rings import SharedRing, shared_rings_of
from tinyhil.memplan.arena.strips import Columns
from tinyhil.memplan.arena.windows_in_place import may_read_in_place

Uses = Mapping[str, tuple[int, int]]  # of each tensor the first and the last item that touches it


@dataclass(frozen=True, slots=True)
class _Line:
    """A line buffer: bytes of a column of a row, rows that it holds. `lasts`: from step to step; others are used in the
    step that makes them, by the stages of `span`. `under`: the result that may take its place."""

    column_bytes: int
    rows: int
    lasts: bool
    span: range
    under: str | None

    def size_bytes(self, columns: Columns) -> int:
        return self.column_bytes * self.rows * (columns[1] - columns[0])


def loop_over(
    program: Program, shapes: Shapes, span: Span, stages: Sequence[Stage], uses: Uses, time: CoreTime | None
) -> RowLoop | None:
    """None if the stages of these items do not all lead to the last one's result."""
    part = joined_parts(stages)
    if part is None or len(part) < 2:
        return None
    links, last = Links.of(part), part[-1].target
    if last in _inner(links, uses, span) or any(name not in links.readers for name in links.makers if name != last):
        return None
    return RowLoop(program, shapes, span, part, uses, time)


def _inner(links: Links, uses: Uses, span: Span) -> list[str]:
    """What is made in a loop and not touched behind it."""
    return [name for name in links.makers if uses[name][1] < span[1]]


class RowLoop:
    """A loop over `part`, the joined stages of the items `span`. `time`: by which strips and windows in place are
    weighed; None: only rows are asked for, each product once. `shared`: rings of two line buffers, which a loop may
    have that computes products again."""

    def __init__(
        self,
        program: Program,
        shapes: Shapes,
        span: Span,
        part: Sequence[Stage],
        uses: Uses,
        time: CoreTime | None,
    ) -> None:
        self._program, self._shapes, self._span, self.part, self._time = program, shapes, span, part, time
        self.links = Links.of(part)
        inner = _inner(self.links, uses, span)
        self._outside = [name for name in self.links.makers if name not in inner]
        self._lines = {name: self._line(name, uses) for name in inner}
        self._overlaps = overlaps_of(part, self.links, lambda name: self._lines[name].rows, self._lines)
        self._scratch = [row_scratch_bytes(program, stage.op) for stage in part]
        self._costs = [(time or PRODUCTS).of(program, stage.op) for stage in part]
        self._later = [
            time.in_place(program, stage.op) if time is not None and may_read_in_place(program, stage.op) else None
            for stage in part
        ]
        self._patched = {at for at, later in enumerate(self._later) if later is not None}
        is_shared = time is not None and any(stage.by_channel and stage.target in self._lines for stage in part)
        self.shared = shared_rings_of(part, *shapes.order(span, part), self._lines) if is_shared else []
        self.patch_bytes = max((self._scratch[at] for at in self._patched), default=0)
        self._needs: dict[tuple[int, bool, bool], tuple[int, tuple[str, ...]]] = {}

    @property
    def width(self) -> int:
        """Columns of the last result."""
        return self.part[-1].whole.width

    def cost(self, count: int, *, in_place: bool) -> int:
        """Of the rows of so many strips, the columns that more than one of these makes, and windows read `in_place`."""
        found, made = count * self._overheads, self._strips(count).made
        for stage, cost, later in zip(self.part, self._costs, self._later, strict=True):
            more = (later or 0) if in_place else 0
            found += more + (cost + more) * max(0, made[stage.target] - stage.out.width) // stage.out.width
        return found

    @cached_property
    def _overheads(self) -> int:
        """What the rows of one strip cost."""
        costs = self._time or PRODUCTS
        return sum(stage.out.height * costs.of_row(self._program, stage.op, stage.out.channels) for stage in self.part)

    def needs(self, count: int, *, in_place: bool, stays: bool) -> tuple[int, tuple[str, ...]]:
        """Bytes of the line buffers and of what lies beside them for an instant, in that of so many strips that needs
        the most; which results are made over rows that die. Without patches where windows are read `in_place`; `stays`:
        one ring is of both lines of those `shared`."""
        key = count, in_place and bool(self._patched), stays
        if key not in self._needs:
            shared = self.shared if stays else []
            scratch = [0 if in_place and at in self._patched else size for at, size in enumerate(self._scratch)]
            self._needs[key] = self._least(self._strips(count).different, scratch, shared)
        return self._needs[key]

    def _strips(self, count: int) -> Strips:
        return self._shapes.strips(self._span, self.part, self._outside, count)

    def _least(
        self, strips: Sequence[Mapping[str, Columns]], scratch: Sequence[int], shared: Sequence[SharedRing]
    ) -> tuple[int, tuple[str, ...]]:
        in_shared = {name for one in shared for name in (one.line, one.result)}
        overlaps = [one for one in self._overlaps if one.line not in in_shared]
        gains: dict[str, list[Gain]] = {one.results[0]: [] for one in overlaps}
        lasting, beside = list[int](), list[list[int]]()
        for columns in strips:
            sizes = self._sizes(columns)
            for both in shared:
                slot = both.slot_elements(self._program, self.part, columns)
                sizes |= {both.line: both.slots * slot * self._element_bytes(both.line), both.result: 0}
            lasting.append(sum(size for name, size in sizes.items() if self._lines[name].lasts))
            beside.append(self._beside(scratch, sizes))
            for one in overlaps:
                slots = self._lines[one.line].rows * self._element_bytes(one.line)
                less = {at: sizes.get(name, 0) for name in one.results for at in self._lines[name].span}
                gains[one.results[0]].append((slots * one.lag(self._program, self.part, columns), less))
        return least_together(lasting, beside, gains)

    def _beside(self, scratch: Sequence[int], sizes: Mapping[str, int]) -> list[int]:
        """Of each stage what is there for an instant."""
        found = list(scratch)
        for name, size in sizes.items():
            if size and not self._lines[name].lasts:
                for at in self._lines[name].span:
                    found[at] += size
        return found

    def _sizes(self, columns: Mapping[str, Columns]) -> dict[str, int]:
        """Bytes of the line buffers of a strip, without those whose place the result of their reader takes."""
        return {
            name: line.size_bytes(columns[name])
            for name, line in self._lines.items()
            if line.under is None or columns[line.under] != columns[name]
        }

    def _line(self, name: str, uses: Uses) -> _Line:
        makers, readers = self.links.makers[name], self.links.readers[name]
        under = None
        if len(readers) == 1 and overwritten(self.part[readers[0]], self.links) == name:
            under = self.part[readers[0]].target
        whole, tensor = self.part[makers[0]].whole, self._program.tensors[name]
        size = tensor.size_bytes if tensor.role == Role.ARENA else 0
        ring = min(self._shapes.ring(self.part, self.links, name, uses), whole.height)
        lasts = ring > 1 or len(makers) > 1 or len(readers) > 1
        return _Line(size // (whole.height * whole.width), ring, lasts, self.links.span(name), under)

    def _element_bytes(self, name: str) -> int:
        return self._program.tensors[name].format.storage_bytes


def row_scratch_bytes(program: Program, op: Op) -> int:
    """Of what an operation has for itself where it makes a row."""
    if not op.scratch:
        return 0
    scratch = program.tensors[op.scratch]
    return (scratch.row_count or scratch.count) * scratch.format.storage_bytes
