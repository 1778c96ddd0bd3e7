"""In which order rows are made: always the next row of the last result, before it what it needs, as late as possible.

That order is a constant. It is cut into steps in which every stage makes one row at most, in the stages' order, so that
a loop over the steps carries it out. What a line buffer must hold follows from it: the rows between the first one that
somebody still needs and the last one made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tinyhil.memplan.arena.row_stages import Outline, Reads, Rows, Stage

Made = tuple[int, int]  # stage, row


@dataclass(frozen=True, slots=True)
class Schedule:
    """`spans` (stages, steps, 2): the rows [begin, end) of each stage in each step. `rings`: of each tensor made, the
    rows that it holds. `local`: tensors whose rows are used in the step that makes them, and never later."""

    spans: np.ndarray
    rings: dict[str, int]
    local: frozenset[str]


def schedule_of(part: Sequence[Stage], whole_tensors: Collection[str] = ()) -> Schedule:
    """Rows of `part`; whole tensors for those `whole_tensors` and for the last result."""
    return _scheduled(tuple(stage.outline for stage in part), frozenset(whole_tensors))


@lru_cache(maxsize=1024)
def _scheduled(part: tuple[Outline, ...], whole_tensors: frozenset[str]) -> Schedule:
    """Remembered: a search plans thousands of programs that differ in their formats alone."""
    order, links = demand_order(part), Links.of(part)
    rings = rings_of(part, order)
    whole = {*whole_tensors, part[-1].target}
    for name in whole:
        rings[name] = part[links.makers[name][0]].whole.height
    spans = _in_steps(part, order)
    local = frozenset(name for name in rings if name not in whole and _is_local(part, links, spans, name))
    _in_place(part, links, rings)
    spans.flags.writeable = False
    return Schedule(spans, rings, local)


def demand_order(part: Sequence[Rows]) -> list[Made]:
    """Every row of every stage, once."""
    producers = Links.of(part).makers
    made, order = [0] * len(part), list[Made]()

    def make(at: int) -> None:
        stage, row = part[at], made[at]
        for one in stage.reads:
            end = one.needed(row + 1)
            sources = producers.get(one.name, ())
            while any(made[source] < end for source in sources):
                for source in sources:
                    if made[source] == min(made[other] for other in sources):
                        make(source)
        made[at] = row + 1
        order.append((at, row))

    for at in range(len(part) - 1, -1, -1):  # the last result first; what nobody reads counts all the same
        while made[at] < part[at].out.height:
            make(min(producers[part[at].target], key=made.__getitem__))  # parts of a whole take turns
    return order


def rings_of(part: Sequence[Rows], order: Sequence[Made]) -> dict[str, int]:
    """Of each tensor the most rows between the first one still needed and the last one made."""
    readers: dict[str, list[tuple[int, Reads]]] = {}
    for at, stage in enumerate(part):
        for one in stage.reads:
            readers.setdefault(one.name, []).append((at, one))
    made = [0] * len(part)
    rings = dict.fromkeys((stage.target for stage in part), 1)
    for at, row in order:
        made[at], name = row + 1, part[at].target
        waiting = [one.first(made[by]) for by, one in readers.get(name, ()) if made[by] < part[by].out.height]
        rings[name] = max(rings[name], row + 1 - min(waiting, default=row))
    return rings


def dies_row_by_row(part: Sequence[Rows], at: int, name: str) -> bool:
    """Whether every row of an operand is needed by nobody else any more when the stage at `at` makes that row."""
    others = [(by, one) for by, stage in enumerate(part) for one in stage.reads if one.name == name and by != at]
    made = [0] * len(part)
    for by, row in demand_order(part):
        if by == at and any(made[q] < part[q].out.height and one.first(made[q]) <= row for q, one in others):
            return False
        made[by] = row + 1
    return True


def _in_steps(part: Sequence[Rows], order: Sequence[Made]) -> np.ndarray:
    steps: list[dict[int, int]] = [{}]
    last = -1
    for at, row in order:
        if at <= last:
            steps.append({})
        steps[-1][at] = row
        last = at
    spans = np.zeros((len(part), len(steps), 2), np.int64)
    for step, rows in enumerate(steps):
        for at, row in rows.items():
            spans[at, step] = row, row + 1
    return spans


def _is_local(part: Sequence[Rows], links: Links, spans: np.ndarray, name: str) -> bool:
    """Whether in every step what is read of a tensor was made in it."""
    begins, ends = spans[links.makers[name], :, 0].max(axis=0), spans[links.makers[name], :, 1].min(axis=0)
    for at in links.readers.get(name, ()):
        one = next(one for one in part[at].reads if one.name == name)
        for step in np.flatnonzero(spans[at, :, 1]):
            row = int(spans[at, step, 0])
            if one.first(row) < begins[step] or one.needed(row + 1) > ends[step]:
                return False
    return True


@dataclass(frozen=True, slots=True)
class Links:
    """Of each tensor the stages that make it and those that read it, in order."""

    makers: dict[str, list[int]]
    readers: dict[str, list[int]]

    @staticmethod
    def of(part: Sequence[Rows]) -> Links:
        """Links of the stages, numbered in order."""
        links = Links({}, {})
        for at, stage in enumerate(part):
            links.makers.setdefault(stage.target, []).append(at)
            for one in stage.reads:
                links.readers.setdefault(one.name, []).append(at)
        return links

    def span(self, name: str) -> range:
        """The stages from the one that makes a tensor to the first one that reads it."""
        return range(self.makers[name][0], self.readers[name][0] + 1)


def _in_place(part: Sequence[Rows], links: Links, rings: dict[str, int]) -> None:
    """An operation in place needs the buffer of its result: what it may overwrite becomes as long."""
    for stage in reversed(part):
        name = overwritten(stage, links)
        if name is not None:
            rings[name] = max(rings[name], rings[stage.target])


def overwritten(stage: Rows, links: Links) -> str | None:
    """The operand whose rows this stage may write its own over: made in the loop and read by nobody else."""
    if stage.is_part_of_more:
        return None
    possible = (name for name in stage.overwrites if name in links.makers and len(links.readers[name]) == 1)
    return next(possible, None)
