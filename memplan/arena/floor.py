"""What no plan of a program can undercut, whatever the passes do: a bound without planning.

Every operation holds its operands and its result at once, in any order of operations. Less is needed only where one
may take the place of another: an operand overwritten, a copy, a part shown within its whole. Operations that may go
row by row hold what every part they are cut into needs, in the best way to cut them.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyhil.language.program import Op, Program, Role
from tinyhil.memplan.arena.lag import lag_of
from tinyhil.memplan.arena.row_choice import Cuts
from tinyhil.memplan.arena.steps import steps_of
from tinyhil.memplan.arena.tensors import overwritable
from tinyhil.memplan.arena.views import view_of
from tinyhil.ops.scan import COPY


def floor_bytes(program: Program, *, again: bool = False, cuts: Cuts | None = None) -> int:
    """No arena of this program is smaller; with `again`, no one for which halos are computed again. `cuts`: those into
    parts `alone`, if they are known."""
    cuts = cuts or Cuts(program, alone=True, again=again)
    stages = {id(stage.item) for stage in cuts.stages.values()}  # its own operation may be a move of rows
    stages |= {id(op) for op in cuts.windows.values()}
    wholes = _wholes(program)
    ops = [step.op for step in steps_of(program.body, (), {}) if id(step.op) not in stages]
    return max([0, *(_needs(program, op, wholes) for op in ops), cuts.least_bytes()])


def _needs(program: Program, op: Op, wholes: dict[str, str]) -> int:
    """Bytes of what this operation touches; of tensors that may share bytes the largest."""
    may_go = {op.inputs[0]} if op.kernel == COPY.form else set(overwritable(program, op))
    lagging = lag_of(program, op)
    may_go |= {lagging[0]} if lagging else set()
    largest: dict[str, int] = {}
    for name in dict.fromkeys(_touched(op)):
        tensor = program.tensors[name]
        if tensor.role == Role.ARENA:
            place = wholes.get(op.output if name in may_go else name, op.output if name in may_go else name)
            largest[place] = max(largest.get(place, 0), tensor.size_bytes)
    return sum(largest.values())


def _touched(op: Op) -> Iterator[str]:
    yield from op.inputs
    yield op.output
    if op.scratch:
        yield op.scratch


def _wholes(program: Program) -> dict[str, str]:
    """Of tensors that may be shown within each other, one name for all."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while name in leader:
            name = leader[name]
        return name

    for step in steps_of(program.body, (), {}):
        view = view_of(program, step.op)
        if view is not None:
            one, other = find(view.whole), find(view.part)
            if one != other:
                leader[other] = one
    return {name: find(name) for name in leader}
