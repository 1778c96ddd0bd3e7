"""Program -> planning problem: the arena tensors with their live ranges, and who may share whose bytes.

Passes make the problem smaller; the planner may decline what they permit, and the generated code follows the
plan: an element-wise operation may write over an operand that nobody reads afterwards, a window that goes channel by
channel begins a little below it (lag.py); the next state of a loop may be
computed where the present one lies, if nobody reads the present one meanwhile, and the copy at the end of the step then
disappears; parts may be
views of a whole (memplan/arena/views.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyhil.language.program import Op, Program, Role
from tinyhil.memplan import Alias, Buffer, Problem
from tinyhil.memplan.arena.lag import lag_of
from tinyhil.memplan.arena.liveness import LiveRange, live_ranges
from tinyhil.memplan.arena.steps import Step, made_again, readers_of, steps_of, writers_of
from tinyhil.memplan.arena.views import view_aliases
from tinyhil.ops import KERNEL_OF, rows
from tinyhil.ops.scan import COPY


def problem_of(program: Program, *, in_place: bool = True, views: bool = True, lags: bool = True) -> Problem:
    """The arena of `program`; offsets are aligned to the element size. With neither pass no two tensors share bytes;
    without `lags` windows do not lie over their operands."""
    ranges = live_ranges(program)
    buffers = tuple(Buffer(r.name, r.size_bytes, r.start, r.end, alignment=r.element_bytes) for r in ranges)
    steps = list(steps_of(program.body, (), {}, program.constants))
    by_name = {r.name: r for r in ranges}
    aliases: list[Alias] = []
    if in_place:
        aliases += (alias for alias in _aliases(program, steps, by_name) if lags or not alias.shift_bytes)
    if views:
        aliases += view_aliases(program, steps, by_name)
    return Problem(buffers, aliases=tuple(dict.fromkeys(aliases)))


def _aliases(program: Program, steps: Sequence[Step], ranges: dict[str, LiveRange]) -> Iterator[Alias]:
    writers, readers = writers_of(steps), readers_of(steps)
    moving: dict[str, str] = {}  # of results over the rows of a line buffer
    for now, step in enumerate(steps):
        op = step.op
        line = _line_below(op, moving)
        if line is not None:
            moving[op.output] = line
            yield Alias(line, op.output)
        if rows.STAYS in op.params:
            yield Alias(rows.operand_of(replace(op, kernel=op.kernel.whole, inputs=op.inputs[1:-1])), op.output)
        for line in _overwritable_lines(program, op):
            if _dies_by_rows(steps, line, readers[line], writers.get(line, ()), writers[op.output], now):
                yield Alias(line, op.output)
        if op.kernel == COPY.form:
            source = op.inputs[0]
            dies = source in ranges and ranges[source].end == now + 1
            if dies and _state_is_free(steps, writers.get(source, ()), now):
                yield Alias(op.output, source)
            continue
        lagging = lag_of(program, op)
        places = [(name, 0) for name in overwritable(program, op)] + ([lagging] if lagging else [])
        for name, lag in places:
            ends_here = ranges[name].end == now + 1 and made_again(steps, writers.get(name, ()), step)
            if ends_here and ranges[op.output].start == now:
                yield Alias(op.output, name, lag) if lag else Alias(name, op.output)


def _line_below(op: Op, moving: Mapping[str, str]) -> str | None:
    """The line buffer through whose slots the result of `op` moves: that of its operand, if this does not move."""
    if not op.kernel.rows or rows.moves_of(op, rows.RESULT) is None or rows.BELOW in op.params:
        return None
    inner = op.inputs[1:-1]
    base = replace(op, kernel=op.kernel.whole, inputs=inner)
    return next((moving[name] for name in inner if name in moving), rows.operand_of(base))


def _dies_by_rows(
    steps: Sequence[Step], line: str, readers: Sequence[int], makers: Sequence[int], results: Sequence[int], now: int
) -> bool:
    """Whether nobody needs a row of a line any more when the operation at `now` makes that row, and nobody touches its
    result (`results`: who writes it) before its loop, but where both are line buffers of that."""
    loop = steps[now].loops[:1]
    others = [i for i in readers if i != now and i not in makers]
    within = [i for i in others if steps[i].loops[:1] == loop]
    if any(i > now for i in others if i not in within) or any(not _is_past(steps, line, i, now) for i in within):
        return False
    is_buffer = any(steps[i].loops[:1] == loop for i in makers)
    return not within if is_buffer else all(steps[i].loops[:1] == loop for i in results)


def _is_past(steps: Sequence[Step], line: str, reader: int, now: int) -> bool:
    """Whether another operation of the same loop over rows has no need of the row that the one at `now` makes."""
    other, spans, own = steps[reader].op, steps[reader].rows, steps[now].rows
    if spans is None or own is None or not other.kernel.rows:
        return False
    for step in np.flatnonzero(own[:, 1] > own[:, 0]):
        later = spans[step if reader > now else step + 1 :]
        later = later[later[:, 1] > later[:, 0]]
        if len(later) and rows.first_needed(other, line, int(later[0, 0])) < own[step, 1]:
            return False
    return True


def overwritable(program: Program, op: Op) -> Iterator[str]:
    """Operands whose element n is read only for element n of the output, and before it is written."""
    out = program.tensors[op.output]
    if not KERNEL_OF[op.kernel].in_place:
        return
    periods = (op.params.get("a_period", out.count), op.params.get("b_period", out.count))
    places = KERNEL_OF[op.kernel].in_place_at
    run_time = [name for name in op.inputs if program.tensors[name].role != Role.TABLE]
    if places:  # what the kernel reads otherwise as well must stay
        run_time = [op.inputs[at] for at in places if op.inputs.count(op.inputs[at]) == 1]
    for name, period in zip(run_time, periods, strict=False):
        tensor = program.tensors[name]
        same_size = tensor.count == out.count and tensor.format.storage_bytes == out.format.storage_bytes
        if tensor.role == Role.ARENA and same_size and period == out.count:
            yield name


def _overwritable_lines(program: Program, op: Op) -> Iterator[str]:
    """The lines whose rows `op` may overwrite as it reads them, each once, if nobody else needs them."""
    if not op.kernel.rows:
        return None
    base = replace(op, kernel=op.kernel.whole, inputs=op.inputs[1:-1])
    out = program.tensors[op.output]
    lines, moves = tuple(op.params[field] for field in rows.LINES[3:]), rows.moves_of(op, rows.RESULT)
    operands = (
        (rows.operand_of(base), rows.LINES[:3], rows.OPERAND),
        (rows.joined_of(base), rows.JOINED, rows.SECOND),
    )
    for name, fields, side in operands:
        if name is None:
            continue
        if base.kernel in rows.HAS_WINDOW and (fields is not rows.JOINED or name == rows.operand_of(base)):
            continue  # a window reads its rows again
        x = program.tensors[name]
        same = x.format.storage_bytes == out.format.storage_bytes and x.count == out.count
        same = same and op.params[f"{side}_first"] == op.params["out_first"] and rows.moves_of(op, side) == moves
        if same and x.role == Role.ARENA and lines == tuple(op.params[field] for field in fields):
            yield name


def _state_is_free(steps: Sequence[Step], writers: Sequence[int], copy: int) -> bool:
    """Whether the source of the copy at `copy` may be written where its target lies: from the operation that makes the
    source on, nobody reads the target, and nobody but that operation writes the source."""
    target = steps[copy].op.output
    if len(writers) != 1 or writers[0] > copy:
        return False
    between = steps[writers[0] + 1 : copy]
    return target not in steps[writers[0]].reads and not any(
        target in step.reads or target == step.op.output for step in between
    )
