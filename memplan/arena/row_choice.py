"""Which parts of a program go row by row: those that lower the most bytes live at once, and no others.

The operations of the top level are cut, in their order, into parts that follow each other: single operations, loops
over rows (in strips, where halos may be computed again) and groups of channels. A part needs what is live around it,
its results and its line buffers at once. The best cut is a dynamic program: the least possible maximum first, then
what costs as little as that maximum allows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyhil.language.program import Loop, Op, Program, Role
from tinyhil.memplan import Bound, lower_bound
from tinyhil.memplan.arena.channel_groups import in_groups, may_go_in_groups, shares
from tinyhil.memplan.arena.core_times import CoreTime
from tinyhil.memplan.arena.lag import lag_of
from tinyhil.memplan.arena.liveness import items_touching
from tinyhil.memplan.arena.row_costs import PRODUCTS, WORTH, products_of
from tinyhil.memplan.arena.row_loops import RowLoop, loop_over
from tinyhil.memplan.arena.row_schedule import dies_row_by_row, overwritten
from tinyhil.memplan.arena.row_shapes import Span, shapes_of
from tinyhil.memplan.arena.row_stages import Stage, stages_of
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.memplan.arena.tensors import overwritable, problem_of
from tinyhil.memplan.arena.views import view_of
from tinyhil.memplan.arena.windows_in_place import may_read_in_place, read_in_place, weights_of

MOST_STAGES = 40  # of one loop
MOST_PARTS = 2000  # weighed per program: a long one gets shorter loops

GROUPS = (2, 4, 8, 16, 32)  # of channels
STRIPS = (2, 3, 4, 5, 6, 8, 10, 12, 18)  # how many a loop may be carried out in
PATCH_SHARE = 16  # of what a part needs a patch is at least one of so many, where its windows are read in place
NO_LIMIT = 1 << 62  # bytes: any part is within this limit


@dataclass(frozen=True, slots=True)
class ByRows:
    """A loop over rows, carried out in so many strips of columns. `over`: results made over rows that die. `in_place`:
    windows are read in place. `staying`: results that remain in the ring of their operand."""

    strips: int = 1
    over: tuple[str, ...] = ()
    in_place: bool = False
    staying: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InGroups:
    """So many groups of channels, one after the other."""

    count: int


IN_PLACE = ByRows(in_place=True)  # of a single operation
Way = ByRows | InGroups
Chosen = tuple[int, int, Way]  # items [first, end), and how they are carried out


def with_rows(program: Program) -> list[Program]:
    """The program with parts made row-wise: as far as they cost next to no time, and as far as the bound falls.

    Each only where its bound is below that of those before. Whether the plan shrinks is for the caller to see.
    """
    cuts = Cuts(program)
    if not cuts.stages:
        return []
    most = int(WORTH * products_of(program))
    found, reached = list[Program](), _bound(program).bytes
    for limit in dict.fromkeys((cuts.cheap_bytes(most), cuts.least_bytes())):
        if limit > reached:
            continue
        candidate = cut(program, cuts, limit)
        bound = _bound(candidate).bytes
        if bound > limit:  # then the others may be as large
            candidate = cut(program, cuts, bound)
            bound = _bound(candidate).bytes
        if bound < reached:
            reached = bound
            found.append(candidate)
    return found


def cut(program: Program, cuts: Cuts, limit_bytes: int) -> Program:
    """The program cut into rows that cost as little as keeps each part within the limit."""
    return cut_into(program, cuts, cuts.cheapest(limit_bytes).chosen)


def cut_into(program: Program, cuts: Cuts, chosen: Sequence[Chosen]) -> Program:
    """The program with these parts by rows or in groups, or reading windows in place."""
    in_place = set[str]()
    for first, end, way in reversed(chosen):
        part = [cuts.stages[i] for i in range(first, end) if i in cuts.stages]
        if isinstance(way, InGroups):
            program = in_groups(program, part, way.count)
        elif end - first > 1:
            program = row_wise(program, part, way.strips, way.over, way.staying) or program
        if isinstance(way, ByRows) and way.in_place:
            in_place |= {weights_of(cuts.windows[i]) for i in range(first, end) if i in cuts.windows}
    return read_in_place(program, in_place)


def _windows(program: Program) -> dict[int, Op]:
    """Convolutions of one row, too, that may read their windows in place, by their index in the program's body."""
    ops = {index: item for index, item in enumerate(program.body) if isinstance(item, Op)}
    return {index: op for index, op in ops.items() if may_read_in_place(program, op)}


def _bound(program: Program) -> Bound:
    return lower_bound(problem_of(program))


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes that a part needs at once, and what carrying it out in this way costs."""

    needs: int
    cost: int
    way: Way = ByRows()


@dataclass(frozen=True, slots=True)
class Cut:
    """The most that a part needs, what rows cost and the parts to go by rows."""

    needs: int
    cost: int
    chosen: tuple[Chosen, ...]

    def with_part(self, span: Span, part: Part) -> Cut:
        """The cut with one more part at its end."""
        first, end = span
        chosen = ((first, end, part.way),) if end - first > 1 or part.way == IN_PLACE else ()
        return Cut(max(self.needs, part.needs), self.cost + part.cost, self.chosen + chosen)


class Cuts:
    """The parts that a program's body may be cut into, with what each needs.

    `alone`: what the operations of a part touch, without what else is live: no order of the parts needs less.
    `again`: in strips, too, whose halos are computed again, and with windows read in place, weighed by the time on a
    `core`; else by products. `whole`: single operations alone. `like`: others of the same program, whose loops are
    known.
    """

    def __init__(
        self,
        program: Program,
        *,
        alone: bool = False,
        again: bool = False,
        whole: bool = False,
        like: Cuts | None = None,
        core: str = "",
    ) -> None:
        self.program, self._alone = program, alone
        self._time = CoreTime(core) if again else None
        self._loops: dict[Span, RowLoop | None] = like._loops if like else {}
        self.stages = {} if whole else stages_of(program)
        self.windows = _windows(program) if again and not whole else {}
        self._items = program.body
        self._uses = items_touching(program)
        self._shapes = shapes_of(self.stages)

    @cached_property
    def parts(self) -> dict[Span, list[Part]]:
        """Of each span of the body the ways to carry it out."""
        found = {(i, i + 1): list(self._singles(i)) for i in range(len(self._items))}
        longest = max(4, min(MOST_STAGES, MOST_PARTS // max(1, len(self.stages))))
        for first in self.stages:
            end = first + 1
            while end in self.stages and end - first < longest:
                end += 1
                ways = [*self._of_rows(first, end), *self._in_groups(first, end)]
                if ways:
                    found[first, end] = ways
        return found

    def least_bytes(self) -> int:
        """The least possible maximum over the parts."""
        best = [0]
        for end in range(1, len(self._items) + 1):
            best.append(min(max(best[first], part.needs) for first, part in self.ending(end)))
        return best[-1]

    def cheapest(self, limit_bytes: int = NO_LIMIT) -> Cut:
        """The parts to go by rows that cost the least within the limit, of those as few as possible; none if
        there is no such cut."""
        best: list[Cut | None] = [Cut(0, 0, ())]
        for end in range(1, len(self._items) + 1):
            options = []
            for first, part in self.ending(end):
                before = best[first]
                if before is not None and part.needs <= limit_bytes:
                    options.append(before.with_part((first, end), part))
            best.append(min(options, key=lambda cut: (cut.cost, len(cut.chosen)), default=None))
        return best[-1] or Cut(self.least_bytes(), 0, ())

    def floor_of(self, cut: Cut) -> int:
        """What the parts of a cut need at least, if these are the parts `alone`."""
        inside = {item for first, end, _ in cut.chosen for item in range(first, end)}
        single = [self.parts[item, item + 1][0].needs for item in range(len(self._items)) if item not in inside]
        others = (part.needs for first, end, way in cut.chosen for part in self.parts[first, end] if part.way == way)
        return max((*single, *others), default=0)

    def cheap_bytes(self, most: int) -> int:
        """The least limit within which the parts cost at most so much."""
        least = self.least_bytes()
        limits = sorted({part.needs for ways in self.parts.values() for part in ways if part.needs >= least})
        return limits[bisect_left(limits, True, key=lambda limit: self.cheapest(limit).cost <= most)]

    def ending(self, end: int) -> list[tuple[int, Part]]:
        """The parts that end there, and where they begin."""
        return self._last[end]

    @cached_property
    def _last(self) -> dict[int, list[tuple[int, Part]]]:
        found: dict[int, list[tuple[int, Part]]] = {}
        for (first, end), ways in self.parts.items():
            found.setdefault(end, []).extend((first, part) for part in ways)
        return found

    # ---- bytes

    def _size(self, name: str) -> int:
        tensor = self.program.tensors[name]
        return tensor.size_bytes if tensor.role == Role.ARENA else 0

    def _around(self, first: int, end: int) -> Iterator[str]:
        """What is live at some instant of these items, and known outside of them; parts of it within their wholes."""
        touched = {name for item in self._items[first:end] if isinstance(item, Op) for name in item.tensors}
        found = set()
        for name, (begun, last) in self._uses.items():
            inside = first <= begun and last < end
            if begun < end and last >= first and not inside and (not self._alone or name in touched):
                found.add(name)
        yield from (name for name in self._uses if name in found and self._wholes.get(name) not in found)

    @cached_property
    def _wholes(self) -> dict[str, str]:
        """Of parts the whole within which they may lie."""
        views = (view_of(self.program, item) for item in self._items if isinstance(item, Op))
        return {view.part: view.whole for view in views if view is not None}

    def _singles(self, index: int) -> Iterator[Part]:
        """One operation, and the same with its window read in place."""
        needs = self._single(index)
        yield Part(needs, 0)
        if self._time is None or index not in self.windows:
            return
        op = self.windows[index]
        patch = self._size_of_scratch(op)
        if patch * PATCH_SHARE >= needs:
            yield Part(needs - patch, self._time.in_place(self.program, op), IN_PLACE)

    def _single(self, index: int) -> int:
        """One operation: what is live, without what it may overwrite or show elsewhere."""
        item = self._items[index]
        if self._alone and index not in self.stages and index not in self.windows:
            return 0
        live = sum(map(self._size, self._around(index, index + 1)))
        if isinstance(item, Loop):
            return live
        live += self._size_of_scratch(item)
        view = view_of(self.program, item)
        if view is not None:
            return live
        lagging = lag_of(self.program, item)
        places = [(name, 0) for name in overwritable(self.program, item)] + ([lagging] if lagging else [])
        lags = [lag for name, lag in places if self._alone or self._uses[name][1] == index]
        return live - (self._size(item.output) - min(lags) if lags else 0)

    def _of_rows(self, first: int, end: int) -> Iterator[Part]:
        """A loop over the rows of these stages, in strips, too, and the same with its windows read in place."""
        if (first, end) not in self._loops:
            stages = [self.stages[i] for i in range(first, end)]
            self._loops[first, end] = loop_over(
                self.program, self._shapes, (first, end), stages, self._uses, self._time
            )
        loop = self._loops[first, end]
        if loop is None:
            return
        around = sum(map(self._size, self._around(first, end)))
        less = self._overwritten_outside(loop, end)
        for count in (1, *(STRIPS if self._time is not None else ())):
            if count > loop.width:
                break
            beside = around - (less if count == 1 else 0)
            for stays in (False, True) if loop.shared else (False,):
                results = tuple(one.result for one in loop.shared) if stays else ()
                needs, over = loop.needs(count, in_place=False, stays=stays)
                yield Part(beside + needs, loop.cost(count, in_place=False), ByRows(count, over, staying=results))
                if loop.patch_bytes * PATCH_SHARE < beside + needs:
                    continue
                fewer, over = loop.needs(count, in_place=True, stays=stays)
                if fewer < needs:
                    way = ByRows(count, over, in_place=True, staying=results)
                    yield Part(beside + fewer, loop.cost(count, in_place=True), way)

    def _in_groups(self, first: int, end: int) -> Iterator[Part]:
        """A layer and what follows it channel by channel, some channels at a time."""
        part = [self.stages[i] for i in range(first, end)]
        inner = {stage.target for stage in part[:-1]}
        if not may_go_in_groups(self.program, part) or any(self._uses[name][1] >= end for name in inner):
            return
        channels, source, result = part[0].out.channels, part[0].reads[0].name, part[-1].target
        dies = self._uses.get(source, (0, end))[1] < end
        around = sum(self._size(n) for n in self._around(first, end) if n not in (source if dies else "", result))
        each_call = sum((self._time or PRODUCTS).of_group(self.program, stage.op) for stage in part)
        for share in dict.fromkeys(tuple(shares(channels, groups)) for groups in GROUPS):
            if len(share) < 2:
                continue
            leaves = self._size(source) if dies else 0  # to all groups but the last one
            most = max(self._of_group(part, begin, stop, leaves) for begin, stop in share)
            yield Part(around + most, (len(share) - 1) * each_call, InGroups(len(share)))

    def _of_group(self, part: Sequence[Stage], begin: int, end: int, source: int) -> int:
        """Bytes at once while the stages make the channels [begin, end): of the `source`, which dies with the last
        ones, of what is between two stages and of the result up to there."""
        channels, each, most = part[0].out.channels, end - begin, 0
        made = [self._size(stage.target) // channels for stage in part]  # of a channel
        for at, stage in enumerate(part):
            is_last = at + 1 == len(part)
            before, after = made[at - 1] * each if at else 0, 0 if is_last else made[at] * each
            beside = max(before, after) if stage.overwrites else before + after
            lagging = lag_of(self.program, stage.op) if at else None
            if lagging is not None:  # over what the stage before has made of this group
                beside -= max(0, made[at] * each - lagging[1])
            there = made[-1] * (end if is_last else begin)
            there += source if at == 0 or end < channels else 0
            most = max(most, beside + there + self._size_of_scratch(stage.op))
        return most

    def _size_of_scratch(self, op: Op) -> int:
        return self._size(op.scratch) if op.scratch else 0

    def _overwritten_outside(self, loop: RowLoop, end: int) -> int:
        """Bytes of whole results whose rows take the place of those of a whole operand that dies here."""
        saved, part, links = 0, loop.part, loop.links
        for at, stage in enumerate(part):
            if self._uses[stage.target][1] < end or stage.is_part_of_more or overwritten(stage, links) is not None:
                continue
            for name in stage.overwrites:
                dies = name not in links.makers and self._uses.get(name, (0, end))[1] < end
                if dies and dies_row_by_row(part, at, name):
                    saved += self._size(stage.target)
                    break
        return saved
