"""Which parts of a program go row by row: those that lower the most bytes live at once, and no others.

The operations of the top level are cut, in their order, into parts that follow each other: single operations and loops
over rows. A part needs what is live around it, its results and its line buffers at once. The best cut is a dynamic
program: the least possible maximum first, then rows that cost as little as that maximum allows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyhil.memplan import Bound, lower_bound
from tinyhil.memplan.arena.row_costs import WORTH, products_of, products_per_row
from tinyhil.memplan.arena.row_schedule import Links, demand_order, overwritten, rings_of
from tinyhil.memplan.arena.row_stages import Stage, joined_parts, stages_of
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.memplan.arena.tensors import overwritable, problem_of
from tinyhil.memplan.arena.views import view_of
from tinyhil.program import Loop, Op, Program, Role, walk

MOST_STAGES = 40  # of one loop
MOST_PARTS = 2000  # weighed per program: a long one gets shorter loops

Span = tuple[int, int]  # items [first, end) of a program's body


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
    for first, end in reversed(cuts.cheapest(limit_bytes)[1]):
        program = row_wise(program, [cuts.stages[i] for i in range(first, end)]) or program
    return program


def _bound(program: Program) -> Bound:
    return lower_bound(problem_of(program))


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes that a part needs at once, and the products that its rows cost."""

    needs: int
    products: int


class Cuts:
    """The parts that a program's body may be cut into, with what each needs.

    `alone`: what the operations of a part touch, without what else is live: no order of the parts needs less.
    """

    def __init__(self, program: Program, *, alone: bool = False) -> None:
        self.program, self._alone = program, alone
        self.stages = stages_of(program)
        self._items = program.body
        self._uses = _uses(program)
        self._rings: dict[tuple[str, int], int] = {}

    @cached_property
    def parts(self) -> dict[Span, _Part]:
        found = {(i, i + 1): _Part(self._single(i), 0) for i in range(len(self._items))}
        longest = max(4, min(MOST_STAGES, MOST_PARTS // max(1, len(self.stages))))
        for first in self.stages:
            end = first + 1
            while end in self.stages and end - first < longest:
                end += 1
                part = self._of_rows(first, end)
                if part is not None:
                    found[first, end] = part
        return found

    def least_bytes(self) -> int:
        """The least possible maximum over the parts."""
        best = [0]
        for end in range(1, len(self._items) + 1):
            best.append(min(max(best[first], self.parts[first, end].needs) for first in self._firsts[end]))
        return best[-1]

    def cheapest(self, limit_bytes: int) -> tuple[int, list[Span]]:
        """The parts to go by rows that cost the fewest products within the limit, of those as few as possible; with
        what they cost."""
        best: list[tuple[tuple[int, int], list[Span]] | None] = [((0, 0), [])]
        for end in range(1, len(self._items) + 1):
            options = []
            for first in self._firsts[end]:
                before, part = best[first], self.parts[first, end]
                if before is None or part.needs > limit_bytes:
                    continue
                (products, count), spans = before
                by_rows = end - first > 1
                cost = (products + part.products, count + by_rows)
                options.append((cost, [*spans, (first, end)] if by_rows else spans))
            best.append(min(options, default=None))
        if best[-1] is None:
            return 0, []
        return best[-1][0][0], best[-1][1]

    def cheap_bytes(self, most_products: int) -> int:
        """The least limit within which the parts cost at most so many products."""
        least = self.least_bytes()
        limits = sorted({part.needs for part in self.parts.values() if part.needs >= least})
        return limits[bisect_left(limits, True, key=lambda limit: self.cheapest(limit)[0] <= most_products)]

    @cached_property
    def _firsts(self) -> dict[int, list[int]]:
        """Where the parts begin that end there."""
        found: dict[int, list[int]] = {}
        for first, end in self.parts:
            found.setdefault(end, []).append(first)
        return found

    # ---- bytes

    def _size(self, name: str) -> int:
        tensor = self.program.tensors[name]
        return tensor.size_bytes if tensor.role == Role.ARENA else 0

    def _around(self, first: int, end: int) -> Iterator[str]:
        """What is live at some instant of these items, and known outside of them."""
        touched = {name for item in self._items[first:end] if isinstance(item, Op) for name in item.tensors}
        for name, (begun, last) in self._uses.items():
            inside = first <= begun and last < end
            if begun < end and last >= first and not inside and (not self._alone or name in touched):
                yield name

    def _single(self, index: int) -> int:
        """One operation: what is live, without what it may overwrite or show elsewhere."""
        item = self._items[index]
        if self._alone and index not in self.stages:
            return 0
        live = sum(map(self._size, self._around(index, index + 1)))
        if isinstance(item, Loop):
            return live
        live += self._size(item.scratch) if item.scratch else 0
        view = view_of(self.program, item)
        if view is not None:
            return live - self._size(view.part)
        dying = [name for name in overwritable(self.program, item) if self._alone or self._uses[name][1] == index]
        return live - (self._size(item.output) if dying else 0)

    def _of_rows(self, first: int, end: int) -> _Part | None:
        """A loop over the rows of these stages; None if they do not all lead to the last one's result."""
        part = joined_parts([self.stages[i] for i in range(first, end)])
        if part is None or len(part) < 2:
            return None
        links = Links.of(part)
        inner = [name for name in links.makers if self._uses[name][1] < end]
        last = part[-1].target
        if last in inner or any(name not in links.readers for name in links.makers if name != last):
            return None
        needs = sum(map(self._size, self._around(first, end))) - self._overwritten_outside(part, links, end)
        beside = [self._size(stage.op.scratch) if stage.op.scratch else 0 for stage in part]
        for name in inner:
            needs += self._inner(part, links, name, beside)
        products = sum(stage.out.height * products_per_row(self.program, stage.op) for stage in part)
        return _Part(needs + max(beside), products)

    def _overwritten_outside(self, part: Sequence[Stage], links: Links, end: int) -> int:
        """Bytes of whole results whose rows take the place of those of a whole operand that dies here."""
        saved = 0
        for stage in part:
            if stage.is_part_of_more or self._uses[stage.target][1] < end:
                continue
            for name in stage.overwrites:
                if (
                    name not in links.makers
                    and len(links.readers[name]) == 1
                    and self._uses.get(name, (0, end))[1] < end
                ):
                    saved += self._size(stage.target)
                    break
        return saved

    def _inner(self, part: Sequence[Stage], links: Links, name: str, beside: list[int]) -> int:
        """Bytes of a line buffer; those used in the step that makes them go `beside` the operations that touch them."""
        makers, readers = links.makers[name], links.readers[name]
        if len(readers) == 1 and overwritten(part[readers[0]], links) == name:
            return 0  # the result of its reader takes its place
        whole = part[makers[0]].whole
        row = self._size(name) // whole.height
        ring = min(self._ring(part, links, name), whole.height)
        if ring > 1 or len(makers) > 1 or len(readers) > 1:
            return row * ring
        for at in range(makers[0], readers[0] + 1):
            beside[at] += row
        return 0

    def _ring(self, part: Sequence[Stage], links: Links, name: str) -> int:
        alone = len(links.readers[name]) == 1
        block = [] if alone else _block(part, links, name)
        key = name, 0 if alone else self._uses[block[-1].target][0]
        if key not in self._rings:
            reader = part[links.readers[name][0]]
            one = next(one for one in reader.reads if one.name == name)
            spans = [one.needed(row + 1) - one.first(row) for row in range(reader.out.height)]
            self._rings[key] = max(1, *spans) if alone else rings_of(block, demand_order(block))[name]
        return self._rings[key]


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


def _uses(program: Program) -> dict[str, Span]:
    """The first and the last item that touches each arena tensor; the output is read after all."""
    found: dict[str, Span] = {}
    for index, item in enumerate(program.body):
        if isinstance(item, Op):
            names = list(item.tensors)
        else:
            names = [sequence for sequence, _ in item.slices] + [name for op in walk((item,)) for name in op.tensors]
        for name in names:
            if program.tensors[name].role == Role.ARENA:
                found[name] = found.get(name, (index, index))[0], index
    if program.output in found:
        found[program.output] = found[program.output][0], len(program.body)
    return found
