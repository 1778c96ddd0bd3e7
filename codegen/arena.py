"""Program -> planning problem: the arena tensors with their live ranges, and who may share whose bytes.

Two passes make the problem smaller; the planner may decline what they permit, and the generated code follows the plan:
an element-wise operation may write over an operand that nobody reads afterwards, and the next state of a loop may be
computed where the present one lies, if nobody reads the present one meanwhile. The copy at the end of the step then
disappears.
"""

from __future__ import annotations

from collections.abc import Iterator

from memplan import Alias, Buffer, Problem
from tinyhil.liveness import LiveRange, live_ranges
from tinyhil.ops import KERNEL_BY_NAME
from tinyhil.ops.scan import COPY
from tinyhil.program import Op, Program, walk


def problem_of(program: Program, *, in_place: bool = True) -> Problem:
    """The arena of `program`; offsets are aligned to the element size. `in_place` False: no two tensors share bytes."""
    ranges = live_ranges(program)
    buffers = tuple(Buffer(r.name, r.size_bytes, r.start, r.end, alignment=r.element_bytes) for r in ranges)
    return Problem(buffers, aliases=tuple(_aliases(program, {r.name: r for r in ranges})) if in_place else ())


def _aliases(program: Program, ranges: dict[str, LiveRange]) -> Iterator[Alias]:
    ops = list(walk(program.body))  # an operation's index here is its instant in the live ranges
    for now, op in enumerate(ops):
        if op.kernel == COPY.name:
            if _state_is_free(ops, now):
                yield Alias(op.output, op.inputs[0])
            continue
        for name in _overwritable(program, op):
            if ranges[name].end == now + 1 and ranges[op.output].start == now:
                yield Alias(name, op.output)


def _overwritable(program: Program, op: Op) -> Iterator[str]:
    """Operands whose element n is read only for element n of the output, and before it is written."""
    out = program.tensors[op.output]
    if not KERNEL_BY_NAME[op.kernel].in_place:
        return
    periods = (op.params.get("a_period", out.count), op.params.get("b_period", out.count))
    run_time = [name for name in op.inputs if program.tensors[name].role != "table"]
    for name, period in zip(run_time, periods, strict=False):
        tensor = program.tensors[name]
        same_size = tensor.count == out.count and tensor.format.storage_bytes == out.format.storage_bytes
        if tensor.role == "arena" and same_size and period == out.count:
            yield name


def _state_is_free(ops: list[Op], copy: int) -> bool:
    """Whether the source of the copy at `copy` may be written where its target lies: from the operation that makes the
    source on, nobody reads the target, and nobody but that operation writes the source."""
    source, target = ops[copy].inputs[0], ops[copy].output
    writers = [i for i, op in enumerate(ops) if op.output == source]
    if len(writers) != 1 or writers[0] > copy:
        return False
    maker = ops[writers[0]]
    if target in maker.inputs:
        return False
    between = ops[writers[0] + 1 : copy]
    return not any(target in (*op.inputs, op.output) for op in between)
