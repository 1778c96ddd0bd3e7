"""A loop state holds nothing between the last operation that reads it and the one that writes it anew.

In this gap its bytes are free: the last reader may already work in place, and the next state may be computed where
the present one lay. Both follow from gaps in the live range, which the planner knows how to use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyhil.language.program import Op, Program, Role
from tinyhil.memplan import Alias, Buffer, Problem
from tinyhil.memplan.arena.steps import Step, made_again, readers_of, steps_of, writers_of
from tinyhil.memplan.arena.tensors import overwritable
from tinyhil.ops.scan import COPY

Interval = tuple[int, int]  # half-open, in instants


@dataclass(frozen=True, slots=True)
class Gap:
    """A state's idle time in each step of the loop whose body is that of `loops`."""

    instants: Interval
    loops: tuple[int, ...]


def with_gaps(program: Program, problem: Problem, *, in_place: bool = True) -> Problem:
    """`problem`, as `problem_of` made it of `program`, with the gaps of loop states and, `in_place`, the aliases these
    permit."""
    steps = list(steps_of(program.body, (), {}))
    writers, readers = writers_of(steps), readers_of(steps)
    extents = _extents(steps)
    gaps = {
        buffer.name: _gaps(steps, writers.get(buffer.name, ()), readers.get(buffer.name, ()), extents)
        for buffer in problem.buffers
    }
    buffers = tuple(replace(b, gaps=tuple(gap.instants for gap in gaps[b.name])) for b in problem.buffers)
    by_name = {buffer.name: buffer for buffer in buffers}
    known = problem.alias_pairs()
    aliases = list(problem.aliases)
    for now, step in enumerate(steps if in_place else ()):
        for name in _places(program, step.op):
            target = step.op.output
            if name == target or frozenset((name, target)) in known:
                continue
            anew = _read_once(steps, gaps[name], writers.get(name, ()), now)
            if anew and _meet_once(by_name[name], by_name[target], now):
                aliases.append(Alias(name, target))
                known |= {frozenset((name, target))}
    return Problem(buffers, problem.regions, tuple(aliases))


def _gaps(
    steps: Sequence[Step], writers: Iterable[int], readers: Sequence[int], extents: Mapping[tuple[int, ...], Interval]
) -> list[Gap]:
    """The gaps of one tensor, given the instants at which it is written and read."""
    found = []
    writers = tuple(writers)
    for now in writers:
        loops = steps[now].loops
        if not loops or now in readers:
            continue
        first, end = extents[loops]
        inside = sum(first <= i < end for i in writers)
        read = [_last_instant(steps, i, loops, extents) for i in readers if first <= i < now]
        if inside == 1 and read and max(read) + 1 < now:
            found.append(Gap((max(read) + 1, now), loops))
    return found


def _extents(steps: Sequence[Step]) -> dict[tuple[int, ...], Interval]:
    """The instants of the innermost of each nest of loops."""
    found: dict[tuple[int, ...], Interval] = {}
    for now, step in enumerate(steps):
        for depth in range(1, len(step.loops) + 1):
            first, _ = found.get(step.loops[:depth], (now, now))
            found[step.loops[:depth]] = (first, now + 1)
    return found


def _last_instant(
    steps: Sequence[Step], reader: int, loops: tuple[int, ...], extents: Mapping[tuple[int, ...], Interval]
) -> int:
    """When `reader` reads for the last time in one step of `loops`: within a loop further in, when that one ends."""
    around = steps[reader].loops[: len(loops) + 1]
    return reader if len(around) == len(loops) else extents[around][1] - 1


def _places(program: Program, op: Op) -> list[str]:
    """Tensors whose place the output may take."""
    if op.kernel == COPY.form:
        return [op.inputs[0]] if program.tensors[op.inputs[0]].role == Role.ARENA else []
    return list(overwritable(program, op))


def _meet_once(source: Buffer, target: Buffer, now: int) -> bool:
    """Whether `source` ends with this instant, `target` begins with it, and they meet at no other."""
    meetings = [(max(a, c), min(b, d)) for a, b in source.sections for c, d in target.sections if max(a, c) < min(b, d)]
    ends, begins = {end for _, end in source.sections}, {start for start, _ in target.sections}
    return meetings == [(now, now + 1)] and now + 1 in ends and now in begins


def _read_once(steps: Sequence[Step], gaps: list[Gap], writers: Sequence[int], now: int) -> bool:
    """Whether every value met at `now` was written anew: nothing needs it again after this reader."""
    if any(gap.instants[0] == now + 1 and gap.loops == steps[now].loops for gap in gaps):
        return True
    return made_again(steps, writers, steps[now])
