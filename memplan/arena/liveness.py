"""When each arena tensor holds a value that is still needed.

Operations are numbered in order, a loop body once. A tensor is live from the operation that first writes it to the
last one that touches it; one that is live into a loop from outside, or carried from step to step, is live for the whole
loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyhil.language.program import Body, Op, Program, Role, walk

BEFORE = -1  # the instant at which the sample is received


@dataclass(frozen=True, slots=True)
class LiveRange:
    """`size_bytes` in the half-open range [start, end) of operation numbers."""

    name: str
    size_bytes: int
    element_bytes: int
    start: int
    end: int


def live_ranges(program: Program) -> tuple[LiveRange, ...]:
    """Live range of every arena tensor, in order of first use."""
    touched: dict[str, list[int]] = {program.input: [BEFORE]} if program.input_in_arena else {}
    loops: list[tuple[int, int]] = []
    end = _number(program, program.body, 0, touched, loops)
    if program.output in touched:
        touched[program.output].append(end)  # read by the session after the last operation
    ranges = []
    for name, times in touched.items():
        start, last = times[0], times[-1]
        # outermost loop first: a range that crosses a loop's border covers the loop
        for first, after in loops:
            if start < first <= last or start < after <= last:
                start, last = min(start, first), max(last, after - 1)
        tensor = program.tensors[name]
        ranges.append(LiveRange(name, tensor.size_bytes, tensor.format.storage_bytes, start, last + 1))
    return tuple(ranges)


def _number(
    program: Program,
    body: Body,
    now: int,
    touched: dict[str, list[int]],
    loops: list[tuple[int, int]],
) -> int:
    for item in body:
        if isinstance(item, Op):
            for name in item.tensors:
                if program.tensors[name].role == Role.ARENA:
                    touched.setdefault(name, []).append(now)
            now += 1
            continue
        position, first = len(loops), now
        for sequence, _ in item.slices:
            if program.tensors[sequence].role == Role.ARENA:
                touched.setdefault(sequence, []).append(now)
        now = _number(program, item.body, now, touched, loops)
        loops.insert(position, (first, now))
        for sequence, _ in item.slices:
            if program.tensors[sequence].role == Role.ARENA:
                touched[sequence].append(now - 1)
    return now


def items_touching(program: Program) -> dict[str, tuple[int, int]]:
    """The first and the last item that touches each arena tensor; the output is read after all, and a
    sample in the arena is there before all."""
    found: dict[str, tuple[int, int]] = {program.input: (BEFORE, BEFORE)} if program.input_in_arena else {}
    for index, item in enumerate(program.body):
        if isinstance(item, Op):
            names = list(item.tensors)
        else:
            names = [sequence for sequence, _ in item.slices] + [name for op in walk((item,)) for name in op.tensors]
        for name in names:
            if program.tensors[name].role == Role.ARENA:
                found[name] = found.get(name, (index, index))[0], index
    if program.output in found:
        found[program.output] = found[program.output][0], len(program.body)
    return found
