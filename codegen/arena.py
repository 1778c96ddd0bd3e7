"""Program -> planning problem: the arena tensors with their live ranges, and who may share whose bytes.

Two passes make the problem smaller; the planner may decline what they permit, and the generated code follows the plan:
an element-wise operation may write over an operand that nobody reads afterwards, and the next state of a loop may be
computed where the present one lies, if nobody reads the present one meanwhile. The copy at the end of the step then
disappears.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memplan import Alias, Buffer, Problem
from tinyhil.liveness import LiveRange, live_ranges
from tinyhil.ops import KERNEL_BY_NAME
from tinyhil.ops.scan import COPY
from tinyhil.program import Loop, Op, Program


def problem_of(program: Program, *, in_place: bool = True) -> Problem:
    """The arena of `program`; offsets are aligned to the element size. `in_place` False: no two tensors share bytes."""
    ranges = live_ranges(program)
    buffers = tuple(Buffer(r.name, r.size_bytes, r.start, r.end, alignment=r.element_bytes) for r in ranges)
    return Problem(buffers, aliases=tuple(_aliases(program, {r.name: r for r in ranges})) if in_place else ())


def _aliases(program: Program, ranges: dict[str, LiveRange]) -> Iterator[Alias]:
    steps = list(steps_of(program.body, (), {}))  # an operation's index here is its instant in the live ranges
    for now, step in enumerate(steps):
        op = step.op
        if op.kernel == COPY.name:
            source = op.inputs[0]
            if source in ranges and ranges[source].end == now + 1 and _state_is_free(steps, now):
                yield Alias(op.output, source)
            continue
        for name in overwritable(program, op):
            ends_here = ranges[name].end == now + 1 and made_again(steps, name, step)
            if ends_here and ranges[op.output].start == now:
                yield Alias(name, op.output)


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, the loops around it, and the tensors it reads with the rows of sequences traced back to them."""

    op: Op
    loops: tuple[int, ...]  # identities: names may repeat
    reads: frozenset[str]


def steps_of(body: tuple[Op | Loop, ...], loops: tuple[int, ...], sequence_of: dict[str, str]) -> Iterator[Step]:
    for item in body:
        if isinstance(item, Op):
            yield Step(item, loops, frozenset(sequence_of.get(name, name) for name in item.inputs))
        else:
            rows = {row: sequence_of.get(sequence, sequence) for sequence, row in item.slices}
            yield from steps_of(item.body, (*loops, id(item)), {**sequence_of, **rows})


def made_again(steps: list[Step], name: str, reader: Step) -> bool:
    """Whether every value of `name` that `reader` meets was written anew: no loop around it reuses an older one."""
    writers = [step.loops for step in steps if step.op.output == name]
    return all(loops[: len(reader.loops)] == reader.loops for loops in writers)


def overwritable(program: Program, op: Op) -> Iterator[str]:
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


def _state_is_free(steps: list[Step], copy: int) -> bool:
    """Whether the source of the copy at `copy` may be written where its target lies: from the operation that makes the
    source on, nobody reads the target, and nobody but that operation writes the source."""
    source, target = steps[copy].op.inputs[0], steps[copy].op.output
    writers = [i for i, step in enumerate(steps) if step.op.output == source]
    if len(writers) != 1 or writers[0] > copy:
        return False
    between = steps[writers[0] + 1 : copy]
    return target not in steps[writers[0]].reads and not any(
        target in step.reads or target == step.op.output for step in between
    )
