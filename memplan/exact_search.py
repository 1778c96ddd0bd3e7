"""The exact search driven to an optimum: which heights are tried, with which strategies, for how long.

No single strategy solves all problems, so they take turns, each with a node limit that grows fivefold per round. In a
round the lower bound itself is tried first, then heights between the best plan and the lowest height that did not give
up yet (bisection), then each strategy goes over all heights left. Every plan found lowers the peak; every exhausted
search raises the bound. What is left after the first round is asked of the search over orders, too, and of many short
searches for plans in which buffers of one size follow each other in one place (slots.py). What is fixed need not
rest on anything: beside it the search over orders is the only one.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tinyhil.memplan.account import Account, Solved, next_peak
from tinyhil.memplan.blocks import (
    EXHAUSTED,
    FAILING,
    FEWEST,
    FORCED,
    FOUND,
    LOWEST,
    NO_MEMORY,
    STOPPED,
    Block,
    Result,
    Search,
    make_instance,
    peak_step,
    sections_of,
)
from tinyhil.memplan.compiled_cores import search_compiled
from tinyhil.memplan.orders import EFFORTS, improve, vary
from tinyhil.memplan.search_core import search_python
from tinyhil.memplan.slots import make_slots, offsets_of

FIRST_LIMIT = 800
SWEEP = 20  # heights tried one after another between the best peak and the bound, in every later round
GOAL_ROUNDS = 2  # so many rounds try nothing but the goal itself, which is usually reached
# Of the search over orders: how much of it, and how many plans are varied after it; later rounds have the last.
STAGES = tuple(zip(EFFORTS, (1, 1, 4, 8), strict=True))
STAGES_OF_ROUND = {0: (), 1: STAGES[:2], 2: STAGES[2:3]}
MOST_BLOCKS = 4096  # beyond, the search's tables would not fit: heuristics only

Key = Callable[[Block, int, int], tuple[int, ...]]  # of a block and its first and last section


def _width(block: Block, first: int, last: int) -> tuple[int, ...]:
    return (first - last, -block.size_bytes)


def _area(block: Block, first: int, last: int) -> tuple[int, ...]:
    return (-block.area,)


def _size(block: Block, first: int, last: int) -> tuple[int, ...]:
    return (-block.size_bytes, first - last)


def _time(block: Block, first: int, last: int) -> tuple[int, ...]:
    return (first, -block.size_bytes * (last - first))


@dataclass(frozen=True, slots=True)
class Strategy:
    """Which section to branch on (rule, then tie) and which block to try first (order)."""

    rule: int
    tie: int  # 0: the lowest, 1: the one with the least slack
    order: Key
    seed: int = 0
    spread: int = 0  # so many places a block may be moved in the order, by chance


# Measured on minimalloc's instances: the first solves most of them alone, each of the others is the fastest for one.
STRATEGIES = (
    Strategy(FAILING, 1, _width),
    Strategy(FEWEST, 1, _time),
    Strategy(FEWEST, 1, _area),
    Strategy(FORCED, 0, _size),
    Strategy(LOWEST, 1, _area),
    Strategy(FAILING, 1, _size),
    Strategy(FAILING, 1, _time),
    Strategy(FAILING, 1, _area),
    Strategy(FEWEST, 1, _width),
    Strategy(LOWEST, 0, _size),
)


# For short searches in orders shaken by chance (with fixed seeds): where the above give up, many of them get lucky.
SHAKEN = tuple(Strategy(rule, tie, order) for order in (_time, _size) for rule in (FEWEST, FORCED) for tie in (0, 1))
SHAKEN_NODES = 2500
SPREADS = (6, 15, 30)
HEIGHTS = 7  # of the short searches, between the bound and the best peak; coprime to len(SHAKEN)

# With slots: a few restarts each. Who takes which slot is left to chance, so that the order need not be.
IN_SLOTS = tuple(
    Strategy(FAILING, 1, *order) for order in ((_time, 0, 0), (_time, 0, 4), (_width, 0, 5), (_time, 0, 8))
)
SLOT_NODES, SLOT_TURNS = 8000, 4
UNSTACKED = 5  # of so many one leaves buffers of equal lifetime apart
FEWER = (9, 10)  # slots than blocks, else to plan them is to plan the blocks


def minimise(blocks: Sequence[Block], start: Solved, enough: int, account: Account) -> Solved:
    """Improve on `start` until its bound, `enough` or the end of the budget is reached."""
    step = peak_step(blocks)
    best = replace(start, lower=next_peak(start.lower - 1, step))
    fixed = any(block.offset is not None for block in blocks)
    for number in range(64):
        if best.peak <= max(best.lower, enough) or account.spent():
            break
        for effort, starts in STAGES_OF_ROUND.get(number, STAGES[-1:]):
            best = improve(blocks, best, enough, step, effort, account)
            best = vary(blocks, best, enough, step, starts, account)
        if fixed:
            continue
        limit = FIRST_LIMIT * 5**number
        if number:
            best = _in_slots(blocks, best, enough, step, limit, account)
        best = _round(blocks, best, enough, _Round(limit, step, number < GOAL_ROUNDS), account)
    return best


@dataclass(frozen=True, slots=True)
class _Round:
    limit: int
    step: int
    goal_only: bool


def _round(blocks: Sequence[Block], best: Solved, enough: int, how: _Round, account: Account) -> Solved:
    """Try the goal, bisect between it and the best peak with short searches, sweep over what is left, then shake.

    A height that gave up says nothing about the others: a search is lucky at one and not at the next.
    """
    turns = [(strategy, how.limit) for strategy in STRATEGIES]
    short = [(strategy, how.limit // 5) for strategy in STRATEGIES]
    height = goal = max(best.lower, enough)
    hopeless = goal - 1  # up to here every height of the bisection failed
    while best.peak - how.step > hopeless and best.peak > max(best.lower, goal) and not account.spent():
        state, offsets = _run(turns if height == goal else short, blocks, height, account)
        best = best.learn(blocks, height, state, offsets, how.step)
        if state != FOUND:
            hopeless = height
        if state == STOPPED and how.goal_only:
            return best
        height = max(best.lower, hopeless + 1, (hopeless + best.peak) // 2)
    best = _sweep(blocks, best, goal, how, account)
    return best if how.goal_only else _shake(blocks, best, goal, how, account)


def _in_slots(blocks: Sequence[Block], best: Solved, enough: int, step: int, limit: int, account: Account) -> Solved:
    """Short searches, each with other slots, every other one at the goal, the rest above it. They cost about four
    times what a turn of all strategies does."""
    goal = max(best.lower, enough)
    nodes = min(limit, SLOT_NODES)
    for number in range(SLOT_TURNS * len(STRATEGIES) * limit // nodes):
        if best.peak <= goal or account.spent():
            break
        seed = limit + number
        slots = make_slots(blocks, random.Random(seed), stacked=number % UNSTACKED != 0)
        if len(slots) * FEWER[1] > len(blocks) * FEWER[0]:
            break
        strategy = replace(IN_SLOTS[number // 2 % len(IN_SLOTS)], seed=seed)
        height = goal if number % 2 else _between(goal, best.peak, step, number // 2)
        state, offsets = _run([(strategy, nodes)], [slot.block for slot in slots], height, account)
        if state == FOUND:
            best = best.learn(blocks, height, FOUND, offsets_of(slots, offsets), step)
    return best


def _between(goal: int, peak: int, step: int, number: int) -> int:
    """A height below the best peak: in turn, from right below it down to near the goal."""
    steps = (peak - goal) // step  # at least one: how far down it may be tried
    return peak - step * max(1, steps * (number % HEIGHTS) // HEIGHTS)


def _sweep(blocks: Sequence[Block], best: Solved, goal: int, how: _Round, account: Account) -> Solved:
    """Each strategy over heights between the goal and the best peak, in turn from below and from above."""
    for strategy in STRATEGIES:
        stride = how.step * max(1, (best.peak - goal) // (how.step * SWEEP))
        low, high, up = goal + stride, best.peak - stride, True
        while max(low, best.lower) <= min(high, best.peak - how.step) and not account.spent():
            height = max(low, best.lower) if up else min(high, best.peak - how.step)
            state, offsets = _run([(strategy, how.limit)], blocks, height, account)
            best = best.learn(blocks, height, state, offsets, how.step)
            low, high = (height + stride, high) if up else (low, height - stride)
            up = not up
    return best


def _shake(blocks: Sequence[Block], best: Solved, goal: int, how: _Round, account: Account) -> Solved:
    """Short searches in shaken orders, each at another height between the goal and the best peak."""
    for number, strategy in enumerate(_shaken(how.limit)):
        if best.peak <= max(best.lower, goal) or account.spent():
            break
        height = _between(max(best.lower, goal), best.peak, how.step, number)
        state, offsets = _run([(strategy, SHAKEN_NODES)], blocks, height, account)
        best = best.learn(blocks, height, state, offsets, how.step)
    return best


def _run(
    turns: Sequence[tuple[Strategy, int]], blocks: Sequence[Block], height: int, account: Account
) -> tuple[int, tuple[int, ...]]:
    """Let strategies take turns, each with its node limit, until one finds a plan or exhausts the search."""
    for strategy, limit in turns:
        nodes = min(limit, account.nodes_left())
        seconds = account.seconds_left()
        if nodes == 0 or (seconds is not None and seconds <= 0):
            break
        result, offsets = run_strategy(blocks, strategy, height, nodes, seconds)
        account.nodes += result.nodes
        if result.state in (FOUND, EXHAUSTED):
            return result.state, offsets
    return STOPPED, ()


def _shaken(limit: int) -> list[Strategy]:
    """So many short searches that they cost about as much as the long ones of this limit at a few heights."""
    count = 4 * len(STRATEGIES) * limit // SHAKEN_NODES
    return [
        replace(
            SHAKEN[number % len(SHAKEN)],
            seed=limit + number,
            spread=SPREADS[number // len(SHAKEN) % len(SPREADS)],
        )
        for number in range(count)
    ]


def run_strategy(
    blocks: Sequence[Block], strategy: Strategy, height: int, nodes: int, seconds: float | None = None
) -> tuple[Result, tuple[int, ...]]:
    """One search at one height; the offsets come back in the order of `blocks`. MemoryError if tables find no room."""
    places = _ordered(blocks, strategy)
    instance, rounded = make_instance([blocks[i] for i in places], height)
    search = Search(rounded, nodes, strategy.rule, strategy.tie, seconds)
    result = search_compiled(instance, search) or search_python(instance, search)
    if result.state == NO_MEMORY:
        raise MemoryError("memplan: the exact search got no memory for its tables")
    offsets = [0] * len(blocks)
    for place, offset in zip(places, result.offsets, strict=False):
        offsets[place] = offset
    return result, tuple(offsets)


def _ordered(blocks: Sequence[Block], strategy: Strategy) -> list[int]:
    times = sections_of(blocks)
    spans = [(bisect_left(times, block.start), bisect_left(times, block.end) - 1) for block in blocks]
    places = sorted(range(len(blocks)), key=lambda i: (*strategy.order(blocks[i], *spans[i]), i))
    if not strategy.spread:
        return places
    chance = random.Random(strategy.seed)
    shaken = {place: rank + chance.random() * strategy.spread for rank, place in enumerate(places)}
    return sorted(places, key=shaken.__getitem__)
