"""Which cells of a sweep the usual suite runs; the slow suite has the others, of which CI draws a tenth.

A sweep is a test with several `parametrize`: its cells are all pairs, triples and so on of their values, and most say
what others say. The usual suite runs its diagonal: the n-th value of the longest axis with the n-th of every other,
which begin again when they end. So every value of each axis is there, in ever other company, and as few cells as that
takes; where the diagonal has a hole, because a cell is slow by itself, a cell beside it shows what is missing.
`@pytest.mark.every_cell` is for sweeps whose pairs differ: an operator in formats of several families, say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import pytest

Value = tuple[int, ...]  # of an axis: which objects the parameters are
Cell = tuple[Value, ...]


def beside_the_diagonals(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Of these items, which are all usual ones, those that say what their likes say."""
    sweeps = defaultdict[str, dict[pytest.Item, Cell]](dict)
    for item in items:
        cell = cell_of(item)
        if len(cell) > 1:
            sweeps[item.nodeid.partition("[")[0]][item] = cell
    for cells in sweeps.values():
        diagonal = on_the_diagonal(list(cells.values()))
        yield from (item for item, cell in cells.items() if cell not in diagonal)


def cell_of(item: pytest.Item) -> Cell:
    """Where it stands on each axis of its sweep; nothing if it is none, or one that runs completely."""
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if item.get_closest_marker("every_cell"):
        return ()
    axes = (mark.args[0] for mark in item.iter_markers("parametrize"))
    names = (axis.replace(",", " ").split() if isinstance(axis, str) else axis for axis in axes)
    return tuple(tuple(id(params[name]) for name in axis if name in params) for axis in names)


def on_the_diagonal(cells: list[Cell]) -> set[Cell]:
    """Those on it, and those that show a value first which none of these has."""
    axes = [{value: n for n, value in enumerate(dict.fromkeys(values))} for values in zip(*cells, strict=True)]
    longest = max(range(len(axes)), key=lambda number: len(axes[number]))
    diagonal, shown = set[Cell](), set[tuple[int, Value]]()
    ranks = {cell: [axis[value] for axis, value in zip(axes, cell, strict=True)] for cell in cells}
    for cell, at in ranks.items():
        if all(rank == at[longest] % len(axis) for axis, rank in zip(axes, at, strict=True)):
            diagonal.add(cell)
            shown.update(enumerate(cell))
    for cell in cells:
        if not shown.issuperset(enumerate(cell)):
            diagonal.add(cell)
            shown.update(enumerate(cell))
    return diagonal
