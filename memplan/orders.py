"""The search over orders (order_core.c) driven to an optimum: which heights are tried, for how long.

It decides of every two blocks that meet which one lies below. With alignments and gaps it proves in a few nodes what
the search over canonical positions does not in millions; of many blocks it is the slower one. It needs a C compiler.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyhil.memplan.account import Account, Solved
from tinyhil.memplan.blocks import FOUND, NO_MEMORY, STOPPED, Block, Result, make_instance
from tinyhil.memplan.bound import Bound
from tinyhil.memplan.compiled_cores import MOST_ORDERED, orders_compiled
from tinyhil.memplan.placing import place_in_order
from tinyhil.memplan.problem import Problem

WORK_PER_NODE = 32  # sets listed in the time that a node of the search over canonical positions takes, about


@dataclass(frozen=True, slots=True)
class Effort:
    """Of one search: how many sets of a clique are listed before it is left as it is, and how many sets in all."""

    sets: int
    work: int


VARIATION = Effort(1 << 12, 40_000)
FAILURES, FAILURES_IN_PLACE = 100, 5  # until another plan is varied; until this one is changed at the same height
FEWEST_FREE, FREE_ASIDE, BY_TIME = 6, 8, 0.1
EFFORTS = (
    Effort(1 << 17, 20_000),
    Effort(1 << 17, 500_000),
    Effort(1 << 20, 5_000_000),
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


def vary(blocks: Sequence[Block], best: Solved, enough: int, step: int, starts: int, account: Account) -> Solved:
    """Search lower plans from the best one, then from others made by chance, `starts` in all."""
    if len(blocks) > MOST_ORDERED or len(best.offsets) != len(blocks):
        return best
    chance = random.Random(account.nodes)
    for number in range(starts):
        if best.peak <= max(best.lower, enough) or account.spent():
            break
        start = _by_chance(blocks, best.lower, chance) if number else best
        found = _lowered(blocks, start, enough, step, chance, account)
        best = found if found.peak < best.peak else best
    return best


def _lowered(
    blocks: Sequence[Block], best: Solved, enough: int, step: int, chance: random.Random, account: Account
) -> Solved:
    """Lower plans in which all but some blocks keep their order. When none is found the plan is changed somewhere else
    as it can be without getting higher."""
    now, free, failures = best, float(FEWEST_FREE), 0
    while best.peak > max(best.lower, enough) and failures < FAILURES:
        height = best.peak - step
        found = _freed(blocks, now, height, int(free), chance, account)
        if found is None:
            break
        failures += 1
        if found.state == FOUND:
            best = now = best.learn(blocks, height, FOUND, found.offsets, step)
            failures = 0
        elif failures > FAILURES_IN_PLACE:
            aside = _freed(blocks, now, best.peak, FREE_ASIDE, chance, account)
            now = replace(now, offsets=aside.offsets) if aside is not None and aside.state == FOUND else now
        free = max(FEWEST_FREE, free * (0.9 if found.state == STOPPED else 1.05))
    return best


def _freed(
    blocks: Sequence[Block], now: Solved, height: int, free: int, chance: random.Random, account: Account
) -> Result | None:
    """A search in which some blocks near each other, one that is in the way among them, leave their order."""
    at = chance.choice(in_the_way(blocks, now.offsets, height))
    far = _distances(blocks, now.offsets, at, chance)
    freed = set(sorted(range(len(blocks)), key=far.__getitem__)[:free]) | {at}
    previous = [-1 if index in freed else offset for index, offset in enumerate(now.offsets)]
    return search_orders(blocks, height, VARIATION, account, previous)


def in_the_way(blocks: Sequence[Block], offsets: Sequence[int], height: int) -> list[int]:
    """The blocks that can not lie as high as they do below this height, if every block keeps its order with others:
    one of them must leave it. All of a plan that is lower already."""
    instance, _ = make_instance(blocks, height)
    ceiling = [height] * instance.sections
    found = []
    for index in sorted(range(len(blocks)), key=lambda index: -offsets[index]):
        pieces = range(instance.piece_start[index], instance.piece_start[index + 1])
        spans = [(slice(instance.first[piece], instance.last[piece] + 1), instance.size[piece]) for piece in pieces]
        highest = min(instance.high[index], *(min(ceiling[span]) - size for span, size in spans))
        highest -= highest % instance.alignment[index]
        if highest < offsets[index]:
            found.append(index)
        for span, _ in spans:
            ceiling[span] = [highest] * (span.stop - span.start)
    return found or list(range(len(blocks)))


def _by_chance(blocks: Sequence[Block], lower: int, chance: random.Random) -> Solved:
    """A greedy plan, large blocks first more often than not."""
    problem = Problem(tuple(block.as_buffer() for block in blocks))
    order = sorted(problem.buffers, key=lambda buffer: -buffer.size_bytes * chance.random())
    plan = place_in_order(problem, order, "", bound=Bound(lower, "load"))
    return Solved(tuple(plan.offsets[block.names[0]] for block in blocks), plan.peak_bytes, lower)


def _distances(blocks: Sequence[Block], offsets: Sequence[int], at: int, chance: random.Random) -> list[float]:
    """Of each block from this one by address or, now and then, by time; among equals by chance."""
    if chance.random() < BY_TIME:
        now = chance.randrange(blocks[at].start, blocks[at].end)
        return [max(block.start - now, now - block.end + 1, 0) + chance.random() for block in blocks]
    spans = [(offset, offset + block.size_bytes) for offset, block in zip(offsets, blocks, strict=True)]
    here = sum(spans[at]) / 2
    return [max(low - here, here - high, 0) + chance.random() * (high - low) for low, high in spans]
