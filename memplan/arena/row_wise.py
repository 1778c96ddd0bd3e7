"""Row-wise execution: a part of a network becomes a loop in which every operation makes one row at a time; what lies
between them shrinks to line buffers, a sliding window of rows.

    for step:  a row of a, then a row of b, ...: those of the step, some of them none

Nothing is computed twice: a line buffer keeps the rows that later windows still need. Which rows are made in which step
is a constant table per operation (memplan/arena/row_schedule.py). Which parts of a network are worth it is chosen in
memplan/arena/row_choice.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.memplan.arena.row_schedule import Schedule, schedule_of
from tinyhil.memplan.arena.row_stages import Planes, Stage, joined_parts
from tinyhil.ops import rows
from tinyhil.ops.scan import FILL
from tinyhil.program import Loop, Op, Program, Role, Tensor, reads_of

BYTES, HALVES = Fixed(8, 0), Fixed(16, 0)
Layout = tuple[int, int, int]


def row_wise(program: Program, part: Sequence[Stage]) -> Program | None:
    """The program with these stages, which follow each other in its body, as a loop over rows.

    None if no buffer would shrink, or if not all of them lead to the last one's result.
    """
    stages = joined_parts(part)
    if stages is None:
        return None
    kept = _read_elsewhere(program, part)
    schedule = schedule_of(stages, kept)
    heights = {stage.target: stage.whole.height for stage in stages}
    if len(stages) < 2 or all(schedule.rings[name] >= height for name, height in heights.items()):
        return None
    return _Rewriting(program, stages, schedule).done(part)


def _read_elsewhere(program: Program, part: Sequence[Stage]) -> set[str]:
    """What the stages make that others read, too."""
    theirs = {id(stage.item) for stage in part}
    others = tuple(item for item in program.body if id(item) not in theirs)
    return {stage.target for stage in part} & {*reads_of(others), program.output}


class _Rewriting:
    """The tensors, constants and operations of the new program."""

    def __init__(self, program: Program, stages: Sequence[Stage], schedule: Schedule) -> None:
        self._program, self._stages, self._schedule = program, stages, schedule
        self._tensors: dict[str, Tensor] = dict(program.tensors)
        self._constants: dict[str, np.ndarray] = dict(program.constants)
        self._slices: dict[bytes, tuple[str, str]] = {}  # by the spans that their table holds
        self._layouts = {one.name: one.planes.layout(one.planes.height) for stage in stages for one in stage.reads}
        for stage in stages:
            self._layouts[stage.target] = stage.whole.layout(schedule.rings[stage.target])

    def done(self, part: Sequence[Stage]) -> Program:
        wholes = {stage.target: stage.whole for stage in self._stages}
        begin = [fill for name, planes in wholes.items() for fill in self._buffer(name, planes)]
        body = tuple(self._rowed(at, stage) for at, stage in enumerate(self._stages))
        name = f"{part[0].op.name} to {part[-1].op.name}"
        loop = Loop(name, self._schedule.spans.shape[1], tuple(self._slices.values()), body)
        theirs = {id(stage.item) for stage in part}
        last = max(index for index, item in enumerate(self._program.body) if id(item) in theirs)
        kept = [item for item in self._program.body[:last] if id(item) not in theirs]
        items = (*kept, *begin, loop, *self._program.body[last + 1 :])
        for stage in self._stages:
            if stage.target != stage.op.output:
                del self._tensors[stage.op.output]
        return replace(self._program, tensors=self._tensors, constants=self._constants, body=items)

    def _buffer(self, name: str, planes: Planes) -> Sequence[Op]:
        """The tensor with the rows it holds; what is kept from step to step must be there before the first one."""
        rows_held = min(self._schedule.rings[name], planes.height)
        elements = planes.row_elements * rows_held
        self._tensors[name] = replace(self._tensors[name], count=elements)
        if name in self._schedule.local:
            return ()
        maker = next(stage.op for stage in self._stages if stage.target == name)
        return (Op(FILL.name, f"{maker.name}.rows", (), name, {"count": elements, "value": 0}),)

    def _rowed(self, at: int, stage: Stage) -> Op:
        op = stage.op
        params: dict[str, int] = dict(op.params)
        if not stage.has_window:
            params |= {"channels": stage.out.channels, "width": stage.out.width}
        layouts = [self._layouts[one.name] for one in stage.reads]
        out = self._layouts[stage.target]
        params |= dict(zip(rows.LINES[3:], out, strict=True))
        for fields, layout in zip((rows.LINES[:3], rows.JOINED), layouts, strict=False):
            params |= dict(zip(fields, layout, strict=True))
        params |= stage.places or {}
        params["out_first"] = stage.channel * out[0]
        inputs = (self._slice(at, stage), *op.inputs, stage.target)
        return replace(op, kernel=op.kernel + rows.SUFFIX, inputs=inputs, output=stage.target, params=params)

    def _slice(self, at: int, stage: Stage) -> str:
        """The rows of a stage in the present step: two entries of a table, which those of the same rows share."""
        spans = self._schedule.spans[at].reshape(-1)
        if spans.tobytes() not in self._slices:
            fmt = BYTES if spans.max() < 1 << 8 else HALVES
            table, row = self._free(f"{stage.op.output}.rows"), self._free(f"{stage.op.output}.step")
            self._tensors[table] = Tensor(table, spans.size, fmt, Role.TABLE)
            self._tensors[row] = Tensor(row, 2, fmt, Role.TABLE)
            self._constants[table] = spans
            self._slices[spans.tobytes()] = table, row
        return self._slices[spans.tobytes()][1]

    def _free(self, wish: str) -> str:
        names = (wish if copy == 1 else f"{wish}.{copy}" for copy in count(1))
        return next(name for name in names if name not in self._tensors)


def rows_made(constants: Mapping[str, np.ndarray], loop: Loop, op: Op) -> int:
    """How many rows an operation of a loop over rows makes, each by a call that does something."""
    sequences = {row: sequence for sequence, row in loop.slices}
    spans = constants[sequences[op.inputs[0]]].reshape(-1, 2)
    return int((spans[:, 1] - spans[:, 0]).sum())
