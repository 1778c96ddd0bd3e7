"""Row-wise execution: a part of a network becomes a loop in which every operation makes one row at a time; what lies
between them shrinks to line buffers, a sliding window of rows.

    for step:  a row of a, then a row of b, ...: those of the step, some of them none

No row is computed twice: a line buffer keeps those that later windows still need. Which rows are made in which step is
a constant table per operation (memplan/arena/row_schedule.py). Columns at the borders of strips are, where strips are
asked for (memplan/arena/strips.py). Which parts of a network are worth it is chosen in memplan/arena/row_choice.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.language.program import Loop, Op, Program, Role, Tensor, reads_of
from tinyhil.memplan.arena.row_overlap import Overlap, overlaps_of
from tinyhil.memplan.arena.row_schedule import Links, Schedule, demand_order, overwritten, schedule_of
from tinyhil.memplan.arena.row_stages import Stage, joined_parts
from tinyhil.memplan.arena.shared_rings import SharedRing, shared_rings_of
from tinyhil.memplan.arena.strips import Columns, strips_of
from tinyhil.names import free_name
from tinyhil.ops import rows
from tinyhil.ops.scan import FILL

BYTES, HALVES = Fixed(8, 0), Fixed(16, 0)
Layout = tuple[int, int, int]
OPERANDS = ((rows.LINES[:3], rows.OPERAND), (rows.JOINED, rows.SECOND))


def row_wise(
    program: Program,
    part: Sequence[Stage],
    strips: int = 1,
    over: Collection[str] | None = None,
    staying: Collection[str] = (),
) -> Program | None:
    """The program with these stages, which follow each other in its body, as a loop over rows; as one for each of so
    many strips. Results `over` are made over rows that die, all that can be by default; those `staying` remain there,
    in the ring of their operand (shared_rings.py).

    None if no buffer would shrink, or if not all of them lead to the last one's result.
    """
    stages = joined_parts(part)
    if stages is None:
        return None
    whole_tensors = _read_elsewhere(program, part)
    schedule = schedule_of(stages, whole_tensors)
    heights = {stage.target: stage.whole.height for stage in stages}
    keeps_all = strips == 1 and all(schedule.rings[name] >= height for name, height in heights.items())
    if len(stages) < 2 or keeps_all or strips > stages[-1].whole.width:
        return None
    inner = heights.keys() - whole_tensors - {stages[-1].target}
    overlaps = overlaps_of(stages, Links.of(stages), schedule.rings.__getitem__, inner)
    overlaps = [one for one in overlaps if schedule.local.issuperset(one.results)]
    chosen = [one for one in overlaps if over is None or one.results[0] in over]
    shared = [one for one in shared_rings_of(stages, demand_order(stages), schedule.rings, inner) if staying]
    shared = [one for one in shared if one.result in staying]
    in_shared = {name for one in shared for name in (one.line, one.result)}
    chosen = [one for one in chosen if one.line not in in_shared]
    rewriting = _Rewriting(program, stages, schedule, whole_tensors, chosen, shared)
    return rewriting.done(part, strips_of(stages, whole_tensors, strips))


def _read_elsewhere(program: Program, part: Sequence[Stage]) -> set[str]:
    """What the stages make that others read, too."""
    theirs = {id(stage.item) for stage in part}
    others = tuple(item for item in program.body if id(item) not in theirs)
    return {stage.target for stage in part} & {*reads_of(others), program.output}


@dataclass(frozen=True, slots=True)
class _Strip:
    """`made`: the columns of each result. `names`: what is of this strip alone is called otherwise. `starts`: the first
    column that a buffer holds. `moves`: of results over the rows of line buffers."""

    made: Mapping[str, Columns]
    names: dict[str, str]
    starts: dict[str, int]
    layouts: dict[str, Layout]
    moves: dict[str, rows.Moves]

    def named(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.names.get(name, name) for name in names)


class _Rewriting:
    """The tensors, constants and operations of the new program."""

    def __init__(
        self,
        program: Program,
        stages: Sequence[Stage],
        schedule: Schedule,
        whole_tensors: Collection[str],
        overlaps: Sequence[Overlap],
        shared: Sequence[SharedRing] = (),
    ) -> None:
        self._overlaps, self._shared = overlaps, shared
        self._rings = dict(schedule.rings) | {name: one.slots for one in shared for name in (one.line, one.result)}
        self._above = {one.line: one for one in shared if one.above}
        self._program, self._stages, self._schedule = program, stages, schedule
        self._whole = {*whole_tensors, stages[-1].target}
        self._tensors: dict[str, Tensor] = dict(program.tensors)
        self._constants: dict[str, np.ndarray] = dict(program.constants)
        self._slices: dict[bytes, tuple[str, str]] = {}  # by the spans that their table holds

    def done(self, part: Sequence[Stage], strips: Sequence[Mapping[str, Columns]]) -> Program:
        name = f"{part[0].op.name} to {part[-1].op.name}"
        made: list[Op | Loop] = []
        for number, columns in enumerate(strips, 1):
            strip, fills = self._strip(columns, number)
            body = tuple(self._rowed(at, stage, strip) for at, stage in enumerate(self._stages))
            title = name if len(strips) == 1 else f"{name}, strip {number} of {len(strips)}"
            made += [*fills, Loop(title, self._schedule.spans.shape[1], tuple(self._slices.values()), body)]
        theirs = {id(stage.item) for stage in part}
        last = max(index for index, item in enumerate(self._program.body) if id(item) in theirs)
        before = [item for item in self._program.body[:last] if id(item) not in theirs]
        items = (*before, *made, *self._program.body[last + 1 :])
        for stage in self._stages:
            if stage.target != stage.op.output:
                del self._tensors[stage.op.output]
        return replace(self._program, tensors=self._tensors, constants=self._constants, body=items)

    def _strip(self, columns: Mapping[str, Columns], number: int) -> tuple[_Strip, list[Op]]:
        """Its buffers; line buffers that keep rows from step to step must be there before the first one."""
        strip, fills = _Strip(columns, {}, {}, {}, {}), list[Op]()
        for stage in self._stages:
            for one in stage.reads:
                strip.layouts.setdefault(one.name, one.planes.layout(one.planes.height))
            scratch = stage.op.scratch
            if scratch and number > 1:
                strip.names[scratch] = self._again(scratch, number)
            elif scratch:
                self._tensors[scratch] = self._tensors[scratch].for_a_row
        makers = {stage.target: stage for stage in reversed(self._stages)}
        lags = self._lags(columns)
        for name in dict.fromkeys(stage.target for stage in self._stages):
            begin, end = (0, makers[name].whole.width) if name in self._whole else columns[name]
            planes, lag = replace(makers[name].whole, width=end - begin), lags.get(name, 0)
            plane, row, ring = planes.layout(self._rings[name])
            strip.starts[name], strip.layouts[name] = begin - lag, (plane, row + lag, ring)
            if number > 1 and name in self._whole:
                continue
            own = strip.names[name] = name if number == 1 else self._again(name, number)
            elements = planes.row_elements * planes.height if ring == planes.height else (row + lag) * ring
            self._tensors[own] = replace(self._tensors[own], count=elements)
            if name not in self._whole | self._schedule.local:
                value = self._above[name].padding if name in self._above else 0
                fills.append(
                    Op(FILL.form, f"{makers[name].op.name}.rows", (), own, {"count": elements, "value": value})
                )
        for overlap in self._overlaps:
            self._overlap(overlap, strip)
        for ring_of_both in self._shared:
            self._share(ring_of_both, strip)
        lines = {strip.named([one.line])[0] for one in self._shared}
        return strip, sorted((self._sized(fill) for fill in fills), key=lambda fill: fill.output in lines)

    def _sized(self, fill: Op) -> Op:
        return replace(fill, params={**fill.params, "count": self._tensors[fill.output].count})

    def _share(self, one: SharedRing, strip: _Strip) -> None:
        """The result in slots as large as those of its operand, in as many."""
        plane, _, ring = strip.layouts[one.result]
        strip.layouts[one.result] = (plane, strip.layouts[one.line][1], ring)
        line, result = strip.named([one.line, one.result])
        self._tensors[result] = replace(self._tensors[result], count=self._tensors[line].count)

    def _lags(self, columns: Mapping[str, Columns]) -> dict[str, int]:
        """Of line buffers over whose rows results are made, and of what their makers overwrite, the elements that each
        slot has in front of its row."""
        links, found = Links.of(self._stages), dict[str, int]()
        for one in self._overlaps:
            name: str | None = one.line
            while name is not None and name not in self._whole:
                found[name] = one.lag(self._program, self._stages, columns)
                name = overwritten(self._stages[links.makers[name][0]], links)
        return found | {one.line: one.lag(self._program, self._stages, columns) for one in self._shared}

    def _overlap(self, one: Overlap, strip: _Strip) -> None:
        """Results as a row that moves through the slots of a line buffer, whose size they have."""
        _, row, ring = strip.layouts[one.line]
        count = self._tensors[strip.named([one.line])[0]].count
        for name in one.results:
            own = strip.named([name])[0]
            strip.layouts[name] = (strip.layouts[name][0], row, 1)
            strip.moves[name] = rows.Moves(ring, one.pace, one.phase, row)
            self._tensors[own] = replace(self._tensors[own], count=count)

    def _again(self, name: str, number: int) -> str:
        """The same tensor for another strip."""
        own = free_name(f"{name}.strip{number}", self._tensors)
        self._tensors[own] = replace(self._program.tensors[name].for_a_row, name=own)
        return own

    def _rowed(self, at: int, stage: Stage, strip: _Strip) -> Op:
        op, columns = stage.op, strip.made[stage.target]
        params: dict[str, int] = dict(op.params)
        if not stage.has_window:
            params |= {"channels": stage.out.channels, "width": columns[1] - columns[0]}
        out, above = strip.layouts[stage.target], self._above.get(stage.target)
        moves = strip.moves.get(stage.target)
        if above is not None:  # rows lie behind those of padding
            moves, out = rows.Moves(out[2], 1, above.above % out[2], out[1]), (*out[:2], 1)
        params |= dict(zip(rows.LINES[3:], out, strict=True))
        for (fields, side), one in zip(OPERANDS, stage.reads, strict=False):
            params |= dict(zip(fields, strip.layouts[one.name], strict=True))
            window = one.window_of(*columns, stage.out.width)
            params |= {} if window is None else window.params()
            params[f"{side}_first"] = one.columns(*columns)[0] - strip.starts.get(one.name, 0)
            params |= strip.moves[one.name].params(side) if one.name in strip.moves else {}
        params |= stage.places or {}
        if not stage.reads:
            params[rows.FIRST] = columns[0] * params[rows.STEP[0]]
        params["out_first"] = stage.channel * out[0] + columns[0] - strip.starts[stage.target]
        params |= moves.params(rows.RESULT) if moves is not None else {}
        params |= {rows.BELOW: above.above} if above is not None else {}
        for one_ring in self._shared:
            if one_ring.at == at:  # no row of padding is above, for all are there
                params |= {rows.STAYS: 1, "height": params["height"] + params["pad_y"], "pad_y": 0}
        inputs = (self._slice(at, stage), *strip.named(op.inputs), *strip.named([stage.target]))
        scratch = strip.names.get(op.scratch, op.scratch) if op.scratch else op.scratch
        output = strip.named([stage.target])[0]
        return replace(
            op, kernel=replace(op.kernel, rows=True), inputs=inputs, output=output, scratch=scratch, params=params
        )

    def _slice(self, at: int, stage: Stage) -> str:
        """The rows of a stage in the present step: two entries of a table, which those of the same rows share."""
        spans = self._schedule.spans[at].reshape(-1)
        if spans.tobytes() not in self._slices:
            fmt = BYTES if spans.max() < 1 << 8 else HALVES
            table, row = (free_name(f"{stage.op.output}.{part}", self._tensors) for part in ("rows", "step"))
            self._tensors[table] = Tensor(table, spans.size, fmt, Role.TABLE)
            self._tensors[row] = Tensor(row, 2, fmt, Role.TABLE)
            self._constants[table] = spans
            self._slices[spans.tobytes()] = table, row
        return self._slices[spans.tobytes()][1]


def rows_made(constants: Mapping[str, np.ndarray], loop: Loop, op: Op) -> int:
    """How many rows an operation of a loop over rows makes, each by a call that does something."""
    sequences = {row: sequence for sequence, row in loop.slices}
    spans = constants[sequences[op.inputs[0]]].reshape(-1, 2)
    return int((spans[:, 1] - spans[:, 0]).sum())
