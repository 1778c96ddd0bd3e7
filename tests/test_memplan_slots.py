"""Slots: a plan of them is a plan of the buffers, and they are what makes hard instances easy."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tinyhil.memplan import Buffer, Problem, check, greedy_by_area, lower_bound
from tinyhil.memplan.account import Account, Solved
from tinyhil.memplan.blocks import Block, make_blocks, peak_step
from tinyhil.memplan.exact_search import _in_slots
from tinyhil.memplan.placing import make_plan
from tinyhil.memplan.planner import Budget
from tinyhil.memplan.slots import Slot, make_slots, offsets_of


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Few sizes and instants, so that many buffers follow each other; some have gaps or alignments."""
    found = []
    for number in range(draw(st.integers(1, 24))):
        start, length = draw(st.integers(0, 8)), draw(st.integers(1, 5))
        gaps = ((start + 1, start + 2),) if length > 2 and draw(st.integers(0, 4)) == 0 else ()
        alignment = draw(st.sampled_from((1, 1, 1, 2, 8)))
        found.append(
            Buffer(str(number), draw(st.sampled_from((0, 3, 8, 16))), start, start + length, alignment, gaps=gaps)
        )
    return Problem(tuple(found))


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 99), st.booleans())
def test_a_plan_of_chains_is_a_plan(problem: Problem, seed: int, stacked: bool) -> None:
    blocks = make_blocks(problem)
    slots = make_slots(blocks, random.Random(seed), stacked)
    assert sorted(place for slot in slots for place, _ in slot.tenants) == list(range(len(blocks)))
    joined = Problem(tuple(slot.block.as_buffer() for slot in slots))
    plan = greedy_by_area.run(joined, Budget())
    found = offsets_of(slots, [plan.offsets[slot.block.names[0]] for slot in slots])
    offsets = {buffer.name: 0 for buffer in problem.buffers}
    offsets |= {block.names[0]: offset for block, offset in zip(blocks, found, strict=True)}
    made = make_plan(problem, offsets, "", bound=lower_bound(problem))
    check(problem, made)
    assert made.peak_bytes == plan.peak_bytes


def _tenants(slot: Slot) -> set[int]:
    return {place for place, _ in slot.tenants}


def test_what_is_joined() -> None:
    """Equal lifetimes are stacked, equal sizes follow each other, also across an instant at which nothing is decided;
    what has another size or alignment, or gaps, stays alone."""
    buffers = (
        Buffer("a", 4, 0, 2),
        Buffer("b", 6, 0, 2),  # on a
        Buffer("c", 10, 2, 5),  # after both
        Buffer("d", 10, 6, 8),  # after c: nothing begins at 5
        Buffer("e", 7, 1, 5),
        Buffer("f", 10, 8, 9, alignment=4),  # not after d
        Buffer("g", 7, 6, 12, gaps=((8, 9),)),  # not after e
    )
    for seed in range(5):
        slots = make_slots(make_blocks(Problem(buffers)), random.Random(seed))
        assert {frozenset(_tenants(slot)) for slot in slots} == {
            frozenset((0, 1, 2, 3)),
            frozenset((4,)),
            frozenset((5,)),
            frozenset((6,)),
        }
        (long,) = (slot for slot in slots if len(slot.tenants) == 4)
        assert long.block.pieces == ((0, 8, 10),)
        assert dict(long.tenants) == {0: 0, 1: 4, 2: 0, 3: 0}


def test_several_can_follow_and_chance_decides() -> None:
    buffers = (Buffer("a", 4, 0, 2), Buffer("b", 4, 2, 5), Buffer("c", 4, 2, 6), Buffer("d", 9, 5, 7))
    made = {
        frozenset(frozenset(_tenants(slot)) for slot in make_slots(make_blocks(Problem(buffers)), random.Random(n)))
        for n in range(20)
    }
    assert made == {
        frozenset({frozenset({0, 1}), frozenset({2}), frozenset({3})}),
        frozenset({frozenset({0, 2}), frozenset({1}), frozenset({3})}),
    }


def _slots(seed: int, slots: int, instants: int) -> list[Block]:
    """Slots side by side whose tenants change at instants of their own: the load is a plan's height."""
    chance = random.Random(seed)
    buffers = []
    for slot in range(slots):
        size = chance.randint(1, 60)
        cuts = sorted({0, instants, *(chance.randrange(instants) for _ in range(chance.randint(1, 8)))})
        buffers += [Buffer(f"{slot}.{start}", size, start, end) for start, end in pairwise(cuts)]
    return make_blocks(Problem(tuple(buffers)))


def test_chains_find_what_was_cut_from_full_slots() -> None:
    """Nothing is free at any instant of these: greedy planners end 5 % or more above the load."""
    for seed in range(4):
        blocks = _slots(seed, 40, 60)
        greedy = greedy_by_area.run(Problem(tuple(block.as_buffer() for block in blocks)), Budget())
        load = greedy.lower_bound_bytes
        start = Solved(tuple(greedy.offsets[block.names[0]] for block in blocks), greedy.peak_bytes, load)
        assert start.peak > 1.05 * load
        account = Account(Budget(100_000))
        assert _in_slots(blocks, start, 0, peak_step(blocks), 4000, account).peak == load
