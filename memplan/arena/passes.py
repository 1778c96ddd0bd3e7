"""What may be done to a program so that it needs less memory: one record per pass, in the order they are tried."""

from __future__ import annotations

from tinyhil.compiler_pass import Pass

IN_PLACE = Pass(
    "in-place",
    "element-wise operations, depthwise layers, pooling and next states may write over an operand read by nobody later",
    "program",
    "same program; aliases of equal bytes, which the planner may decline",
)
VIEWS = Pass(
    "views",
    "parts may lie where the whole lies: Split, Slice, Concat along the outermost axis",
    "program",
    "same program; aliases with offsets, which the planner may decline",
)
GAPS = Pass(
    "gaps",
    "a loop state holds nothing between its last reader and its writer",
    "live ranges of loop states",
    "same program; ranges in two pieces",
)
ORDER = Pass(
    "order",
    "operations of a level may change places",
    "program",
    "same operations, each still after all that it reads",
)
ROWS = Pass(
    "rows",
    "windows, sums, parts of a whole and element-wise operations go row by row, layers before a mean by channels",
    "program",
    "each row made once, same integers; loops over rows of tables, groups of channels",
)
PASSES: tuple[Pass, ...] = (IN_PLACE, VIEWS, GAPS, ORDER, ROWS)
ALL_NAMES = frozenset(one.name for one in PASSES)
