"""Operations that can go row by row: which rows of their operands each row of their results needs.

A stage is an operation of the top level whose operands and result are planes: windows, element-wise operations of one
or two operands, layers that a tensor joins, and parts of a concatenation of channels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tinyhil.language.program import Op, Program, Role
from tinyhil.memplan.arena.lag import goes_by_channel
from tinyhil.memplan.arena.steps import readers_of, steps_of, writers_of
from tinyhil.memplan.arena.tensors import overwritable
from tinyhil.memplan.arena.views import PLACES, is_contiguous, view_of
from tinyhil.ops import rows
from tinyhil.ops.movement import MOVE, indices
from tinyhil.ops.window import Window, window_of


@dataclass(frozen=True, slots=True)
class Planes:
    """A tensor in NCHW order."""

    channels: int
    height: int
    width: int

    @property
    def row_elements(self) -> int:
        """Elements of one row in all channels."""
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

    def columns(self, begin: int, end: int) -> tuple[int, int]:
        """Which of its columns [begin, end) those of the result need."""
        if self.window is None:
            return begin, end
        w = self.window
        last = (end - 1) * w.stride_x - w.pad_x + (w.kernel_x - 1) * w.dilation_x
        return max(begin * w.stride_x - w.pad_x, 0), min(last + 1, self.planes.width)

    def window_of(self, begin: int, end: int, width: int) -> Window | None:
        """The window for the columns [begin, end) of a result that is `width` wide, over those that they need."""
        if self.window is None or (begin, end) == (0, width):
            return self.window
        return _of_columns(self.window, begin, end, self.columns(begin, end))


@lru_cache(maxsize=4096)
def _of_columns(w: Window, begin: int, end: int, needed: tuple[int, int]) -> Window:
    """A cut of programs asks for the same columns thousands of times."""
    first, last = needed
    left = w.pad_x - begin * w.stride_x + first
    return replace(w, width=last - first, out_width=end - begin, pad_x=left)


@dataclass(frozen=True, slots=True)
class Outline:
    """What a schedule depends on: rows read and made. `is_part_of_more`: `target` has other channels, too."""

    reads: tuple[Reads, ...]
    out: Planes
    target: str
    whole: Planes
    is_part_of_more: bool
    overwrites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """An operation `item` of a program, carried out as `op`, with what it reads and makes: planes `channel`... of the
    tensor `target`, of which `parts` operations make some each.

    `may_join`: whether it only puts a part in its place, and what makes the part could do so. `places`: where the rows
    of an operand lie that is no planes, and made before. `overwrites`: operands whose rows its own may take the place
    of. `by_channel`: whether it is a window whose rows may take the place of those that they are the last to need.
    """

    item: Op
    op: Op
    reads: tuple[Reads, ...]
    out: Planes
    target: str
    whole: Planes
    channel: int = 0
    parts: int = 1
    may_join: bool = False
    places: Mapping[str, int] | None = None
    overwrites: tuple[str, ...] = ()
    by_channel: bool = False

    @property
    def has_window(self) -> bool:
        """It reads several rows for one of its own."""
        return self.op.kernel in rows.HAS_WINDOW

    @property
    def outline(self) -> Outline:
        """What its schedule depends on, without the program's names for it."""
        return Outline(self.reads, self.out, self.target, self.whole, self.is_part_of_more, self.overwrites)

    @property
    def is_part_of_more(self) -> bool:
        """It writes some planes of a larger tensor."""
        return self.target != self.op.output

    @property
    def is_part(self) -> bool:
        """Whether it puts a part into a concatenation."""
        return self.op.kernel in rows.IS_MOVE and bool(self.reads)


Rows = Stage | Outline  # what makes rows of rows


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
        return _moved(program, op, planes, uses)
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
    over = tuple(overwritable(program, op))
    by_channel = goes_by_channel(program, op)
    return Stage(op, op, tuple(reads), out, op.output, out, overwrites=over, by_channel=by_channel)


def _moved(program: Program, op: Op, known: Mapping[str, Planes], uses: _Uses) -> Stage | None:
    """A whole tensor with its axes in another order, channels in front, which windows read first of pictures; or one
    number per channel spread over the planes that it is combined with."""
    out, planes = program.tensors[op.output], _planes_read(op.output, known, uses)
    if planes is None or planes.height < 2 or len(uses.writers[op.output]) != 1 or out.role != Role.ARENA:
        return None
    at = indices(dict(op.params))
    if at.size != planes.row_elements * planes.height or at[0] != 0:
        return None
    at = at.reshape(planes.channels, planes.height, planes.width)
    strides = [int(at[tuple(int(axis == n) for n in range(3))]) if at.shape[axis] > 1 else 0 for axis in range(3)]
    if min(strides) < 0 or (at != np.tensordot(strides, np.indices(at.shape), 1)).any():
        return None
    places = dict(zip((*rows.LINES[:3], *rows.STEP), (strides[0], strides[1], planes.height, strides[2]), strict=True))
    return Stage(op, op, (), planes, op.output, planes, places=places)


def _planes_read(name: str, known: Mapping[str, Planes], uses: _Uses) -> Planes | None:
    """As what planes a tensor is read."""
    for reader in (uses.ops[now] for now in uses.readers.get(name, ())):
        if reader.kernel in rows.HAS_WINDOW and rows.operand_of(reader) == name:
            w = window_of(reader.params)
            return Planes(w.channels, w.height, w.width)
        if reader.kernel in rows.IS_PAIR:
            return next((known[other] for other in reader.inputs if other != name and other in known), None)
    return None


def _part(program: Program, op: Op, planes: Mapping[str, Planes], uses: _Uses) -> Stage | None:
    """A concatenation along the channels: a move of rows, or nothing where the part may be made where it belongs."""
    part = op.inputs[0]
    own = planes.get(part)
    if own is None or not is_contiguous(op.params) or program.tensors[op.output].role != Role.ARENA:
        return None
    plane = own.height * own.width
    channels, rest = divmod(program.tensors[op.output].count, plane)
    first, odd = divmod(op.params["offset"], plane)
    if rest or odd or program.tensors[part].count != own.channels * plane:
        return None
    whole = Planes(channels, own.height, own.width)
    params = {name: op.params[name] for name in ("shift",) if name in op.params}
    kernel = MOVE.form if params else MOVE.form.on_codes
    move = replace(op, kernel=kernel, inputs=(part,), params=params)
    may_join = view_of(program, op) is not None and not params.get("shift", 0) and uses.is_only_read_by(part, op)
    parts, lines = len(uses.writers[op.output]), {rows.STEP[0]: 1}
    return Stage(op, move, (Reads(part, own),), own, op.output, whole, first, parts, may_join, lines)


def joined_parts(part: Sequence[Stage]) -> list[Stage] | None:
    """The stages without those that would put a part in its place where what makes it can make it there.

    None if only some parts of a concatenation are among them, or if one needs as a whole what another one makes.
    """
    made = {stage.op.output for stage in part}
    placed = Counter(stage.target for stage in part if stage.is_part)
    for stage in part:
        as_whole = set(stage.op.inputs) - {one.name for one in stage.reads}
        if as_whole & made or (stage.is_part and placed[stage.target] != stage.parts):
            return None
    makers = {stage.op.output: at for at, stage in enumerate(part) if not stage.is_part}
    found: list[Stage | None] = list(part)
    for at, stage in enumerate(part):
        maker = makers.get(stage.reads[0].name) if stage.may_join else None
        making = found[maker] if maker is not None else None
        if maker is not None and making is not None:
            found[at] = None
            found[maker] = replace(making, target=stage.target, whole=stage.whole, channel=stage.channel)
    return [stage for stage in found if stage is not None]
