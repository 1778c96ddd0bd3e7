"""Two line buffers in one ring of rows: a depthwise layer or a pool makes its row where the oldest row of its operand
lies, and the row stays there as long as windows behind it need it (row_overlap.py has those that are read at once).

Rows of both follow each other in the ring, so it holds as many as are live together, in the order in which a loop makes
them, not the most of one and the most of the other. Rows of padding above the operand lie in the ring, too: zeros that
are there before the loop, so that every row that is read first dies with the row made over it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tinyhil.language.program import Program
from tinyhil.memplan.arena.row_overlap import lag_of_rows
from tinyhil.memplan.arena.row_schedule import Links, Made, overwritten
from tinyhil.memplan.arena.row_stages import Reads, Rows, Stage
from tinyhil.memplan.arena.strips import Columns
from tinyhil.ops import conv, rows

ALWAYS = -1  # the instant before the loop


@dataclass(frozen=True, slots=True)
class SharedRing:
    """The stage at `at` makes `result` over rows of `line`, in a ring of `slots` rows for both; `above`: rows of
    padding before the line's first, each of the code `padding`."""

    at: int
    line: str
    result: str
    slots: int
    above: int
    padding: int

    def slot_elements(self, program: Program, part: Sequence[Stage], columns: Mapping[str, Columns]) -> int:
        """Of one row where the stages make these columns, what the result begins below its operand among them."""
        begin, end = columns[self.line]
        channels = part[self.at].reads[0].planes.channels
        return channels * (end - begin) + self.lag(program, part, columns)

    def lag(self, program: Program, part: Sequence[Stage], columns: Mapping[str, Columns]) -> int:
        """Elements by which a row of the result begins below that of its operand."""
        return lag_of_rows(program, part[self.at], columns)


def shared_rings_of(
    part: Sequence[Stage], order: Sequence[Made], rings: Mapping[str, int], inner: Collection[str]
) -> list[SharedRing]:
    """Which line buffers of a loop, of `rings` rows each, may lie in one of fewer rows; each buffer in one at most."""
    links, taken, found = Links.of(part), set[str](), list[SharedRing]()
    for at, stage in enumerate(part):
        if not stage.by_channel or not _may_share(part, links, at, inner):
            continue
        line, result = stage.reads[0].name, stage.target
        if rings[result] < 2:  # read at once: row_overlap.py
            continue
        slots = _fewest_slots(part, links, order, at, rings[line] + rings[result] - 1)
        heights = stage.reads[0].planes.height, stage.out.height
        if {line, result} & taken or slots is None or slots >= min(heights):
            continue
        window = stage.reads[0].window
        assert window is not None
        taken |= {line, result}
        found.append(SharedRing(at, line, result, slots, window.pad_y, stage.op.params.get("pad", 0)))
    return found


def _may_share(part: Sequence[Stage], links: Links, at: int, inner: Collection[str]) -> bool:
    """Whether the row that a stage makes may stay where the oldest row of its operand was, as far as others go."""
    stage, (read, *_) = part[at], part[at].reads
    line, result, w = read.name, stage.target, read.window
    if w is None or (w.stride_y, w.dilation_y) != (1, 1) or not {line, result} <= {*inner} or stage.is_part_of_more:
        return False
    pads_with_code = stage.op.kernel.base == conv.CONV.form.base
    if links.readers[line] != [at] or links.makers[result] != [at] or (w.pad_y and not pads_with_code):
        return False
    neighbours = [part[by] for by in (*links.makers[line], *links.readers[result])]
    by_element = rows.joined_of(stage.op) is not None  # over a whole operand, which a window is not
    return not by_element and all(overwritten(one, links) is None for one in (*neighbours, stage))


def _fewest_slots(part: Sequence[Stage], links: Links, order: Sequence[Made], at: int, most: int) -> int | None:
    """Of a ring whose slot n % slots has row n of the operand, counted from the first one of padding, then row n of
    the result; None if `most` are not enough, or a row would lie where another is needed."""
    made = {one: now for now, one in enumerate(order)}
    stage, above = part[at], part[at].reads[0].window.pad_y  # type: ignore[union-attr]
    height = stage.out.height
    sections: list[tuple[int, int, int]] = []  # number of a row, first and last instant
    makers = links.makers[stage.reads[0].name]
    for number in range(above + stage.reads[0].planes.height):
        born = [made[by, number - above] for by in makers] if number >= above else [ALWAYS]
        dies = made[at, min(number, height - 1)]
        sections.append((number, min(born), max(dies - (number < height), max(born))))
    last = _last_uses(part, links, stage.target, made)
    sections += ((row, made[at, row], max(made[at, row], last[row])) for row in range(height))
    live = _most_at_once(sections, len(order))
    return next((slots for slots in range(live, most + 1) if _are_apart(sections, slots)), None)


def _last_uses(part: Sequence[Rows], links: Links, name: str, made: Mapping[Made, int]) -> list[int]:
    """Of each row of a line the instant at which it is read for the last time."""
    height = part[links.makers[name][0]].whole.height
    last = [ALWAYS] * height
    for by in links.readers[name]:
        one: Reads = next(one for one in part[by].reads if one.name == name)
        for row in range(part[by].out.height):
            for needed in range(one.first(row), one.needed(row + 1)):
                last[needed] = max(last[needed], made[by, row])
    return last


def _most_at_once(sections: Sequence[tuple[int, int, int]], instants: int) -> int:
    changes = [0] * (instants + 2)
    for _, begin, end in sections:
        changes[begin + 1] += 1
        changes[min(end + 2, instants + 1)] -= 1
    most = live = 0
    for change in changes:
        live += change
        most = max(most, live)
    return most


def _are_apart(sections: Sequence[tuple[int, int, int]], slots: int) -> bool:
    """Whether no two rows that are live at one instant lie in one slot."""
    until = [ALWAYS - 1] * slots
    for number, begin, end in sorted(sections, key=lambda one: one[1:]):
        if begin <= until[number % slots]:
            return False
        until[number % slots] = end
    return True
