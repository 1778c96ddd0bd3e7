"""What loops over rows of a network have in common whatever its formats are: the order of their rows, how many rows a
line buffer holds, the columns of their strips.

A search plans thousands of programs that differ in their formats alone, and each is cut into hundreds of loops: this
is remembered from program to program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tinyhil.memplan.arena.row_schedule import Links, Made, demand_order, rings_of
from tinyhil.memplan.arena.row_stages import Outline, Stage
from tinyhil.memplan.arena.strips import Columns, strips_of

Span = tuple[int, int]  # items [first, end) of a program's body


@dataclass(frozen=True, slots=True)
class Strips:
    """Of a loop's strips those that differ in more than where they begin, and of each tensor the columns that all of
    them make."""

    different: Sequence[Mapping[str, Columns]]
    made: Mapping[str, int]


class Shapes:
    """Of the loops over each span of one network's stages; `part` are always the stages of that span, joined."""

    def __init__(self) -> None:
        self._orders: dict[Span, tuple[list[Made], dict[str, int]]] = {}
        self._strips: dict[tuple[Span, tuple[str, ...], int], Strips] = {}
        self._rings: dict[tuple[str, int], int] = {}

    def order(self, span: Span, part: Sequence[Stage]) -> tuple[list[Made], dict[str, int]]:
        """Every row of every stage once, and of each tensor the rows that it must hold."""
        if span not in self._orders:
            order = demand_order(part)
            self._orders[span] = order, rings_of(part, order)
        return self._orders[span]

    def strips(self, span: Span, part: Sequence[Stage], outside: Sequence[str], count: int) -> Strips:
        """So many strips, of which each has its share of what is read `outside`."""
        key = span, tuple(outside), count
        if key not in self._strips:
            every = strips_of(part, outside, count)
            different = {_signature(part, columns): columns for columns in every}
            made = {name: sum(end - begin for begin, end in (one[name] for one in every)) for name in every[0]}
            self._strips[key] = Strips(list(different.values()), made)
        return self._strips[key]

    def ring(self, part: Sequence[Stage], links: Links, name: str, uses: Mapping[str, tuple[int, int]]) -> int:
        """Rows that the line buffer of a tensor holds; `uses`: the items that touch each tensor first and last."""
        alone = len(links.readers[name]) == 1
        block = [] if alone else _block(part, links, name)
        key = name, 0 if alone else uses[block[-1].target][0]
        if key not in self._rings:
            reader = part[links.readers[name][0]]
            one = next(one for one in reader.reads if one.name == name)
            spans = [one.needed(row + 1) - one.first(row) for row in range(reader.out.height)]
            self._rings[key] = max(1, *spans) if alone else rings_of(block, demand_order(block))[name]
        return self._rings[key]


def shapes_of(stages: Mapping[int, Stage]) -> Shapes:
    """Those of a program's stages."""
    return _shapes(tuple((at, one.outline, one.may_join, one.is_part, one.parts) for at, one in stages.items()))


@lru_cache(maxsize=16)
def _shapes(stages: tuple[tuple[int, Outline, bool, bool, int], ...]) -> Shapes:
    return Shapes()


def _signature(part: Sequence[Stage], columns: Mapping[str, Columns]) -> tuple[object, ...]:
    """What bytes of a strip depend on: widths, windows at its borders, and whether a result covers its operand."""
    found: list[object] = []
    for stage in part:
        begin, end = columns[stage.target]
        found.append(end - begin)
        for one in stage.reads:
            found += [columns.get(one.name) == (begin, end), one.window_of(begin, end, stage.out.width)]
    return tuple(found)


def _block(part: Sequence[Stage], links: Links, name: str) -> list[Stage]:
    """The stages from the makers of a tensor to the first one that all that depends on it goes through."""
    makers = links.makers[name]
    known, waiting = {name}, {name}
    block = [part[at] for at in makers]
    for at in range(makers[0] + 1, len(part)):
        stage = part[at]
        if stage.target != name and any(one.name in known for one in stage.reads):
            block.append(stage)
            known.add(stage.target)
            waiting.add(stage.target)
        waiting = {one for one in waiting if one not in links.readers or links.readers[one][-1] > at}
        if at > makers[-1] and waiting == {stage.target} and links.makers[stage.target][-1] == at:
            break
    return block
