"""Buffers that take a place in turn as one block: fewer blocks, and what is free between them is in one piece.

In a low plan buffers of one lifetime often can lie on each other, and one of the same size where another ended. A
search that may do nothing else has about half as many blocks. What it finds is a plan; that it finds none says nothing.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from tinyhil.memplan.blocks import Block, sections_of


@dataclass(frozen=True, slots=True)
class Slot:
    """A block, and whom it stands for: places in the original sequence, with how far above its offset each lies."""

    block: Block
    tenants: tuple[tuple[int, int], ...]


def make_slots(blocks: Sequence[Block], chance: random.Random, stacked: bool = True) -> list[Slot]:
    """Blocks of equal lifetime on each other (if `stacked`), then each with one of its size that begins where it ends,
    if there is one; which of several, by chance. Blocks of several pieces stay as they are."""
    times = sections_of(blocks)
    slots = _stacked(blocks, times) if stacked else [Slot(block, ((n, 0),)) for n, block in enumerate(blocks)]
    chance.shuffle(slots)
    heads = defaultdict(list)
    for number, slot in enumerate(slots):
        heads[_key(slot.block, bisect_left(times, slot.block.start))].append(number)
    after: dict[int, int] = {}
    taken: set[int] = set()
    for number, slot in enumerate(slots):
        free = [head for head in heads[_key(slot.block, bisect_left(times, slot.block.end))] if head not in taken]
        if free and len(slot.block.pieces) == 1:
            after[number] = chance.choice(free)
            taken.add(after[number])
    return [_joined(slots, number, after) for number in range(len(slots)) if number not in taken]


def offsets_of(slots: Iterable[Slot], offsets: Sequence[int]) -> tuple[int, ...]:
    """Of the original blocks, from those of the slots; none from none."""
    if not offsets:
        return ()
    found = {
        place: offset + shift for slot, offset in zip(slots, offsets, strict=True) for place, shift in slot.tenants
    }
    return tuple(found[place] for place in sorted(found))


def _key(block: Block, instant: int) -> tuple[int, int, int, int]:
    """Blocks with the same can follow each other at this boundary between sections."""
    return instant, block.size_bytes, block.alignment, len(block.pieces)


def _stacked(blocks: Sequence[Block], times: Sequence[int]) -> list[Slot]:
    alike = defaultdict(list)
    for place, block in enumerate(blocks):
        single = len(block.pieces) == 1 and block.size_bytes % block.alignment == 0
        span = (
            (bisect_left(times, block.start), bisect_left(times, block.end), block.alignment) if single else (-place,)
        )
        alike[span].append(place)
    return [_on_each_other(blocks, places) for places in alike.values()]


def _on_each_other(blocks: Sequence[Block], places: Sequence[int]) -> Slot:
    lowest = blocks[places[0]]
    shifts = tuple(accumulate((blocks[place].size_bytes for place in places[:-1]), initial=0))
    if len(places) == 1:
        return Slot(lowest, ((places[0], 0),))
    piece = (lowest.start, lowest.end, shifts[-1] + blocks[places[-1]].size_bytes)
    return Slot(replace(lowest, pieces=(piece,)), tuple(zip(places, shifts, strict=True)))


def _joined(slots: Sequence[Slot], number: int, after: dict[int, int]) -> Slot:
    first = last = slots[number]
    members = list(first.tenants)
    while number in after:
        number = after[number]
        last = slots[number]
        members += last.tenants
    piece = (first.block.start, last.block.end, first.block.size_bytes)
    joined = first.block if last is first else replace(first.block, pieces=(piece,))
    return Slot(joined, tuple(members))
