"""A loop state holds nothing between the last operation that reads it and the one that writes it anew.

In this gap its bytes are free: the last reader may already work in place, and the next state may be computed where
the present one lay. Both follow from gaps in the live range, which the planner knows how to use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.arena import Step, _made_again, _overwritable, _steps
from memplan import Alias, Buffer, Problem
from tinyhil.ops.scan import COPY
from tinyhil.program import Loop, Op, Program

Interval = tuple[int, int]  # half-open, in instants


@dataclass(frozen=True, slots=True)
class Gap:
    """A state's idle time in each step of the loop whose body is that of `loops`."""

    instants: Interval
    loops: tuple[int, ...]


def with_gaps(program: Program, problem: Problem, *, in_place: bool = True) -> Problem:
    """`problem`, as `problem_of` made it of `program`, with the gaps of loop states and, `in_place`, the aliases these
    permit."""
    steps = list(_steps(program.body, (), {}))
    gaps = {buffer.name: _gaps(program, steps, buffer) for buffer in problem.buffers}
    buffers = tuple(replace(b, gaps=tuple(gap.instants for gap in gaps[b.name])) for b in problem.buffers)
    by_name = {buffer.name: buffer for buffer in buffers}
    known = problem.alias_pairs()
    aliases = list(problem.aliases)
    for now, step in enumerate(steps if in_place else ()):
        for name in _places(program, step.op):
            target = step.op.output
            if name == target or frozenset((name, target)) in known:
                continue
            if _meet_once(by_name[name], by_name[target], now) and _read_once(steps, gaps[name], name, now):
                aliases.append(Alias(name, target))
                known |= {frozenset((name, target))}
    return Problem(buffers, problem.regions, tuple(aliases))


def _gaps(program: Program, steps: list[Step], buffer: Buffer) -> list[Gap]:
    reads = _reads(program, steps, buffer.name)
    found = []
    for now, step in enumerate(steps):
        if step.op.output != buffer.name or not step.loops:
            continue
        first, end = _extent(steps, step.loops)
        writers = [i for i in range(first, end) if steps[i].op.output == buffer.name]
        inside = [_widened(steps, interval, step.loops) for interval in reads if first <= interval[0] < end]
        across = [interval for interval in reads if interval[0] < first < interval[1]]
        earlier = [interval for interval in inside if interval[0] < now]
        if len(writers) > 1 or across or not earlier or buffer.start >= first or buffer.end < end:
            continue
        if any(start <= now < stop for start, stop in inside):
            continue
        idle = max(stop for _, stop in earlier)
        if idle < now:
            found.append(Gap((idle, now), step.loops))
    return found


def _reads(program: Program, steps: list[Step], name: str) -> list[Interval]:
    """When `name` is read; a sequence is read as long as the loop over it runs."""
    found = [(now, now + 1) for now, step in enumerate(steps) if name in step.reads]
    return found + _as_sequence(program.body, name, 0)[0]


def _as_sequence(body: tuple[Op | Loop, ...], name: str, now: int) -> tuple[list[Interval], int]:
    found = []
    for item in body:
        if isinstance(item, Op):
            now += 1
            continue
        inner, end = _as_sequence(item.body, name, now)
        found += inner
        if any(sequence == name for sequence, _ in item.slices):
            found.append((now, end))
        now = end
    return found, now


def _extent(steps: list[Step], loops: tuple[int, ...]) -> Interval:
    """The instants of the innermost of `loops`."""
    inside = [now for now, step in enumerate(steps) if step.loops[: len(loops)] == loops]
    return inside[0], inside[-1] + 1


def _widened(steps: list[Step], interval: Interval, loops: tuple[int, ...]) -> Interval:
    """A read within a loop further in happens again and again until that loop ends."""
    around = steps[interval[0]].loops[: len(loops) + 1]
    if len(around) == len(loops):
        return interval
    first, end = _extent(steps, around)
    return first, max(end, interval[1])


def _places(program: Program, op: Op) -> list[str]:
    """Tensors whose place the output may take."""
    if op.kernel == COPY.name:
        return [op.inputs[0]] if program.tensors[op.inputs[0]].role == "arena" else []
    return list(_overwritable(program, op))


def _meet_once(source: Buffer, target: Buffer, now: int) -> bool:
    """Whether `source` ends with this instant, `target` begins with it, and they meet at no other."""
    meetings = [
        (max(a, c), min(b, d)) for a, b in source.sections for c, d in target.sections if max(a, c) < min(b, d)
    ]
    ends, begins = {end for _, end in source.sections}, {start for start, _ in target.sections}
    return meetings == [(now, now + 1)] and now + 1 in ends and now in begins


def _read_once(steps: list[Step], gaps: list[Gap], name: str, now: int) -> bool:
    """Whether every value met at `now` was written anew: nothing needs it again after this reader."""
    if any(gap.instants[0] == now + 1 and gap.loops == steps[now].loops for gap in gaps):
        return True
    return _made_again(steps, name, steps[now])
