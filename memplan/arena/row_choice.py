"""Which parts of which chains go row by row: those that lower the most bytes live at once, and no others.

Along a chain, cutting it into parts is a dynamic program: a part made row-wise needs its operand, its result and its
line buffers; a single operation its operand and its result. The least possible maximum comes first, then as few
operations in loops as that maximum allows. What the rest of the program adds is left to the lower bound of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinyhil.memplan import Bound, lower_bound
from tinyhil.memplan.arena.row_wise import Stage, chains, row_wise, schedule_of
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.ops.rows import operand_of
from tinyhil.program import Program, Role

MOST_STAGES = 24  # of one loop
MOST_PARTS = 1500  # weighed per chain: a long one gets shorter loops
MOST_TRIES = 150  # parts tried one by one where the chains alone do not decide, in programs of
MOST_OPERATIONS = 400
MOST_ROUNDS = 12

Span = tuple[int, int]  # the stages [first, end) of a chain


def with_rows(program: Program) -> Program:
    """The program with chains made row-wise as far as the bound falls; the same object if none is worth it.

    Whether the plan shrinks is for the caller to see.
    """
    best, bound = program, _bound(program)
    found = [_Chain.of(program, chain) for chain in chains(program)]
    if found:
        limit = max(chain.least_bytes() for chain in found)
        for _ in range(2):  # the second time with what the rest of the program needs anyway
            if limit > bound.bytes:
                break
            candidate = _cut(program, found, limit)
            reached = _bound(candidate)
            if reached.bytes < bound.bytes or (reached.bytes == bound.bytes and best is not program):
                best, bound = candidate, reached
            limit = reached.bytes
    for _ in range(MOST_ROUNDS if len(program.body) <= MOST_OPERATIONS else 0):
        step = _best_step(best, bound)
        if step is None:
            break
        best, bound = step
    return best


def _bound(program: Program) -> Bound:
    return lower_bound(problem_of(program))


def _cut(program: Program, found: Sequence[_Chain], limit_bytes: int) -> Program:
    """Every chain cut into as few rows as keep each part within the limit."""
    for chain in found:
        for first, end in chain.cheapest(limit_bytes):
            program = row_wise(program, chain.stages[first:end]) or program
    return program


@dataclass(frozen=True, slots=True)
class _Chain:
    """A chain with the bytes each part needs at once."""

    stages: Sequence[Stage]
    needs: dict[Span, int]

    @staticmethod
    def of(program: Program, stages: Sequence[Stage]) -> _Chain:
        needs = {}
        longest = max(4, min(MOST_STAGES, MOST_PARTS // len(stages)))
        for first in range(len(stages)):
            for end in range(first + 1, min(len(stages), first + longest) + 1):
                if end == first + 1 or _can_go_by_rows(stages[first:end]):
                    needs[first, end] = _needs(program, stages[first:end])
        return _Chain(stages, needs)

    def least_bytes(self) -> int:
        """The least possible maximum over the parts."""
        best = [0]
        for end in range(1, len(self.stages) + 1):
            best.append(min(max(best[first], self.needs[first, end]) for first in self._firsts(end)))
        return best[-1]

    def cheapest(self, limit_bytes: int) -> list[Span]:
        """The parts to go by rows, as few stages as keep within the limit, then as few parts."""
        best: list[tuple[tuple[int, int], list[Span]] | None] = [((0, 0), [])]
        for end in range(1, len(self.stages) + 1):
            options = []
            for first in self._firsts(end):
                before = best[first]
                if before is None or self.needs[first, end] > limit_bytes:
                    continue
                (stages, parts), spans = before
                by_rows = end - first > 1
                cost = (stages + (end - first) * by_rows, parts + by_rows)
                options.append((cost, [*spans, (first, end)] if by_rows else spans))
            best.append(min(options, default=None))
        return best[-1][1] if best[-1] is not None else []

    def _firsts(self, end: int) -> list[int]:
        return [first for first in range(max(0, end - MOST_STAGES), end) if (first, end) in self.needs]


def chain_floors(program: Program, found: Sequence[Sequence[Stage]]) -> Iterator[int]:
    """Of each chain what its best cut needs at least; the last line buffer may be where the result is, in place."""
    for stages in found:
        if len(stages) * MOST_STAGES > MOST_PARTS:
            continue  # more parts are possible than were weighed here
        chain = _Chain.of(program, stages)
        for (first, end), needed in chain.needs.items():
            if end - first > 1 and not stages[end - 1].has_window:
                last = stages[end - 2]
                ring = min(schedule_of(stages[first:end]).rings[-1], last.out.height)
                chain.needs[first, end] = needed - program.tensors[last.op.output].size_bytes * ring // last.out.height
        yield chain.least_bytes()


def _can_go_by_rows(part: Sequence[Stage]) -> bool:
    return len(part) > 1 and part[0].has_window and part[-1].out.height > 1


def _needs(program: Program, part: Sequence[Stage]) -> int:
    """Bytes live at once while this part runs: operand, result, line buffers, the largest patch."""

    def size(name: str) -> int:
        return program.tensors[name].size_bytes if program.tensors[name].role == Role.ARENA else 0

    result = size(part[-1].op.output)
    source = operand_of(part[0].op)
    if len(part) == 1 and not part[0].has_window:
        return max(size(source), result)
    total = size(source) + result + max(size(stage.op.scratch) if stage.op.scratch else 0 for stage in part)
    rings = schedule_of(part).rings if len(part) > 1 else ()
    for at, ring in enumerate(rings):
        stage = part[at]
        in_place = at + 1 < len(rings) and not part[at + 1].has_window and rings[at + 1] >= ring
        if not in_place:  # else the result of the next one takes its place
            total += size(stage.op.output) * min(ring, stage.out.height) // stage.out.height
    return total


def _best_step(program: Program, bound: Bound) -> tuple[Program, Bound] | None:
    """One more part made row-wise, the one that lowers the bound most; the shortest of equals."""
    best: tuple[Program, Bound] | None = None
    live = {buffer.name for buffer in problem_of(program).buffers if buffer.live_at(bound.witness or 0)}
    tried = 0
    for chain in chains(program):
        for part in _parts(chain, live):
            candidate = row_wise(program, part) if tried < MOST_TRIES else None
            tried += 1
            if candidate is None:
                continue
            found = _bound(candidate)
            if found.bytes < (best[1] if best else bound).bytes:
                best = candidate, found
    return best


def _parts(chain: Sequence[Stage], live: set[str]) -> Iterator[Sequence[Stage]]:
    """Contiguous parts, short ones first, whose inner tensors are among those that matter."""
    for length in range(2, min(len(chain), MOST_STAGES) + 1):
        for first in range(len(chain) - length + 1):
            part = chain[first : first + length]
            inner = {stage.op.output for stage in part[:-1]}
            if _can_go_by_rows(part) and inner & live:
                yield part
