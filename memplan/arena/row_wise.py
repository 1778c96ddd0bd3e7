"""Row-wise execution: a chain of convolutions, poolings and element-wise operations becomes a loop over the rows of its
last result; what lies between them shrinks to line buffers, a sliding window of rows.

    for step:  a rows [a_step, a_step + n), then b rows [..), ..., one row of the last result

Nothing is computed twice: a line buffer keeps the rows that later windows still need. Which rows are made in which step
is a constant table per operation. Which parts of which chains are worth it is chosen in memplan/arena/row_choice.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.memplan.arena.steps import readers_of, steps_of, writers_of
from tinyhil.ops import rows, window
from tinyhil.ops.scan import FILL
from tinyhil.program import Loop, Op, Program, Role, Tensor

TABLE = Fixed(16, 0)


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
class Reach:
    """Which rows of an operand of `height` rows the rows of a result need; without `has_window` its own."""

    height: int
    out_height: int
    has_window: bool = False
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    dilation: int = 1

    def needed(self, ends: np.ndarray) -> np.ndarray:
        """How many rows of the operand must be there for the first `ends` rows of the result."""
        if not self.has_window:
            return ends
        last = (ends - 1) * self.stride - self.pad + (self.kernel - 1) * self.dilation
        return np.where(ends == 0, 0, np.clip(last + 1, 1, self.height))

    def first_rows(self, begins: np.ndarray) -> np.ndarray:
        """The first row of the operand that result row `begin` needs, for each."""
        if not self.has_window:
            return begins
        return np.clip(begins * self.stride - self.pad, 0, self.height)


@dataclass(frozen=True, slots=True)
class Stage:
    """An operation of a chain, and what it reads and makes."""

    op: Op
    x: Planes
    out: Planes
    reach: Reach

    @property
    def has_window(self) -> bool:
        return self.reach.has_window


# ---- chains


def chains(program: Program) -> list[list[Stage]]:
    """The longest runs of operations at the top level, each the only reader of the one before."""
    steps = list(steps_of(program.body, (), {}))
    writers, readers = writers_of(steps), readers_of(steps)
    ops = {item.output: index for index, item in enumerate(program.body) if isinstance(item, Op)}

    def passes_on(name: str) -> bool:
        tensor = program.tensors[name]
        alone = len(writers.get(name, ())) == 1 and len(readers.get(name, ())) == 1
        return tensor.role == Role.ARENA and alone and name != program.output

    found: list[list[Stage]] = []
    end_of: dict[str, list[Stage]] = {}
    for name, index in ops.items():
        op = program.body[index]
        assert isinstance(op, Op)
        if op.kernel not in rows.BASE or len(writers[name]) != 1 or program.tensors[name].role != Role.ARENA:
            continue
        source = rows.operand_of(op)
        before = end_of.get(source) if source in ops and passes_on(source) else None
        stage = _stage(program, op, before[-1].out if before else None)
        if stage is None:
            continue
        if before is None or before[-1].out != stage.x or sum(source == one for one in op.inputs) != 1:
            before = []
            found.append(before)
        before.append(stage)
        end_of[name] = before
    return [chain for chain in found if len(chain) > 1]


def _stage(program: Program, op: Op, before: Planes | None) -> Stage | None:
    """None where the geometry is not known, or rows would not be worth it."""
    if op.kernel in rows.HAS_WINDOW:
        w = window.window_of(op.params)
        if w.height < 2 or program.tensors[rows.operand_of(op)].role not in (Role.ARENA, Role.INPUT):
            return None
        out = Planes(op.params.get("outputs", w.channels), w.out_height, w.out_width)
        reach = Reach(w.height, w.out_height, True, w.kernel_y, w.stride_y, w.pad_y, w.dilation_y)
        return Stage(op, Planes(w.channels, w.height, w.width), out, reach)
    if before is None or program.tensors[op.output].count != before.row_elements * before.height:
        return None
    return Stage(op, before, before, Reach(before.height, before.height))


# ---- the loop


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rows made by each stage up to each step (stages, steps), and the rows each inner line buffer holds."""

    ends: np.ndarray
    rings: tuple[int, ...]


def schedule_of(part: Sequence[Stage]) -> Schedule:
    """One row of the last result per step, all before as late as possible; rows left over in the last step."""
    return _scheduled(tuple(stage.reach for stage in part))


@lru_cache(maxsize=4096)
def _scheduled(part: tuple[Reach, ...]) -> Schedule:
    """Remembered: a search plans thousands of programs that differ in their formats alone."""
    steps = part[-1].out_height
    ends = np.zeros((len(part), steps), np.int64)
    ends[-1] = np.arange(1, steps + 1)
    for at in range(len(part) - 2, -1, -1):
        ends[at] = part[at + 1].needed(ends[at + 1])
        ends[at, -1] = part[at].out_height
    ends.flags.writeable = False
    rings = [_ring(part[at + 1], ends[at], ends[at + 1]) for at in range(len(part) - 1)]
    for at in range(len(part) - 2, 0, -1):  # an operation in place needs the buffer of its result
        if not part[at].has_window:
            rings[at - 1] = max(rings[at - 1], rings[at])
    return Schedule(ends, tuple(rings))


def _ring(reader: Reach, made: np.ndarray, used: np.ndarray) -> int:
    """The most rows between the first one still needed and the last one made, over all steps."""
    first = np.minimum(reader.first_rows(np.concatenate([[0], used[:-1]])), made)
    return int((made - first).max())


def row_wise(program: Program, part: Sequence[Stage]) -> Program | None:
    """The program with this part of a chain as a loop over rows; None if no buffer would shrink."""
    schedule = schedule_of(part)
    if not any(ring < stage.out.height for ring, stage in zip(schedule.rings, part, strict=False)):
        return None
    naming = _Naming(program)
    layouts = [stage.out.layout(ring) for stage, ring in zip(part, schedule.rings, strict=False)]
    layouts = [part[0].x.layout(part[0].x.height), *layouts, part[-1].out.layout(part[-1].out.height)]
    begin: list[Op | Loop] = []
    body: list[Op] = []
    slices: list[tuple[str, str]] = []
    for at, stage in enumerate(part):
        tensor = program.tensors[stage.op.output]
        if at + 1 < len(part):
            ring = min(schedule.rings[at], stage.out.height)
            naming.tensors[tensor.name] = replace(tensor, count=stage.out.row_elements * ring)
        fill = {"count": naming.tensors[tensor.name].count, "value": 0}
        begin.append(Op(FILL.name, f"{stage.op.name}.rows", (), tensor.name, fill))
        table = naming.table(f"{tensor.name}.rows", _spans(schedule.ends[at]))
        row = naming.row(f"{tensor.name}.step")
        slices.append((table, row))
        body.append(_rowed(stage, row, layouts[at], layouts[at + 1]))
    name = f"{part[0].op.name} to {part[-1].op.name}"
    loop = Loop(name, part[-1].out.height, tuple(slices), tuple(body))
    theirs = {id(stage.op) for stage in part}  # positions may have moved since the chain was found
    indices = [index for index, item in enumerate(program.body) if id(item) in theirs]
    return naming.finished(_replaced(program.body, indices, (*begin, loop)))


def _spans(ends: np.ndarray) -> np.ndarray:
    """(begin, end) of each step, flat."""
    begins = np.concatenate([[0], ends[:-1]])
    return np.stack([begins, ends], axis=1).reshape(-1)


def _rowed(stage: Stage, row: str, x: tuple[int, int, int], out: tuple[int, int, int]) -> Op:
    op = stage.op
    params: dict[str, int] = dict(op.params)
    if not stage.has_window:
        params |= {"channels": stage.x.channels, "width": stage.x.width}
    params |= dict(zip(rows.LINES, (*x, *out), strict=True))
    return replace(op, kernel=op.kernel + rows.SUFFIX, inputs=(row, *op.inputs, op.output), params=params)


def _replaced(
    body: tuple[Op | Loop, ...], indices: Sequence[int], instead: tuple[Op | Loop, ...]
) -> tuple[Op | Loop, ...]:
    """The loop goes where the last of its operations was: nobody read the others' results before."""
    gone = set(indices)
    kept = [item for index, item in enumerate(body[: indices[-1]]) if index not in gone]
    return (*kept, *instead, *body[indices[-1] + 1 :])


class _Naming:
    """The tensors and constants of the new program, with names that are free."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tensors: dict[str, Tensor] = dict(program.tensors)
        self.constants: dict[str, np.ndarray] = dict(program.constants)

    def table(self, wish: str, entries: np.ndarray) -> str:
        name = self._free(wish)
        self.tensors[name] = Tensor(name, entries.size, TABLE, Role.TABLE)
        self.constants[name] = entries.astype(np.int64)
        return name

    def row(self, wish: str) -> str:
        """Two entries of a table, at the present step."""
        name = self._free(wish)
        self.tensors[name] = Tensor(name, 2, TABLE, Role.TABLE)
        return name

    def _free(self, wish: str) -> str:
        names = (wish if copy == 1 else f"{wish}.{copy}" for copy in count(1))
        return next(name for name in names if name not in self.tensors)

    def finished(self, body: tuple[Op | Loop, ...]) -> Program:
        return replace(self.program, tensors=self.tensors, constants=self.constants, body=body)
