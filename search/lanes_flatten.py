"""Program -> the tables that the lockstep engine reads (search/lanes.hpp), constants decoded once.

`Unsupported` names what has no lockstep version.
"""

from __future__ import annotations

import numpy as np

from search import lanes_elements, lanes_layers
from search.lanes_elements import TABULATED, table_of
from search.lanes_layers import LIMITED
from search.lanes_numbers import INTS, LANES, NUMBERS, Unsupported, kind_of
from search.lanes_operands import Maker, Operands
from search.lanes_tables import (
    DOMAINS,
    LOOP,
    NUMBER,
    OP,
    SLICE,
    TENSOR,
    Call,
    Lanes,
    row_of,
    tensor_row,
)
from tinyhil.formats.format import INTEGER, SINGLE
from tinyhil.ops import KERNEL_BY_NAME
from tinyhil.ops.limits import CLIP, RELU
from tinyhil.program import Loop, Op, Program, walk

MAKERS: dict[str, Maker] = {**lanes_layers.MAKERS, **lanes_elements.MAKERS}


def flatten_lanes(program: Program) -> Lanes:
    """The tables of `program`; Unsupported when a kernel or format has no lockstep version."""
    return _Flattening(program).finished()


class _Flattening:
    """Walks a program once. Lives for one call of `flatten_lanes`."""

    def __init__(self, program: Program) -> None:
        if program.output in program.constants:
            raise Unsupported("a constant output")
        self.program = program
        self.operands = Operands(program)
        self.by_numpy: list[Op] = []

    def finished(self) -> Lanes:
        ops, logged = self._body(self.program.body)
        tensors, size = self._tensors()
        return Lanes(
            np.array(ops, OP),
            tensors,
            tuple(self.operands.kept),
            size,
            self.operands.number(self.program.input),
            self.operands.number(self.program.output),
            tuple(logged),
            tuple(self.by_numpy),
        )

    def _body(self, body: tuple[Op | Loop, ...]) -> tuple[list[tuple[object, ...]], list[str]]:
        rows: list[tuple[object, ...]] = []
        logged: list[str] = []
        for item in body:
            if isinstance(item, Op):
                rows.append(self._row(item, self._call(item)))
                logged.append(item.output)
                continue
            inner, names = self._body(item.body)
            rows.append(row_of(LOOP, Call("", [item.count, len(inner), len(item.slices)])))
            for sequence, row in item.slices:
                if sequence in self.program.constants:
                    raise Unsupported("a loop over a constant")
                tensor = self.program.tensors[row]
                size = tensor.count * LANES * np.dtype(NUMBERS[kind_of(tensor.format)]).itemsize
                shown = Call("", [size], (self.operands.number(sequence),))
                rows.append(row_of(SLICE, shown, out=self.operands.number(row)))
            rows += inner
            logged += names * item.count
        return rows, logged

    def _call(self, op: Op) -> Call:
        if op.kernel in TABULATED and self._has_table(op):
            return table_of(self.operands, op)
        base = base_of(op.kernel)
        maker = MAKERS.get(base) if base == op.kernel or base in LIMITED else None
        try:
            if maker is not None:
                return maker(self.operands, op)
        except Unsupported:
            pass
        self.by_numpy.append(op)
        return Call("numpy", [len(self.by_numpy) - 1])

    def _has_table(self, op: Op) -> bool:
        if op.domain != INTEGER and op.kernel != "lookup":
            return False
        tensor = self.program.tensors[op.inputs[-1]]
        return tensor.name not in self.program.constants and kind_of(tensor.format) == INTS

    def _row(self, op: Op, call: Call) -> tuple[object, ...]:
        out, count = self.operands.number(op.output), self.program.tensors[op.output].count
        return row_of(NUMBER[call.kernel], call, domain=DOMAINS[op.domain], out=out, count=count)

    def _tensors(self) -> tuple[np.ndarray, int]:
        special = any(op.domain == SINGLE for op in walk(self.program.body))
        rows, offset = [], 0
        for tensor in self.program.tensors.values():
            held = tensor.role not in ("constant", "table", "slice")
            rows.append(tensor_row(tensor, offset if held else 0, special))
            if held:
                size = tensor.count * LANES * np.dtype(NUMBERS[kind_of(tensor.format)]).itemsize
                offset += -(-size // 64) * 64
        return np.array(rows, TENSOR), offset


def base_of(kernel: str) -> str:
    """The layer without the activation inside of it (tinyhil/ops/limits.py)."""
    for form in (RELU, CLIP):
        if kernel.endswith(form) and KERNEL_BY_NAME[kernel].limit:
            return kernel.removesuffix(form)
    return kernel
