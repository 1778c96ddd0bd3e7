"""Whether a planned program can be carried out where its plan puts it: a run of it over bytes that know who wrote them.

An oracle of its own: it takes nothing from live ranges, aliases or gaps, which the plan was made of. Bodies of loops
run twice, so what a step leaves for the next one is looked at, too; loops over rows run as often as they do, and their
operations touch the rows of the step alone. Of windows over their own operand the order of reads and writes is looked
at, too (write_order.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tinyhil.compiler_pass import verified
from tinyhil.language.program import Loop, Op, Program, Role
from tinyhil.memplan import Plan
from tinyhil.memplan.arena.views import PLACES, is_done_by_plan
from tinyhil.memplan.arena.write_order import overwritten_too_early, windows_of
from tinyhil.ops import rows
from tinyhil.ops.movement import indices

STEPS = 2  # of each loop but those over rows
NOBODY = -1  # an element that its tensor does not care for yet
Bytes = np.ndarray  # who wrote each byte: the number of a write
Elements = np.ndarray | slice  # some of a tensor


def checked_plan(program: Program, plan: Plan) -> None:
    """Where HIL_VERIFY is set: Malformed if an operation would read what another one has overwritten."""
    verified(program, "planning", lambda made: faults_of_plan(made, plan))


def faults_of_plan(program: Program, plan: Plan) -> Iterator[str]:
    """Reads of bytes that are not the tensor's any more, in order of execution; the program's output at the end."""
    arena = _Arena(program, plan)
    if program.input_in_arena:
        arena.received()
    yield from arena.carried_out(program.body, {})
    if program.tensors[program.output].role == Role.ARENA:
        yield from arena.read("the session", program.output)


class _Arena:
    """Memory as numbers of writes, and for each tensor the numbers of those that made it."""

    def __init__(self, program: Program, plan: Plan) -> None:
        self._program, self._plan = program, plan
        self._memory = {region: np.zeros(self._end(region), np.int64) for region in set(plan.regions.values())}
        self._made: dict[str, Bytes] = {}
        self._writes = 0
        self._step = 0

    def _end(self, region: str) -> int:
        plan, tensors = self._plan, self._program.tensors
        placed = (name for name, where in plan.regions.items() if where == region)
        return max(plan.offsets[name] + tensors[name].size_bytes for name in placed)

    def _elements(self, name: str) -> Bytes:
        """The memory of a tensor (elements, bytes of one)."""
        tensor, start = self._program.tensors[name], self._plan.offsets[name]
        here = self._memory[self._plan.regions[name]][start : start + tensor.size_bytes]
        return here.reshape(-1, tensor.format.storage_bytes)

    def carried_out(self, body: Sequence[Op | Loop], sequences: Mapping[str, str]) -> Iterator[str]:
        for item in body:
            if isinstance(item, Op):
                yield from self._operation(item, sequences)
                continue
            inner = {**sequences, **{row: sequences.get(whole, whole) for whole, row in item.slices}}
            by_rows = any(op.kernel.rows for op in item.body if isinstance(op, Op))
            for self._step in range(item.count if by_rows else min(item.count, STEPS)):
                yield from self.carried_out(item.body, inner)

    def received(self) -> None:
        """The sample lies in the arena before the first operation."""
        name = self._program.input
        self._written(name)[:] = self._writes
        self._made[name] = self._elements(name).copy()

    def _operation(self, op: Op, sequences: Mapping[str, str]) -> Iterator[str]:
        whole: Elements = slice(None)
        begin = end = 0
        if op.kernel.rows:
            spans = self._program.constants[sequences[op.inputs[0]]].reshape(-1, 2)
            begin, end = map(int, spans[self._step])
            reads: dict[str, Elements] = dict(rows.read_by(op, begin, end)) if begin < end else {}
            written: Elements = rows.written_by(op, begin, end)
        else:
            reads = {sequences.get(name, name): whole for name in op.inputs}
            written = indices(dict(op.params)) if op.kernel in PLACES else whole
        for name, elements in reads.items():
            keeps = name == op.output and op.kernel not in PLACES and not op.kernel.rows
            if self._program.tensors[name].role == Role.ARENA and not keeps:
                yield from self.read(f"'{op.name}'", name, elements)
        yield from self._over_operand(op, begin, end)
        if not is_done_by_plan(self._program, self._plan, op):
            if op.scratch:
                self._written(op.scratch)[:] = self._writes
            self._written(op.output)[written] = self._writes
        now = self._elements(op.output)
        made = self._made.get(op.output)
        if made is None or op.output not in op.inputs or (op.kernel not in PLACES and not op.kernel.rows):
            made = self._made[op.output] = np.full_like(now, NOBODY)
        made[written] = now[written]

    def _over_operand(self, op: Op, begin: int, end: int) -> Iterator[str]:
        if not any(self._overlap(name, op.output) for name in op.inputs):
            return
        windows = windows_of(self._program, op, begin, end)
        if windows is None or not windows.written.size or not self._overlap(windows.operand, op.output):
            return
        read_at, written_at = self._addresses(windows.operand), self._addresses(op.output)
        for element in overwritten_too_early(windows, written_at, read_at):
            yield f"'{op.name}' writes over '{windows.operand}' before its element {element} was read"
            return

    def _overlap(self, one: str, other: str) -> bool:
        """Whether both lie in one region and share bytes."""
        plan, tensors = self._plan, self._program.tensors
        if tensors[one].role != Role.ARENA or plan.regions.get(one) != plan.regions[other]:
            return False
        (begin, end), (start, stop) = (
            (plan.offsets[name], plan.offsets[name] + tensors[name].size_bytes) for name in (one, other)
        )
        return begin < stop and start < end

    def _addresses(self, name: str) -> np.ndarray:
        """The first byte of each element of a tensor."""
        tensor = self._program.tensors[name]
        return self._plan.offsets[name] + tensor.format.storage_bytes * np.arange(tensor.count)

    def _written(self, name: str) -> Bytes:
        self._writes += 1
        return self._elements(name)

    def read(self, reader: str, name: str, elements: Elements = slice(None)) -> Iterator[str]:
        now, made = self._elements(name), self._made.get(name)
        if made is None:
            yield f"{reader} reads '{name}' before it is written"
            return
        now, made = now[elements], made[elements]
        lost = np.flatnonzero(((now != made) & (made != NOBODY)).any(axis=1))
        if lost.size:
            first = lost[0] if isinstance(elements, slice) else elements[lost].min()
            yield f"{reader} reads '{name}' after its element {first} was overwritten"
