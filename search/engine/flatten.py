"""Program -> the tables that the batch engine reads (search/engine/batch.hpp), constants decoded once.

`Unsupported` names what has no version in batches.
"""

from __future__ import annotations

import numpy as np

from tinyhil.formats.format import INTEGER, SINGLE
from tinyhil.language.form import Form
from tinyhil.language.program import Body, Loop, Op, Program, Role, walk
from tinyhil.ops.real_functions import LOOKUP
from tinyhil.search.engine import batch_sums, elements, integer_functions
from tinyhil.search.engine.elements import TABULATED, table_of
from tinyhil.search.engine.numbers import BATCH, INTS, NUMBERS, Unsupported, kind_of
from tinyhil.search.engine.operands import Maker, Operands
from tinyhil.search.engine.restart import Restart
from tinyhil.search.engine.tables import (
    DOMAINS,
    OP,
    TENSOR,
    BatchTables,
    Call,
    Own,
    row_of,
    tensor_row,
)
from tinyhil.search.engine.versions import touched

MAKERS: dict[Form, Maker] = {**batch_sums.MAKERS, **elements.MAKERS, **integer_functions.MAKERS}


class Flattening:
    """The calls of one program, each made when it first runs."""

    def __init__(self, program: Program) -> None:
        if program.output in program.constants:
            raise Unsupported("a constant output")
        self.program = program
        self.operands = Operands(program)
        self.by_numpy: list[Op] = []
        self._made: dict[int, tuple[np.ndarray, list[str]]] = {}
        special = any(op.domain == SINGLE for op in walk(program.body))
        self._rows = np.array([tensor_row(tensor, special) for tensor in program.tensors.values()], TENSOR)

    def tables(self, restart: Restart) -> BatchTables:
        """The tables of what runs; Unsupported when a kernel or format of that has no version in batches."""
        rows, logged, used = [], list[str](), {self.program.output}
        if restart.needs_input:
            used.add(self.program.input)
        for step in restart.steps:
            if step.runs:
                made, names = self._item(step.item)
                rows.append(made)
                logged += names
                used.update(touched(step.item))
            used.update(name for name, _ in step.load)
            extra = [self._transfer(Own.LOAD, *pair) for pair in step.load]
            extra += [self._transfer(Own.SAVE, *pair) for pair in step.save]
            if step.tally is not None:
                extra.append(row_of(Call(Own.TALLY, [], data=(step.tally.ctypes.data,))))
            if extra:
                rows.append(np.array(extra, OP))
        tensors, size = self._tensors(used)
        return BatchTables(
            _joined(rows),
            tensors,
            tuple(self.operands.stored),
            size,
            self.operands.number(self.program.input) if restart.needs_input else -1,
            self.operands.number(self.program.output),
            tuple(logged),
            tuple(self.by_numpy),
        )

    def _item(self, item: Op | Loop) -> tuple[np.ndarray, list[str]]:
        if id(item) not in self._made:
            rows, logged = self._body((item,))
            self._made[id(item)] = np.array(rows, OP), logged
        return self._made[id(item)]

    def _transfer(self, kernel: Own, name: str, array: np.ndarray) -> tuple[object, ...]:
        """Between a tensor and what is kept of it."""
        call = Call(kernel, [array.itemsize], data=(array.ctypes.data,))
        return row_of(call, out=self.operands.number(name), count=self.program.tensors[name].count)

    def _body(self, body: Body) -> tuple[list[tuple[object, ...]], list[str]]:
        rows: list[tuple[object, ...]] = []
        logged: list[str] = []
        for item in body:
            if isinstance(item, Op):
                rows.append(self._row(item, self._call(item)))
                logged.append(item.output)
                continue
            inner, names = self._body(item.body)
            rows.append(row_of(Call(Own.LOOP, [item.count, len(inner), len(item.slices)])))
            for sequence, row in item.slices:
                if sequence in self.program.constants:
                    raise Unsupported("a loop over a constant")
                tensor = self.program.tensors[row]
                size = tensor.count * BATCH * np.dtype(NUMBERS[kind_of(tensor.format)]).itemsize
                shown = Call(Own.SLICE, [size], (self.operands.number(sequence),))
                rows.append(row_of(shown, out=self.operands.number(row)))
            rows += inner
            logged += names * item.count
        return rows, logged

    def _call(self, op: Op) -> Call:
        if op.kernel in TABULATED and self._has_table(op):
            return table_of(self.operands, op)
        maker = MAKERS.get(op.kernel.bare)
        try:
            if maker is not None:
                return maker(self.operands, op)
        except Unsupported:
            pass
        self.by_numpy.append(op)
        return Call(Own.NUMPY, [len(self.by_numpy) - 1])

    def _has_table(self, op: Op) -> bool:
        if op.domain != INTEGER and op.kernel != LOOKUP.form:
            return False
        tensor = self.program.tensors[op.inputs[-1]]
        return tensor.name not in self.program.constants and kind_of(tensor.format) == INTS

    def _row(self, op: Op, call: Call) -> tuple[object, ...]:
        out, count = self.operands.number(op.output), self.program.tensors[op.output].count
        return row_of(call, domain=DOMAINS[op.domain], out=out, count=count)

    def _tensors(self, used: set[str]) -> tuple[np.ndarray, int]:
        """All of them, with room in memory for those that are used."""
        rows, offset = self._rows.copy(), 0
        for name in used:
            tensor = self.program.tensors[name]
            if tensor.role not in (Role.CONSTANT, Role.TABLE, Role.SLICE):
                rows["offset"][self.operands.number(name)] = offset
                size = tensor.count * BATCH * np.dtype(NUMBERS[kind_of(tensor.format)]).itemsize
                offset += -(-size // 64) * 64
        return rows, offset


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """One array of rows; numpy's concatenate compares the fields of every part."""
    rows, at = np.empty(sum(map(len, parts)), OP), 0
    for part in parts:
        rows[at : at + len(part)] = part
        at += len(part)
    return rows
