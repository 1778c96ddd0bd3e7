"""Rows over rows that die: a depthwise layer or a pool makes its row where the oldest row of its operand lies.

That row of the line buffer is needed by this row of the result alone, and no new one is made before the result was
read. So a loop needs no room for the result: it moves through the line buffer's slots (tinyhil/ops/rows.py). Kernels
that read and write element by element begin a little below the operand's row (memplan/arena/lag.py): every slot has
so many elements more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tinyhil.language.program import Program
from tinyhil.memplan.arena.lag import row_lag
from tinyhil.memplan.arena.row_schedule import Links, overwritten
from tinyhil.memplan.arena.row_stages import Reads, Stage
from tinyhil.memplan.arena.strips import Columns

Gain = tuple[int, Mapping[int, int]]  # of an overlap: bytes that its slots have more; by stages, those no more beside


@dataclass(frozen=True, slots=True)
class Overlap:
    """The stage at `at` makes its row in a slot of `line`, of which it is the only reader; `results`: that row, and
    what the stages behind make over it, up to the last."""

    at: int
    line: str
    results: tuple[str, ...]
    pace: int
    phase: int

    def lag(self, program: Program, part: Sequence[Stage], columns: Mapping[str, Columns]) -> int:
        """Elements that a slot has more where the stages make these columns."""
        return lag_of_rows(program, part[self.at], columns)


def lag_of_rows(program: Program, stage: Stage, columns: Mapping[str, Columns]) -> int:
    """Elements by which a row of a window's result begins below that of its operand where it makes these columns."""
    w = stage.reads[0].window_of(*columns[stage.target], stage.out.width)
    assert w is not None
    copies = any(program.tensors[name].blocks is not None for name in stage.op.inputs)
    return row_lag(w, copies=copies)


def overlaps_of(
    part: Sequence[Stage], links: Links, ring: Callable[[str], int], inner: Collection[str]
) -> list[Overlap]:
    """The results of a loop that may lie over rows of line buffers, which `inner` are and have `ring` rows each."""
    found = []
    for at, stage in enumerate(part):
        line = stage.reads[0].name if stage.by_channel else ""
        if line not in inner or links.readers[line] != [at] or not _is_for_it_alone(part, links, line):
            continue
        results, (read, slots) = _made_over(part, links, at, inner), (stage.reads[0], ring(line))
        if results and 1 < slots < read.planes.height and _dies(read, slots, stage.out.height):
            assert read.window is not None
            found.append(Overlap(at, line, results, read.window.stride_y % slots, -read.window.pad_y % slots))
    return found


def _is_for_it_alone(part: Sequence[Stage], links: Links, line: str) -> bool:
    """Whether a line's place is not that of an older tensor that its maker may overwrite, longer than for a step."""
    makers = [part[at] for at in links.makers[line]]
    return all(overwritten(maker, links) is None or len(maker.reads) == 1 for maker in makers)


def _made_over(part: Sequence[Stage], links: Links, at: int, inner: Collection[str]) -> tuple[str, ...]:
    """The result of a stage, that of the operation which may overwrite it, and so on; none if one is needed longer
    than the next stage takes."""
    results: list[str] = []
    maker: int | None = at
    while maker is not None:
        stage, name = part[maker], part[maker].target
        readers = links.readers.get(name, [])
        if stage.is_part_of_more or name not in inner or len(readers) != 1 or links.makers[name] != [maker]:
            return ()
        results.append(name)
        reader = part[readers[0]]
        if not all(_takes_row_by_row(one) for one in reader.reads if one.name == name):
            return ()
        maker = readers[0] if overwritten(reader, links) == name else None
    return tuple(results)


def _takes_row_by_row(one: Reads) -> bool:
    w = one.window
    return w is None or (w.kernel_y, w.stride_y, w.pad_y) == (1, 1, 0)


@lru_cache(maxsize=4096)
def _dies(read: Reads, slots: int, height: int) -> bool:
    """Whether no row that later ones need lies in the slot that each row of the result takes."""
    w = read.window
    assert w is not None
    for row in range(height - 1):
        taken = (row * w.stride_y - w.pad_y) % slots
        if any(n % slots == taken for n in range(read.first(row + 1), read.needed(row + 1))):
            return False
    return True


def least_together(
    lasting: Sequence[int], beside: Sequence[Sequence[int]], gains: Mapping[str, Sequence[Gain]]
) -> tuple[int, tuple[str, ...]]:
    """The least bytes at once, and which overlaps give them. In each strip so many bytes are `lasting`, and in each
    stage so many `beside` for an instant; `gains` of every overlap by strips. Where most is needed at once, an overlap
    that helps there is taken."""
    lasts, rest, left = list(lasting), [list(one) for one in beside], dict(gains)
    best: tuple[int, tuple[str, ...]] | None = None
    while True:
        most, strip, at = max((lasts[n] + max(one), n, one.index(max(one))) for n, one in enumerate(rest))
        if best is None or most < best[0]:
            best = most, tuple(name for name in gains if name not in left)
        key = next((key for key, by_strip in left.items() if by_strip[strip][1].get(at)), None)
        if key is None:
            return best
        for n, (more, less) in enumerate(left.pop(key)):
            lasts[n] += more
            for stage, size in less.items():
                rest[n][stage] -= size
