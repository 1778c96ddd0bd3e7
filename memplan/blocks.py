"""A problem reduced to what the exact search works on: rigid blocks over the sections of time that matter.

A block is one buffer, or several that were joined because an alias between them is accepted: it has one offset and,
over time, one or more pieces of different sizes. Buffers of no size are left out; they go to offset 0.
Two pieces meet if and only if they meet at an instant after which one of the live pieces ends before another
begins, so only those instants become sections.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from memplan.problem import Buffer, Problem

FOUND, EXHAUSTED, STOPPED, NO_MEMORY = 1, 0, -1, -2  # as in search_core.c
FEWEST, LOWEST, FORCED = 0, 1, 2

Groups = Sequence[frozenset[str]]


@dataclass(frozen=True, slots=True)
class Block:
    """Buffers that share one offset; pieces are (start, end, size_bytes), in order and apart."""

    names: tuple[str, ...]
    pieces: tuple[tuple[int, int, int], ...]
    alignment: int

    @property
    def start(self) -> int:
        return self.pieces[0][0]

    @property
    def end(self) -> int:
        return self.pieces[-1][1]

    @property
    def size_bytes(self) -> int:
        return max(size for _, _, size in self.pieces)

    @property
    def area(self) -> int:
        return sum((end - start) * size for start, end, size in self.pieces)


@dataclass(frozen=True, slots=True)
class Instance:
    """The arrays of search_core.c, without the height and the strategy."""

    sections: int
    piece_start: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    size: tuple[int, ...]
    alignment: tuple[int, ...]
    high: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """One run of the search: the height to keep to, how to choose where to branch, and when to give up."""

    height: int
    max_nodes: int
    rule: int = FEWEST
    tie: int = 1
    max_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """`state` is FOUND (with offsets), EXHAUSTED, STOPPED or NO_MEMORY."""

    state: int
    offsets: tuple[int, ...]
    nodes: int


def make_blocks(problem: Problem, groups: Groups = ()) -> list[Block]:
    """One block per buffer, but one for each of the groups of buffers joined by accepted aliases."""
    by_name = {buffer.name: buffer for buffer in problem.buffers}
    joined = {name for group in groups for name in group}
    members = [[buffer] for buffer in problem.buffers if buffer.name not in joined]
    members += [[by_name[name] for name in sorted(group)] for group in groups]
    return [_make_block(buffers) for buffers in members if any(b.size_bytes for b in buffers)]


def _make_block(buffers: list[Buffer]) -> Block:
    names = tuple(buffer.name for buffer in buffers)
    alignment = lcm_of(buffer.alignment for buffer in buffers)
    if len(buffers) == 1:
        size = buffers[0].size_bytes
        return Block(names, tuple((start, end, size) for start, end in buffers[0].sections), alignment)
    times = sorted({time for buffer in buffers for section in buffer.sections for time in section})
    pieces: list[tuple[int, int, int]] = []
    for start, end in pairwise(times):
        size = max((b.size_bytes for b in buffers if b.live_at(start)), default=0)
        if pieces and pieces[-1][1:] == (start, size):
            pieces[-1] = (pieces[-1][0], end, size)
        elif size:
            pieces.append((start, end, size))
    return Block(names, tuple(pieces), alignment)


def lcm_of(values: Iterable[int]) -> int:
    result = 1
    for value in values:
        result = result * value // gcd(result, value)
    return result


def sections_of(blocks: Sequence[Block]) -> list[int]:
    """The first instants of the sections: the last beginnings before an end."""
    begins = {start for block in blocks for start, _, _ in block.pieces}
    ends = {end for block in blocks for _, end, _ in block.pieces}
    kept = []
    begin: int | None = None
    for time in sorted(begins | ends):
        if time in ends and begin is not None:
            kept.append(begin)
            begin = None
        if time in begins:
            begin = time
    return kept


def make_instance(blocks: Sequence[Block], height: int) -> tuple[Instance, int]:
    """The arrays for these blocks in this order, and the height the search has to keep to.

    If all alignments have a common divisor, sizes and height are rounded up to it: everything but a topmost
    block pays for that anyway, and `high` keeps the topmost one exact.
    """
    times = sections_of(blocks)
    step = gcd(*(block.alignment for block in blocks))
    piece_start, first, last, size = [0], [], [], []
    for block in blocks:
        for start, end, size_bytes in block.pieces:
            first.append(bisect_left(times, start))
            last.append(bisect_left(times, end) - 1)
            size.append(-(-size_bytes // step) * step)
        piece_start.append(len(first))
    instance = Instance(
        sections=len(times),
        piece_start=tuple(piece_start),
        first=tuple(first),
        last=tuple(last),
        size=tuple(size),
        alignment=tuple(block.alignment for block in blocks),
        high=tuple(height - block.size_bytes for block in blocks),
    )
    return instance, -(-height // step) * step


def peak_step(blocks: Sequence[Block]) -> int:
    """All peaks of canonical plans are multiples of this."""
    step = gcd(*(size for block in blocks for _, _, size in block.pieces))
    return gcd(step, *(block.alignment for block in blocks if block.alignment > 1))


def split(blocks: Sequence[Block]) -> list[list[Block]]:
    """Cut where no block spans: the parts can be planned alone, each from offset 0."""
    parts: list[list[Block]] = []
    end: int | None = None
    for block in sorted(blocks, key=lambda b: (b.start, b.end)):
        if end is None or block.start >= end:
            parts.append([])
        parts[-1].append(block)
        end = block.end if end is None else max(end, block.end)
    return parts


def accepted_groups(problem: Problem, wanted: Callable[[str, str], bool]) -> list[frozenset[str]]:
    """Join the wanted aliases, one after another, as far as every overlapping pair of a group is permitted."""
    by_name = {buffer.name: buffer for buffer in problem.buffers}
    pairs = problem.alias_pairs()
    group_of: dict[str, frozenset[str]] = {}

    def compatible(one: str, other: str) -> bool:
        a, b = by_name[one], by_name[other]
        return frozenset((one, other)) in pairs or not _meet(a, b)

    for alias in problem.aliases:
        if not wanted(alias.first, alias.second):
            continue
        first = group_of.get(alias.first, frozenset((alias.first,)))
        second = group_of.get(alias.second, frozenset((alias.second,)))
        if first != second and all(compatible(a, b) for a in first for b in second):
            for name in first | second:
                group_of[name] = first | second
    unique = dict.fromkeys(group_of.values())
    return sorted(unique, key=sorted)


def _meet(one: Buffer, other: Buffer) -> bool:
    return any(max(a, c) < min(b, d) for a, b in one.sections for c, d in other.sections)
