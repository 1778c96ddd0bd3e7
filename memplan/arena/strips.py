"""Strips: a loop over rows may make some columns of its result at a time, and the loop is carried out once per strip.

Its line buffers are then as narrow as a strip, and wider by what the windows behind them reach over its borders: these
columns, the halo, are made again for every strip that needs them. Rows are kept as before, so a halo has two sides, not
four.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tinyhil.memplan.arena.row_stages import Rows

Columns = tuple[int, int]  # [begin, end)


def strips_of(part: Sequence[Rows], whole_tensors: Collection[str], count: int) -> list[Mapping[str, Columns]]:
    """Of each strip, the columns of every tensor that the stages of `part` make in it. Strips share evenly in the last
    result and in what others read, too (`whole_tensors`); of all else there is what these need."""
    widths = {stage.target: stage.whole.width for stage in part}
    if count == 1:
        return [{name: (0, width) for name, width in widths.items()}]
    whole = {*whole_tensors, part[-1].target}
    found: list[Mapping[str, Columns]] = []
    for number in range(count):
        share = {name: (number * width // count, (number + 1) * width // count) for name, width in widths.items()}
        columns = {name: share[name] for name in whole}
        for stage in reversed(part):
            made = columns.setdefault(stage.target, share[stage.target])
            for one in stage.reads:
                if one.name in widths:
                    begin, end = one.columns(*made)
                    others = columns.get(one.name, (begin, end))
                    columns[one.name] = min(begin, others[0]), max(end, others[1])
        found.append(columns)
    return found
