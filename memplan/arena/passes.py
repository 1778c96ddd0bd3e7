"""What may be done to a program so that it needs less memory: one record per pass, in the order they are tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryPass:
    """A pass by name, with its contract: what it looks at (`before`), and what holds of the result (`after`)."""

    name: str
    summary: str
    before: str
    after: str


IN_PLACE = MemoryPass(
    "in-place",
    "element-wise operations and next states may write over an operand that nobody reads afterwards",
    "program",
    "same program; aliases of equal bytes, which the planner may decline",
)
VIEWS = MemoryPass(
    "views",
    "parts may lie where the whole lies: Split, Slice, Concat along the outermost axis",
    "program",
    "same program; aliases with offsets, which the planner may decline",
)
GAPS = MemoryPass(
    "gaps",
    "a loop state holds nothing between its last reader and its writer",
    "live ranges of loop states",
    "same program; ranges in two pieces",
)
ORDER = MemoryPass(
    "order",
    "operations of a level may change places",
    "program",
    "same operations, each still after all that it reads",
)
ROWS = MemoryPass(
    "rows",
    "chains of convolutions, pools and element-wise operations go row by row through line buffers",
    "program already planned",
    "each row made once, same integers; loops over rows of tables",
)
PASSES: tuple[MemoryPass, ...] = (IN_PLACE, VIEWS, GAPS, ORDER, ROWS)
ALL_NAMES = frozenset(one.name for one in PASSES)
