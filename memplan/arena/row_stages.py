"""Operations that can go row by row: which rows of their operands each row of their results needs.

A stage is an operation of the top level whose operands and result are planes: windows, element-wise operations of one
or two operands, layers that a tensor joins, and parts of a concatenation of channels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.memplan.arena.steps import readers_of, steps_of, writers_of
from tinyhil.memplan.arena.tensors import overwritable
from tinyhil.memplan.arena.views import PLACES, view_of
from tinyhil.ops import rows
from tinyhil.ops.movement import indices
from tinyhil.ops.window import Window, window_of
from tinyhil.program import Op, Program, Role


@dataclass(frozen=True, slots=True)
class Planes:
    """A tensor in NCHW order."""

    channels: int
    height: int
    width: int

    @property
    def row_elements(self) -> int:
        return self.channels * self.width

    def layout(self, ring: int) -> tuple[int, int, int]:
        """(plane, row, ring): the whole tensor, or a line buffer whose slots hold one row of every channel."""
        whole = ring >= self.height
        return (self.height * self.width, self.width, self.height) if whole else (self.width, self.row_elements, ring)


@dataclass(frozen=True, slots=True)
class Reads:
    """An operand that an operation goes through row by row. Without a window row n of the result needs its row n."""

    name: str
    planes: Planes
    window: Window | None = None

    def needed(self, end: int) -> int:
        """How many of its rows must be there for the first `end` rows of the result."""
        if self.window is None or end == 0:
            return end
        w = self.window
        last = (end - 1) * w.stride_y - w.pad_y + (w.kernel_y - 1) * w.dilation_y
        return min(max(last + 1, 1), self.planes.height)

    def first(self, row: int) -> int:
        """The first of its rows that row `row` of the result and later ones need."""
        if self.window is None:
            return row
        return min(max(row * self.window.stride_y - self.window.pad_y, 0), self.planes.height)


@dataclass(frozen=True, slots=True)
class Stage:
    """An operation with what it reads and makes: planes `channel`... of the tensor `target`, of which `parts`
    operations make some each.

    `places`: where the rows of an operand lie that is no planes, and made before. `overwrites`: operands whose rows its
    own may take the place of.
    """

    op: Op
    reads: tuple[Reads, ...]
    out: Planes
    target: str
    whole: Planes
    channel: int = 0
    parts: int = 1
    places: Mapping[str, int] | None = None
    overwrites: tuple[str, ...] = ()

    @property
    def has_window(self) -> bool:
        return self.op.kernel in rows.HAS_WINDOW

    @property
    def is_part(self) -> bool:
        """Whether it puts a part into a concatenation: nothing, where the part is made there."""
        return self.op.kernel in PLACES


def runs(program: Program) -> list[list[Stage]]:
    """The longest runs of stages that follow each other at the top level."""
    stages = stages_of(program)
    found: list[list[Stage]] = []
    for index in sorted(stages):
        if index - 1 not in stages:
            found.append([])
        found[-1].append(stages[index])
    return [run for run in found if len(run) > 1]


def stages_of(program: Program) -> dict[int, Stage]:
    """The stages by their index in the program's body."""
    uses = _Uses(program)
    planes: dict[str, Planes] = {}
    found = {}
    for index, item in enumerate(program.body):
        stage = _stage(program, item, planes, uses) if isinstance(item, Op) else None
        if stage is not None:
            planes[stage.target] = stage.whole
            found[index] = stage
    return found


class _Uses:
    """Who writes and who reads each tensor, by instants; which operations are at the top level."""

    def __init__(self, program: Program) -> None:
        steps = list(steps_of(program.body, (), {}))
        self.writers, self.readers = writers_of(steps), readers_of(steps)
        self.ops = [step.op for step in steps]

    def is_only_read_by(self, name: str, op: Op) -> bool:
        readers = self.readers.get(name, ())
        return len(readers) == 1 and self.ops[readers[0]] is op and len(self.writers.get(name, ())) == 1


def _stage(program: Program, op: Op, planes: Mapping[str, Planes], uses: _Uses) -> Stage | None:
    """None where the geometry is not known, or rows would not be worth it."""
    if op.kernel in PLACES:
        return _part(program, op, planes, uses)
    if op.kernel in rows.IS_MOVE:
        return _moved(program, op, uses)
    if op.kernel not in rows.BASE or len(uses.writers[op.output]) != 1 or program.tensors[op.output].role != Role.ARENA:
        return None
    source = rows.operand_of(op)
    if program.tensors[source].role not in (Role.ARENA, Role.INPUT):
        return None
    if op.kernel in rows.HAS_WINDOW:
        w = window_of(op.params)
        if w.height < 2:
            return None
        x, out = (
            Planes(w.channels, w.height, w.width),
            Planes(op.params.get("outputs", w.channels), w.out_height, w.out_width),
        )
        reads = [Reads(source, x, w)]
    elif source in planes:
        out = planes[source]
        reads = [Reads(source, out)]
    else:
        return None
    joined = rows.joined_of(op)
    if joined is not None:
        periods = {op.params.get(name, program.tensors[op.output].count) for name in ("a_period", "b_period")}
        if planes.get(joined) != out or len(periods) > 1:
            return None
        reads.append(Reads(joined, out))
    if program.tensors[op.output].count != out.row_elements * out.height:
        return None
    elsewhere = [name for name in op.inputs if name in {one.name for one in reads}]
    if len(elsewhere) != len(reads):  # one tensor as both operands
        return None
    return Stage(op, tuple(reads), out, op.output, out, overwrites=tuple(overwritable(program, op)))


def _moved(program: Program, op: Op, uses: _Uses) -> Stage | None:
    """A whole tensor with its axes in another order, channels in front: what windows read first of pictures."""
    readers = [uses.ops[now] for now in uses.readers.get(op.output, ())]
    window = next(
        (window_of(r.params) for r in readers if r.kernel in rows.HAS_WINDOW and rows.operand_of(r) == op.output), None
    )
    out = program.tensors[op.output]
    if window is None or window.height < 2 or len(uses.writers[op.output]) != 1 or out.role != Role.ARENA:
        return None
    planes = Planes(window.channels, window.height, window.width)
    at = indices(dict(op.params))
    if at.size != planes.row_elements * planes.height or at[0] != 0:
        return None
    at = at.reshape(planes.channels, planes.height, planes.width)
    strides = [int(at[tuple(int(axis == n) for n in range(3))]) if at.shape[axis] > 1 else 0 for axis in range(3)]
    if min(strides) < 0 or (at != np.tensordot(strides, np.indices(at.shape), 1)).any():
        return None
    places = dict(zip((*rows.LINES[:3], *rows.STEP), (strides[0], strides[1], planes.height, strides[2]), strict=True))
    return Stage(op, (), planes, op.output, planes, places=places)


def _part(program: Program, op: Op, planes: Mapping[str, Planes], uses: _Uses) -> Stage | None:
    """A concatenation along the channels whose part may be made where it belongs."""
    part = op.inputs[0]
    view, own = view_of(program, op), planes.get(part)
    if view is None or own is None or op.params.get("shift", 0) or not uses.is_only_read_by(part, op):
        return None
    plane = own.height * own.width
    channels, rest = divmod(program.tensors[op.output].count, plane)
    first, odd = divmod(op.params["offset"], plane)
    parts = len(uses.writers[op.output])
    if rest or odd:
        return None
    return Stage(op, (Reads(part, own),), own, op.output, Planes(channels, own.height, own.width), first, parts)


def joined_parts(part: Sequence[Stage]) -> list[Stage] | None:
    """The stages without those that put parts in their places: what makes a part makes it there.

    None if a part is made elsewhere, or some parts of a concatenation are.
    """
    makers = {stage.op.output: at for at, stage in enumerate(part) if not stage.is_part}
    made = {stage.op.output for stage in part}
    if any(
        name in made - {one.name for one in stage.reads}
        for stage in part
        if not stage.is_part
        for name in stage.op.inputs
    ):
        return None
    placed = Counter(stage.target for stage in part if stage.is_part)
    if any(placed[stage.target] != stage.parts for stage in part if stage.is_part):
        return None
    found: list[Stage | None] = list(part)
    for at, stage in enumerate(part):
        if not stage.is_part:
            continue
        maker = makers.get(stage.reads[0].name)
        making = found[maker] if maker is not None else None
        if maker is None or making is None or maker > at:
            return None
        found[at] = None
        found[maker] = replace(making, target=stage.target, whole=stage.whole, channel=stage.channel)
    return [stage for stage in found if stage is not None]
