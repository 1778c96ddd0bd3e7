"""The search over orders (order_core.c) driven to an optimum: which heights are tried, for how long.

It decides of every two blocks that meet which one lies below. With alignments and gaps it proves in a few nodes what
the search over canonical positions does not in millions; of many blocks it is the slower one. It needs a C compiler.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tinyhil.memplan.account import Account, Solved
from tinyhil.memplan.blocks import FOUND, NO_MEMORY, STOPPED, Block, Result, make_instance
from tinyhil.memplan.compiled_cores import MOST_ORDERED, orders_compiled

WORK_PER_NODE = 16  # sets listed in the time that a node of the search over canonical positions takes, about


@dataclass(frozen=True, slots=True)
class Effort:
    """Of one search: how many sets of a clique are listed before it is left as it is, and how many sets in all."""

    sets: int
    work: int


VARIATION, FAILURES, FEWEST_FREE = Effort(1 << 12, 40_000), 150, 6
EFFORTS = (
    Effort(1 << 17, 300_000),
    Effort(1 << 17, 2_000_000),
    Effort(1 << 20, 8_000_000),
    Effort(1 << 20, 64_000_000),
)


def search_orders(
    blocks: Sequence[Block], height: int, effort: Effort, account: Account, previous: Sequence[int] = ()
) -> Result | None:
    """One search at one height, charged to the account; None where it can not be done. `previous`: see `vary`.
    MemoryError if tables find no room."""
    work = min(effort.work, WORK_PER_NODE * account.nodes_left())
    seconds = account.seconds_left()
    if len(blocks) > MOST_ORDERED or not work or (seconds is not None and seconds <= 0):
        return None
    instance, _ = make_instance(blocks, height)
    result = orders_compiled(instance, previous or [-1] * len(blocks), (effort.sets, work), seconds)
    if result is None:
        return None
    if result.state == NO_MEMORY:
        raise MemoryError("memplan: the search over orders got no memory for its tables")
    account.nodes += 1 + result.nodes // WORK_PER_NODE
    return result


def improve(blocks: Sequence[Block], best: Solved, enough: int, step: int, effort: Effort, account: Account) -> Solved:
    """Bisect from both ends until the heights that nothing is known of gave up: [first, last]."""
    first, last = None, None
    height: int | None = max(best.lower, enough)
    while height is not None and best.peak > max(best.lower, enough):
        found = search_orders(blocks, height, effort, account)
        if found is None:
            break
        best = best.learn(blocks, height, found.state, found.offsets, step)
        if found.state == STOPPED:
            first = height if first is None else min(first, height)
            last = height if last is None else max(last, height)
        elif first is not None and last is not None and (best.lower > last or best.peak <= first):
            first = last = None
        height = _next_height(best, max(best.lower, enough), step, first, last)
    return best


def _next_height(best: Solved, goal: int, step: int, first: int | None, last: int | None) -> int | None:
    """Between what gave up and the best plan, then between the goal and what gave up."""
    if first is None or last is None:
        return (goal + best.peak - step) // (2 * step) * step if best.peak > goal else None
    if last + step < best.peak:
        return last + max(step, (best.peak - last) // (2 * step) * step)
    return goal + (first - goal) // (2 * step) * step if goal < first else None


def vary(blocks: Sequence[Block], best: Solved, enough: int, step: int, account: Account) -> Solved:
    """Search lower plans in which all but some blocks near each other keep the order of the best one."""
    chance, free, failures = random.Random(account.nodes), float(FEWEST_FREE), 0
    while best.peak > max(best.lower, enough) and failures < FAILURES and len(best.offsets) == len(blocks):
        far = _distances(blocks, best.offsets, chance)
        freed = set(sorted(range(len(blocks)), key=far.__getitem__)[: int(free)])
        previous = [-1 if index in freed else offset for index, offset in enumerate(best.offsets)]
        found = search_orders(blocks, best.peak - step, VARIATION, account, previous)
        if found is None:
            break
        failures += 1
        if found.state == FOUND:
            best, failures = best.learn(blocks, best.peak - step, FOUND, found.offsets, step), 0
        free = max(FEWEST_FREE, free * (0.9 if found.state == STOPPED else 1.05))
    return best


def _distances(blocks: Sequence[Block], offsets: Sequence[int], chance: random.Random) -> list[float]:
    """Of each block from some instant or from some address, and among equals by chance."""
    at = chance.randrange(len(blocks))
    if chance.random() < 0.5:
        now = chance.randrange(blocks[at].start, blocks[at].end)
        return [max(block.start - now, now - block.end + 1, 0) + chance.random() for block in blocks]
    spans = [(offset, offset + block.size_bytes) for offset, block in zip(offsets, blocks, strict=True)]
    here = sum(spans[at]) / 2
    return [max(low - here, here - high, 0) + chance.random() * (high - low) for low, high in spans]
