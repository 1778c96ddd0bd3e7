"""A problem reduced to what the exact search works on: rigid blocks over the sections of time that matter.

A block is one buffer, or several that were joined because aliases between them are accepted: it has one offset and,
over time, one or more pieces of different sizes; a member that starts above the block's offset counts from there.
Buffers of no size are left out; they go to offset 0.
Two pieces meet if and only if they meet at an instant after which one of the live pieces ends before another
begins, so only those instants become sections.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from tinyhil.memplan.problem import Alias, Buffer, Problem

FOUND, EXHAUSTED, STOPPED, NO_MEMORY = 1, 0, -1, -2  # as in search_core.c
FEWEST, LOWEST, FORCED, FAILING = 0, 1, 2, 3  # which section is branched on, see exact.Strategy

Groups = Sequence[Mapping[str, int]]  # of each group: name -> bytes above its lowest member


@dataclass(frozen=True, slots=True)
class Block:
    """Buffers at fixed distances; pieces are (start, end, size_bytes), in order and apart."""

    names: tuple[str, ...]
    shifts: tuple[int, ...]  # of each name, in bytes
    pieces: tuple[tuple[int, int, int], ...]
    alignment: int
    offset: int | None = None  # fixed: the only one it may have

    @property
    def start(self) -> int:
        """The first instant of any piece."""
        return self.pieces[0][0]

    @property
    def end(self) -> int:
        """The instant after the last piece."""
        return self.pieces[-1][1]

    @property
    def size_bytes(self) -> int:
        """Of its largest piece."""
        return max(size for _, _, size in self.pieces)

    @property
    def area(self) -> int:
        """Bytes times instants."""
        return sum((end - start) * size for start, end, size in self.pieces)

    def as_buffer(self) -> Buffer:
        """One buffer of its largest size, with the name of its first."""
        gaps = [(one[1], other[0]) for one, other in pairwise(self.pieces) if one[1] < other[0]]
        return Buffer(self.names[0], self.size_bytes, self.start, self.end, self.alignment, self.offset, tuple(gaps))


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
    low: tuple[int, ...]  # of the search over orders alone


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
    members: list[tuple[list[Buffer], tuple[int, ...]]] = []
    members += [([buffer], (0,)) for buffer in problem.buffers if buffer.name not in joined]
    for group in groups:
        names = sorted(group)
        members.append(([by_name[name] for name in names], tuple(group[name] for name in names)))
    return [_make_block(buffers, shifts) for buffers, shifts in members if any(b.size_bytes for b in buffers)]


def _make_block(buffers: list[Buffer], shifts: tuple[int, ...]) -> Block:
    names = tuple(buffer.name for buffer in buffers)
    alignment = lcm_of(buffer.alignment for buffer in buffers)
    if len(buffers) == 1:
        size = buffers[0].size_bytes
        pieces = [(start, end, size) for start, end in buffers[0].sections]
        return Block(names, shifts, tuple(pieces), alignment, buffers[0].offset)
    begins, ends = _events(buffers, shifts)
    pieces = []
    live: list[int] = []  # sizes, ascending
    for start, end in pairwise(sorted({*begins, *ends})):
        for size in ends.get(start, ()):
            live.remove(size)
        for size in begins.get(start, ()):
            insort(live, size)
        size = live[-1] if live else 0
        if pieces and pieces[-1][1:] == (start, size):
            pieces[-1] = (pieces[-1][0], end, size)
        elif size:
            pieces.append((start, end, size))
    return Block(names, shifts, tuple(pieces), alignment)


def _events(buffers: list[Buffer], shifts: tuple[int, ...]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Instants at which heights above the block's offset begin and end to be in use."""
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for buffer, shift in zip(buffers, shifts, strict=True):
        for start, end in buffer.sections if buffer.size_bytes else ():
            begins.setdefault(start, []).append(shift + buffer.size_bytes)
            ends.setdefault(end, []).append(shift + buffer.size_bytes)
    return begins, ends


def lcm_of(values: Iterable[int]) -> int:
    """The least common multiple; 1 of nothing."""
    result = 1
    for value in values:
        result = result * value // gcd(result, value)
    return result


def sections_of(blocks: Sequence[Block]) -> list[int]:
    """The first instants of the sections: the last beginnings before an end."""
    begins = {start for block in blocks for start, _, _ in block.pieces}
    ends = {end for block in blocks for _, end, _ in block.pieces}
    sections = []
    begin: int | None = None
    for time in sorted(begins | ends):
        if time in ends and begin is not None:
            sections.append(begin)
            begin = None
        if time in begins:
            begin = time
    return sections


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
        high=tuple(min(height - block.size_bytes, _only(block, height)) for block in blocks),
        low=tuple(_only(block, 0) for block in blocks),
    )
    return instance, -(-height // step) * step


def _only(block: Block, otherwise: int) -> int:
    """The offset of a block that has but one."""
    return otherwise if block.offset is None else block.offset


def peak_step(blocks: Sequence[Block]) -> int:
    """All peaks of canonical plans are multiples of this."""
    step = gcd(*(size for block in blocks for _, _, size in block.pieces))
    fixed = [block.offset for block in blocks if block.offset is not None]
    return gcd(step, *fixed, *(block.alignment for block in blocks if block.alignment > 1))


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


def accepted_groups(problem: Problem, wanted: Callable[[Alias], bool] = lambda alias: True) -> list[Mapping[str, int]]:
    """Join the wanted aliases, one after another, as far as every pair of a group that meets is permitted to.

    Each group is a mapping from names to bytes above the group's lowest member.
    """
    by_name = {buffer.name: buffer for buffer in problem.buffers}
    permitted = problem.alias_shifts()
    group_of: dict[str, _Group] = {}
    for alias in problem.aliases:
        if not wanted(alias):
            continue
        first = group_of.get(alias.first) or _Group({alias.first: 0}, [by_name[alias.first]])
        second = group_of.get(alias.second) or _Group({alias.second: 0}, [by_name[alias.second]])
        if first is second:
            continue
        moved_bytes = first.shifts[alias.first] + alias.shift_bytes - second.shifts[alias.second]
        joined = _joined(first, second, moved_bytes, permitted)
        if joined is not None:
            group_of.update(dict.fromkeys(joined.shifts, joined))
    unique = {id(group): group for group in group_of.values()}
    return sorted((group.from_zero() for group in unique.values()), key=sorted)


@dataclass(slots=True)
class _Group:
    """Bytes of each member above one of them, and the members in the order in which they end."""

    shifts: dict[str, int]
    members: list[Buffer]

    def from_zero(self) -> dict[str, int]:
        lowest = min(self.shifts.values())
        return {name: shift - lowest for name, shift in self.shifts.items()}


def _joined(
    first: _Group, second: _Group, moved_bytes: int, permitted: Mapping[tuple[str, str], frozenset[int]]
) -> _Group | None:
    """Both as one, the second moved up; None if two members would meet that may not, or lose their alignment."""
    for other in second.members:
        place = second.shifts[other.name] + moved_bytes
        for one in reversed(first.members):
            if one.end <= other.start:
                break  # the rest ended earlier still
            apart = place - first.shifts[one.name]
            if one.start >= other.end or apart >= one.size_bytes or -apart >= other.size_bytes or not _meet(one, other):
                continue
            if apart not in permitted.get((one.name, other.name), ()):
                return None
    moved = {name: shift + moved_bytes for name, shift in second.shifts.items()}
    group = _Group(first.shifts | moved, sorted((*first.members, *second.members), key=lambda b: b.end))
    if moved_bytes or len({buffer.alignment for buffer in group.members}) > 1:
        shifts = group.from_zero()
        if any(shifts[buffer.name] % buffer.alignment for buffer in group.members):
            return None
    return group


def _meet(one: Buffer, other: Buffer) -> bool:
    if not one.gaps and not other.gaps:
        return one.start < other.end and other.start < one.end
    return any(max(a, c) < min(b, d) for a, b in one.sections for c, d in other.sections)
