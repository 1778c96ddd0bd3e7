"""How deep one function makes the stack: every path through it is executed, as far as the stack pointer goes.

What a register holds is known or not known. A core (`stack_avr.py`, `stack_arm.py`) says what an instruction does to
stack pointer and registers; an instruction whose effect on the stack pointer it can not tell ends the walk, and there
is no bound then. Taken for granted, as compilers promise it: what a function saves nobody else overwrites, and calls
keep the registers that the core's calling convention names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

from tinyhil.harness.build.disassembly import Code, Instruction

S = TypeVar("S", bound="State")
MOST_DEPTHS = 64  # at one place: more are a loop that pushes

Given = tuple[
    tuple[int, int], ...
]  # arguments that are the address of a function, by a number that the core gives them


class NotUnderstood(Exception):
    """Why there is no bound: the instruction, its place, and what of it is not known."""

    def __init__(self, code: Code, at: Instruction | int, why: str) -> None:
        address = at if isinstance(at, int) else at.address
        what = "" if isinstance(at, int) else f"instruction {at} "
        super().__init__(f"{what}at {address:#x} in {code.name_of(address)}: {why}")


class State(Protocol):
    """Of a processor on one path. `depth`: bytes below the entry; None between two halves of a new stack pointer."""

    @property
    def depth(self) -> int | None:
        """Bytes."""

    def key(self) -> object:
        """Equal for states of one place that may be merged."""

    def copy(self) -> Self:
        """One that changes alone."""

    def forget(self, other: Self) -> bool:
        """Keep what `other` holds as well; whether anything had to be given up."""


@dataclass(slots=True)
class Walk:
    """What was seen. `frame`: bytes below the entry, in the function itself; `deepest`: wherever its jumps lead.

    `calls`: bytes below the entry when a function is entered, by its address and what it is given; `indirect`: the same
    of calls through pointers that nobody knows; `restarts`: where the stack begins anew; `enables`: an instruction that
    lets interrupts in; `jumps`: places of this function that a pointer may lead to, and the state then.
    """

    start: int
    frame: int = 0
    deepest: int = 0
    calls: dict[tuple[int, Given], int] = field(default_factory=dict)
    indirect: int | None = None
    restarts: set[int] = field(default_factory=set)
    enables: int | None = None
    jumps: list[tuple[list[int], Any]] = field(default_factory=list)
    visited: set[int] = field(default_factory=set)

    def call(self, target: int, depth: int, given: Given = ()) -> None:
        """A function is entered `depth` bytes down."""
        self.calls[target, given] = max(self.calls.get((target, given), 0), depth)

    def call_unknown(self, depth: int) -> None:
        """Any function whose address is taken is."""
        self.indirect = max(self.indirect or 0, depth)


class Core(Protocol[S]):
    """What instructions do."""

    @property
    def code(self) -> Code:
        """Of the image."""

    def entry(self, is_interrupt: bool, given: Given) -> S:
        """Where a function begins."""

    def step(self, at: Instruction, state: S, walk: Walk) -> Sequence[tuple[int, S]] | None:
        """Where it goes on, and with what; None: at the next instruction, `state` changed in place. NotUnderstood."""


def walk(core: Core[S], start: int, is_interrupt: bool = False, given: Given = ()) -> Walk:
    """Every path from `start` to its returns, if it is `given` these functions. NotUnderstood."""
    found = Walk(start)
    own = core.code.span_of(start)
    seen: dict[int, dict[object, S]] = {}
    waiting: list[tuple[int, S]] = [(start, core.entry(is_interrupt, given))]
    while waiting or (waiting := _jumped_to(found)):
        address, state = waiting.pop()
        known = seen.setdefault(address, {})
        before = known.get(state.key())
        if before is None:
            if len(known) == MOST_DEPTHS:
                raise NotUnderstood(core.code, address, "the stack gets deeper with every turn of a loop")
            known[state.key()] = state.copy()
        elif before.forget(state):
            state = before.copy()
        else:
            continue
        waiting += _run(core, address, state, found, own.end if own is not None else None)
    return found


def _jumped_to(found: Walk) -> list[tuple[int, Any]]:
    """Compiled code has one depth at each place: what was visited need not be visited again."""
    for places, state in found.jumps:
        for place in places:
            if place not in found.visited:
                return [(place, state.copy())]
    return []


def _run(core: Core[S], address: int, state: S, found: Walk, end: int | None) -> Sequence[tuple[int, S]]:
    """Up to the next branch."""
    while True:
        at = core.code.at(address)
        if at is None:
            raise NotUnderstood(core.code, address, "no instruction is there")
        found.visited.add(address)
        ways = core.step(at, state, found)
        for depth in (state.depth,) if ways is None else (other.depth for _, other in ways):
            if depth is not None and depth > found.deepest:
                found.deepest = depth
            if depth is not None and depth > found.frame and found.start <= address and (end is None or address < end):
                found.frame = depth
        if ways is not None:
            return ways
        address = at.next
