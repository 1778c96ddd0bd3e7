"""Schedules of rows against every order in which rows can be made."""

from __future__ import annotations

import pytest

from benchmarks.networks import Network
from benchmarks.row_orders import Made, Orders, networks, program_of, without_patches
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.row_schedule import demand_order, rings_of
from tinyhil.memplan.arena.schedules import front, least


def enumerated(orders: Orders, made: Made) -> int:
    """The least of all orders, each of them gone through."""
    if made == tuple(stage.out.height for stage in orders.stages):
        return 0
    found = []
    for at in range(len(made)):
        if orders.may_make(made, at):
            then = (*made[:at], made[at] + 1, *made[at + 1 :])
            found.append(max(orders.needs(made, then, at), enumerated(orders, then)))
    return min(found)


@pytest.mark.parametrize("is_whole", [False, True])
def test_the_search_goes_through_every_order(is_whole: bool) -> None:
    net = Network(3, 2).conv(3, 3)
    begin = net.last
    left = net.conv(2, 1).last
    net.last, net.channels = begin, 3
    program = program_of(net.conv(2, 3).add("Add", left))
    orders = Orders.of(program, is_whole=is_whole)
    assert orders.least_bytes() == enumerated(orders, (0,) * len(orders.stages))


# Of the chains and branches of the page those whose stages are no groups of channels: what the planner is above the
# least of every order in per cent, with patches and without; branches hold rows of the join that rings do not share.
NEAR = {"chain 3": (7, 0), "chain 6": (0, 0), "chain 9": (0, 0), "chain 11": (12, 0), "branches 2": (14, 9)}


@pytest.mark.parametrize("name", NEAR)
def test_plans_are_near_the_least_of_every_order(name: str) -> None:
    program = program_of(dict(networks())[name])
    bare = without_patches(program)
    for one, most in zip((program, bare), NEAR[name], strict=True):
        bound, peak = Orders.of(one).least_bytes(), place(one).plan.peak_bytes
        assert bound <= peak <= bound / (1 - most / 100)
    assert least(program).peak_bytes <= place(bare).plan.peak_bytes


@pytest.mark.parametrize("name", ["chain 5", "chain 7"])
def test_rows_in_one_ring_take_what_the_best_order_does(name: str) -> None:
    """But for the bytes by which a row begins below that over which it is made."""
    bare = without_patches(program_of(dict(networks())[name]))
    bound = Orders.of(bare, is_whole=True).least_bytes()
    once = min(one.peak_bytes for one in front(bare) if not one.more_products)
    assert bound <= once <= 1.02 * bound
    assert place(bare).plan.peak_bytes >= 1.1 * bound


def first_buffer(orders: Orders) -> str:
    return next(name for name in orders.makers if name != orders.program.output)


class LineBuffer(Orders):
    """What one tensor alone needs, in rows."""

    def needs(self, made: Made, then: Made, at: int) -> int:
        name = first_buffer(self)
        rows = [max(state[by] for by in self.makers[name]) - self.first_needed(name, state) for state in (made, then)]
        return max(0, rows[0] + (self.stages[at].target == name), rows[1])


@pytest.mark.parametrize("name", ["chain 1", "chain 5", "chain 7", "branches 2", "branches 3", "branches 6"])
def test_no_order_has_a_shorter_line_buffer(name: str) -> None:
    """What every order of rows gains is room that two buffers share, not a buffer of fewer rows."""
    orders = Orders.of(program_of(dict(networks())[name]))
    buffers = LineBuffer(orders.program, orders.stages)
    assert rings_of(orders.stages, demand_order(orders.stages))[first_buffer(orders)] == buffers.least_bytes()
