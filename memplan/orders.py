"""The search over orders (order_core.c) driven to an optimum: which heights are tried, for how long.

It decides of every two blocks that meet which one lies below. With alignments and gaps it proves in a few nodes what
the search over canonical positions does not in millions; of many blocks it is the slower one. It needs a C compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinyhil.memplan.blocks import NO_MEMORY, STOPPED, Block, Result, make_instance
from tinyhil.memplan.native import MOST_ORDERED, orders_compiled
from tinyhil.memplan.progress import Account, Solved

WORK_PER_NODE = 16  # sets listed in the time that a node of the search over canonical positions takes, about


@dataclass(frozen=True, slots=True)
class Effort:
    """Of one search: how many sets of a clique are listed before it is left as it is, and how many sets in all."""

    sets: int
    work: int


EFFORTS = (Effort(1 << 17, 4_000_000), Effort(1 << 20, 8_000_000), Effort(1 << 20, 64_000_000))


def search_orders(
    blocks: Sequence[Block], height: int, effort: Effort, account: Account
) -> tuple[Result, tuple[int, ...]] | None:
    """One search at one height, charged to the account; None where it can not be done."""
    work = min(effort.work, WORK_PER_NODE * account.nodes_left())
    seconds = account.seconds_left()
    if len(blocks) > MOST_ORDERED or not work or (seconds is not None and seconds <= 0):
        return None
    instance, _ = make_instance(blocks, height)
    result = orders_compiled(instance, effort.sets, work, seconds)
    if result is None:
        return None
    if result.state == NO_MEMORY:
        raise MemoryError("memplan: the search over orders got no memory for its tables")
    account.nodes += 1 + result.nodes // WORK_PER_NODE
    return result, result.offsets


def improve(blocks: Sequence[Block], best: Solved, enough: int, step: int, effort: Effort, account: Account) -> Solved:
    """Bisect from both ends until the heights that nothing is known of gave up: [first, last]."""
    first, last = None, None
    height: int | None = max(best.lower, enough)
    while height is not None and best.peak > max(best.lower, enough):
        found = search_orders(blocks, height, effort, account)
        if found is None:
            break
        best = best.learn(blocks, height, found[0].state, found[1], step)
        if found[0].state == STOPPED:
            first = height if first is None else min(first, height)
            last = height if last is None else max(last, height)
        height = _next_height(best, max(best.lower, enough), step, first, last)
    return best


def _next_height(best: Solved, goal: int, step: int, first: int | None, last: int | None) -> int | None:
    """Between what gave up and the best plan, then between the goal and what gave up."""
    if first is None or last is None:
        return (goal + best.peak - step) // (2 * step) * step if best.peak > goal else None
    if last + step < best.peak:
        return last + max(step, (best.peak - last) // (2 * step) * step)
    return goal + (first - goal) // (2 * step) * step if goal < first else None
