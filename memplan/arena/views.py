"""Parts of tensors that need no copy: a slice or a part of a split shown where its source lies, the parts of a
concatenation made where the whole will lie.

The operation is a contiguous copy between equal formats, so nothing happens if part and whole lie at the right
distance. The planner may decline; then the copy is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tinyhil.language.program import Op, Program, Role
from tinyhil.memplan import Alias, Plan
from tinyhil.memplan.arena.liveness import LiveRange
from tinyhil.memplan.arena.steps import Step, writers_of
from tinyhil.ops.movement import MOVE, PLACE, PLACE_MORE, RANK
from tinyhil.ops.scan import COPY

MOVES = (MOVE.form, MOVE.form.on_codes)
PLACES = (PLACE.form, PLACE_MORE.form, PLACE.form.on_codes, PLACE_MORE.form.on_codes)
MOST_LEVELS = 64  # of views of views, or of parts of parts


@dataclass(frozen=True, slots=True)
class View:
    """An operation that does nothing if `part` starts `shift_bytes` above `whole`."""

    whole: str
    part: str
    shift_bytes: int


def view_of(program: Program, op: Op) -> View | None:
    """What `op` shows of what, both in the arena; None if it is more than a contiguous copy."""
    if op.kernel not in (COPY.form, *MOVES, *PLACES):
        return None
    source, target = program.tensors[op.inputs[0]], program.tensors[op.output]
    if source.role != Role.ARENA or target.role != Role.ARENA or source.format != target.format or source is target:
        return None
    if op.kernel == COPY.form:
        return View(op.output, op.inputs[0], 0)
    if not is_contiguous(op.params):
        return None
    shift_bytes = op.params["offset"] * source.format.storage_bytes
    if op.kernel in MOVES:
        return View(op.inputs[0], op.output, shift_bytes)
    return View(op.output, op.inputs[0], shift_bytes)


def is_contiguous(params: Mapping[str, int]) -> bool:
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
    """The views that hold: nobody writes one of the two while the other still shows its bytes. Views of views too."""
    writers = writers_of(steps)
    sources: dict[str, list[tuple[str, int]]] = {}  # of a slice: what it shows, and at which byte
    shown: dict[str, list[tuple[str, int]]] = {}  # the other way round
    parts: dict[str, list[tuple[str, int]]] = {}  # of a concatenation: what it is made of
    for now, step in enumerate(steps):
        view = view_of(program, step.op)
        if view is None or step.op.kernel == COPY.form:
            continue
        if step.op.kernel in MOVES:
            for whole, shift in [(view.whole, 0), *sources.get(view.whole, ())][:MOST_LEVELS]:
                if _slice_holds(writers, ranges, whole, view.part, now):
                    start = shift + view.shift_bytes
                    sources.setdefault(view.part, []).append((whole, start))
                    yield Alias(whole, view.part, start)
                    yield from _overlapping(ranges, shown.setdefault(whole, []), view.part, start)
        elif _concat_holds(program, steps, writers, ranges, view.whole):
            for part, shift in [(view.part, 0), *parts.get(view.part, ())][:MOST_LEVELS]:
                if not any(now < i < ranges[view.whole].end for i in writers.get(part, ())):
                    parts.setdefault(view.whole, []).append((part, shift + view.shift_bytes))
                    yield Alias(view.whole, part, shift + view.shift_bytes)


def _overlapping(
    ranges: Mapping[str, LiveRange], shown: list[tuple[str, int]], part: str, start: int
) -> Iterator[Alias]:
    """Slices of the same source that have bytes in common, live together; the part joins those `shown`."""
    mine = ranges[part]
    for name, other_start in shown:
        other = ranges[name]
        together = other.start < mine.end and mine.start < other.end
        if together and other_start < start + mine.size_bytes and start < other_start + other.size_bytes:
            yield Alias(name, part, start - other_start)
    shown.append((part, start))


def _slice_holds(
    writers: Mapping[str, list[int]], ranges: Mapping[str, LiveRange], whole: str, part: str, now: int
) -> bool:
    """The part is made here alone, and while it lives nobody writes the whole."""
    start, end = ranges[part].start, ranges[part].end
    return writers[part] == [now] and not any(start <= i < end for i in writers.get(whole, ()))


def _concat_holds(
    program: Program,
    steps: Sequence[Step],
    writers: Mapping[str, list[int]],
    ranges: Mapping[str, LiveRange],
    whole: str,
) -> bool:
    """The whole is made of disjoint parts at one level of loops, and forgotten before it is made again."""
    makers = [steps[i] for i in writers[whole]]
    if any(maker.op.kernel not in PLACES for maker in makers):
        return False
    if len({maker.loops for maker in makers}) != 1 or ranges[whole].start != writers[whole][0]:
        return False
    return _are_disjoint(program, [maker.op for maker in makers])


def _are_disjoint(program: Program, parts: Sequence[Op]) -> bool:
    """Whether contiguous blocks do not meet; others are taken to."""
    if not all(is_contiguous(op.params) for op in parts):
        return False
    spans = sorted((op.params["offset"], op.params["offset"] + program.tensors[op.inputs[0]].count) for op in parts)
    return all(one[1] <= other[0] for one, other in pairwise(spans))
