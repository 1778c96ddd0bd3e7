"""Bounds from a part of the buffers: an exhausted search over few of them, and the fewest that tell why.

Leaving buffers out makes a problem easier, so what a part needs the whole needs. That helps twice: where aliases
are permitted, buffers that may not share bytes make a problem without aliases, which the exact search can exhaust; and
what a search exhausted shrinks to a set that anyone can check (stack.can_stack) instead of a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyhil.memplan.account import Account
from tinyhil.memplan.blocks import EXHAUSTED, FOUND, Block, make_blocks
from tinyhil.memplan.bound import Bound
from tinyhil.memplan.exact_search import STRATEGIES, run_strategy
from tinyhil.memplan.orders import Effort, search_orders
from tinyhil.memplan.problem import Buffer, Problem
from tinyhil.memplan.stack import MOST_BUFFERS, can_stack

NODES = 2000  # of one strategy, to see whether a part still can not be planned
EFFORT = Effort(4096, 20_000)  # the same of the search over orders
MOST_SHRUNK = 100  # buffers
CROWDED = (9, 10)  # of the bound

WEIGHTS: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
    lambda b: (-b.size_bytes * sum(end - start for start, end in b.sections),),
    lambda b: (-b.size_bytes, b.start - b.end),
    lambda b: (b.start - b.end, -b.size_bytes),
)


def parts_apart(problem: Problem, bound_bytes: int) -> list[Problem]:
    """Problems without aliases: buffers of which no two may share bytes, heavy ones first by different weights; of each
    first what is live where memory is short, a small problem, then all of it."""
    joined: dict[str, set[str]] = {}
    for alias in problem.aliases:
        joined.setdefault(alias.first, set()).add(alias.second)
        joined.setdefault(alias.second, set()).add(alias.first)
    found: dict[frozenset[str], Problem] = {}
    for weight in WEIGHTS:
        chosen: set[str] = set()
        for buffer in sorted(problem.buffers, key=weight):
            if not joined.get(buffer.name, set()) & chosen:
                chosen.add(buffer.name)
        buffers = tuple(buffer for buffer in problem.buffers if buffer.name in chosen)
        for part in (_crowded(buffers, bound_bytes), buffers):
            found.setdefault(frozenset(buffer.name for buffer in part), Problem(part))
    return sorted(found.values(), key=lambda part: len(part.buffers))


def _crowded(buffers: Sequence[Buffer], bound_bytes: int) -> tuple[Buffer, ...]:
    """The buffers that are live when nearly as much is as the bound says."""
    chosen: set[str] = set()
    for instant in {start for buffer in buffers for start, _ in buffer.sections}:
        live = [buffer for buffer in buffers if buffer.live_at(instant)]
        if sum(buffer.size_bytes for buffer in live) * CROWDED[1] >= bound_bytes * CROWDED[0]:
            chosen.update(buffer.name for buffer in live)
    return tuple(buffer for buffer in buffers if buffer.name in chosen)


def as_set(problem: Problem, bound: Bound, account: Account) -> Bound:
    """The bound with the few buffers that prove it, where such can be found; else as it was.

    `problem` has no aliases, and a search exhausted every plan of it below the bound.
    """
    height = bound.bytes - 1
    left = [buffer for buffer in problem.buffers if buffer.size_bytes]
    if len(left) > MOST_SHRUNK:
        return bound
    for buffer in sorted(left, key=lambda b: b.size_bytes * (b.end - b.start)):
        if account.spent():
            break
        without = [other for other in left if other is not buffer]
        if _is_too_much(make_blocks(Problem(tuple(without))), height, account):
            left = without
    names = tuple(buffer.name for buffer in left)
    proven = len(left) <= MOST_BUFFERS and can_stack(problem, names, height) is False
    return Bound(bound.bytes, "set", None, names) if proven else bound


def _is_too_much(blocks: Sequence[Block], height: int, account: Account) -> bool:
    """Whether a short search shows that these do not fit."""
    ordered = search_orders(blocks, height, EFFORT, account)
    if ordered is not None:
        return ordered.state == EXHAUSTED
    for strategy in STRATEGIES[:3]:
        result, _ = run_strategy(blocks, strategy, height, min(NODES, account.nodes_left()))
        account.nodes += result.nodes
        if result.state in (FOUND, EXHAUSTED):
            return result.state == EXHAUSTED
    return False
