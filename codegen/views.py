"""Parts of tensors that need no copy: a slice or a part of a split shown where its source lies, the parts of a
concatenation made where the whole will lie.

The operation is a contiguous copy between equal formats, so nothing happens if part and whole lie at the right
distance. The planner may decline; then the copy is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from codegen.steps import Step, writers_of
from memplan import Alias, Plan
from tinyhil.liveness import LiveRange
from tinyhil.ops.movement import MOVE, PLACE, PLACE_MORE, RANK
from tinyhil.ops.scan import COPY
from tinyhil.program import Op, Program


@dataclass(frozen=True, slots=True)
class View:
    """An operation that does nothing if `part` starts `shift_bytes` above `whole`."""

    whole: str
    part: str
    shift_bytes: int


def view_of(program: Program, op: Op) -> View | None:
    """What `op` shows of what, both in the arena; None if it is more than a contiguous copy."""
    if op.kernel not in (COPY.name, MOVE.name, PLACE.name, PLACE_MORE.name):
        return None
    source, target = program.tensors[op.inputs[0]], program.tensors[op.output]
    if source.role != "arena" or target.role != "arena" or source.format != target.format or source is target:
        return None
    if op.kernel == COPY.name:
        return View(op.output, op.inputs[0], 0)
    if not _is_contiguous(op.params):
        return None
    shift_bytes = op.params["offset"] * source.format.storage_bytes
    if op.kernel == MOVE.name:
        return View(op.inputs[0], op.output, shift_bytes)
    return View(op.output, op.inputs[0], shift_bytes)


def _is_contiguous(params: Mapping[str, int]) -> bool:
    """Whether the block's positions follow each other: its axes are joined where they do."""
    last = RANK - 1
    outer = all(params[f"size_{axis}"] == 1 for axis in range(last))
    return outer and (params[f"stride_{last}"] == 1 or params[f"size_{last}"] == 1)


def is_done_by_plan(program: Program, plan: Plan, op: Op) -> bool:
    """Whether the plan has put everything where `op` would put it."""
    view = view_of(program, op)
    if view is None or view.whole not in plan.offsets or view.part not in plan.offsets:
        return False
    together = plan.regions[view.part] == plan.regions[view.whole]
    return together and plan.offsets[view.part] - plan.offsets[view.whole] == view.shift_bytes


def view_aliases(program: Program, steps: Sequence[Step], ranges: Mapping[str, LiveRange]) -> Iterator[Alias]:
    """The views that hold: nobody writes one of the two while the other still shows its bytes."""
    writers = writers_of(steps)
    for now, step in enumerate(steps):
        view = view_of(program, step.op)
        if view is None or step.op.kernel == COPY.name:
            continue
        if step.op.kernel == MOVE.name:
            holds = _slice_holds(writers, ranges, view, now)
        else:
            holds = _concat_holds(program, steps, writers, ranges, view, now)
        if holds:
            yield Alias(view.whole, view.part, view.shift_bytes)


def _slice_holds(
    writers: Mapping[str, list[int]], ranges: Mapping[str, LiveRange], view: View, now: int
) -> bool:
    """The part is made here alone, and while it lives nobody writes the whole."""
    part = ranges[view.part]
    return writers[view.part] == [now] and not any(part.start <= i < part.end for i in writers.get(view.whole, ()))


def _concat_holds(
    program: Program,
    steps: Sequence[Step],
    writers: Mapping[str, list[int]],
    ranges: Mapping[str, LiveRange],
    view: View,
    now: int,
) -> bool:
    """The whole is made of disjoint parts at one level of loops and forgotten before it is made again, and while it
    lives nobody writes this part anew."""
    whole = ranges[view.whole]
    makers = [steps[i] for i in writers[view.whole]]
    if any(maker.op.kernel not in (PLACE.name, PLACE_MORE.name) for maker in makers):
        return False
    if len({maker.loops for maker in makers}) != 1 or whole.start != writers[view.whole][0]:
        return False
    if not _are_disjoint(program, [maker.op for maker in makers]):
        return False
    return not any(now < i < whole.end for i in writers.get(view.part, ()))


def _are_disjoint(program: Program, parts: Sequence[Op]) -> bool:
    """Whether contiguous blocks do not meet; others are taken to."""
    if not all(_is_contiguous(op.params) for op in parts):
        return False
    spans = sorted((op.params["offset"], op.params["offset"] + program.tensors[op.inputs[0]].count) for op in parts)
    return all(one[1] <= other[0] for one, other in zip(spans, spans[1:], strict=False))
