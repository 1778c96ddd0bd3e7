"""Program -> Program with the operations of each level in the order that needs the least memory at once.

A level is the top of the program or the body of one loop. Any order that keeps every write after the reads and writes
it followed computes the same integers, so the choice is free. It is searched over downsets (the sets of operations an
order may have executed so far): two orders of the same set leave the same tensors live, so only the better is kept.
That is exact while all sets of one size can be kept; beyond, the best `width` of them go on (a beam). What counts is
the model of `codegen.level`; whether the plan shrinks is for the caller to see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from tinyhil.language.program import Body, Loop, Op, Program
from tinyhil.memplan.arena.level import Level, level_of

MOST_EXPANSIONS = 200_000  # of one level: about two seconds


@dataclass(frozen=True, slots=True)
class Ordered:
    """A level in its new order. `peak_bytes` is the model's; `exact`: no order of the model's graph has less."""

    body: Body
    peak_bytes: int
    exact: bool


def reorder(program: Program, width: int | None = None) -> Program:
    """The program in the order found; the same object if none is better than the given one.

    `width`: how many sets of executed operations are kept at each step; None: what a second or two allow.
    """
    found = order_body(program, program.body, width)
    return program if found.body == program.body else replace(program, body=found.body)


def order_body(program: Program, body: Body, width: int | None = None) -> Ordered:
    """Order the loops inside first: what they need at once is what they weigh here."""
    return _ordered(program, body, lambda level: _search(level, width))


def given_peak(program: Program) -> int:
    """The model's peak of the program as it is."""
    return _ordered(program, program.body, lambda level: (tuple(range(len(level.items))), True)).peak_bytes


def _ordered(program: Program, body: Body, search: Callable[[Level], tuple[tuple[int, ...], bool]]) -> Ordered:
    weights: list[int] = []
    items: list[Op | Loop] = []
    exact = True
    for item in body:
        if isinstance(item, Op):
            items.append(item)
            weights.append(0)
            continue
        inner = _ordered(program, item.body, search)
        items.append(replace(item, body=inner.body))
        weights.append(inner.peak_bytes)
        exact = exact and inner.exact
    level = level_of(program, tuple(items), tuple(weights), is_top=body is program.body)
    order, complete = search(level)
    return Ordered(tuple(items[index] for index in order), level.peak_of(order), exact and complete)


@dataclass(frozen=True, slots=True)
class _State:
    """A set of executed items, reached in the best way known: least peak, then least sum of live bytes."""

    done: int
    ready: int
    live_bytes: int
    peak_bytes: int
    total_bytes: int
    last: int
    previous: _State | None

    def rank(self) -> tuple[int, int]:
        return self.peak_bytes, self.total_bytes

    def order(self) -> tuple[int, ...]:
        items: list[int] = []
        state = self
        while state.previous is not None:
            items.append(state.last)
            state = state.previous
        return tuple(reversed(items))


# A search of formats asks again and again: what they change of a level is its constants, or nothing.
@lru_cache(maxsize=256)
def _search(level: Level, width: int | None) -> tuple[tuple[int, ...], bool]:
    """The best order (the given one unless another has a smaller peak), and whether the search was exhaustive."""
    count = len(level.items)
    given = tuple(range(count))
    limit_bytes = level.peak_of(given)
    if limit_bytes <= level.floor_bytes():
        return given, True
    states = [_State(0, level.ready_after(0), level.live_at_start(), 0, 0, -1, None)]
    exact = True
    for _ in range(count):
        best: dict[int, _State] = {}
        for state in states:
            for following in _successors(level, state, limit_bytes):
                known = best.get(following.done)
                if known is None or following.rank() < known.rank():
                    best[following.done] = following
        states = sorted(best.values(), key=_State.rank)  # stable: equals stay in the order of their items
        beam = _affordable(states, MOST_EXPANSIONS // count) if width is None else width
        exact = exact and len(states) <= beam
        states = states[:beam]
    return (min(states, key=_State.rank).order() if states else given), exact


def _affordable(states: list[_State], expansions: int) -> int:
    """How many of the states may go on, each with as many successors as it has items ready; at least one."""
    beam = 0
    for state in states:
        expansions -= state.ready.bit_count()
        if expansions < 0:
            break
        beam += 1
    return max(1, beam)


def _successors(level: Level, state: _State, limit_bytes: int) -> list[_State]:
    """One more item executed; what reaches the limit is dropped."""
    found = []
    for item in level.members(state.ready):
        during, after = level.step(state.done, item, state.live_bytes)
        peak = max(state.peak_bytes, during)
        if peak >= limit_bytes:
            continue
        done = state.done | 1 << item
        ready = state.ready & ~(1 << item) | level.released(item, done)
        found.append(_State(done, ready, after, peak, state.total_bytes + during, item, state))
    return found
