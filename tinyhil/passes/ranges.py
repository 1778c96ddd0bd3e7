"""What codes each tensor of a program can hold, by proof: which results need not be clipped.

Intervals go from operation to operation; what an operation reads that is written twice (states of loops) or made by a
kernel that is not known here can be any code of its format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.fixed import shifted
from tinyhil.formats.format import INTEGER
from tinyhil.language.form import Form
from tinyhil.language.program import Op, Program, Role, mapped, walk
from tinyhil.ops.affine import PRODUCT, SUM, units_of_product, units_of_sum
from tinyhil.ops.code_table import TABLES
from tinyhil.ops.elementwise import ADD, MUL, SUB

Interval = tuple[int, int]


def without_needless_clipping(program: Program) -> Program:
    """`program` with the operations marked whose results are within their format whatever they read."""
    unclipped = _Ranges(program).unclipped
    if not unclipped:
        return program
    body = mapped(program.body, lambda op: replace(op, clips=False) if op.output in unclipped else op)
    return replace(program, body=body)


class _Ranges:
    """The intervals of all tensors, and the outputs that no operation has to clip."""

    def __init__(self, program: Program) -> None:
        self._program, self._known = program, dict[str, Interval]()
        self.unclipped: set[str] = set()
        writers = Counter(op.output for op in walk(program.body))
        for op in walk(program.body):
            found = self._made_by(op) if writers[op.output] == 1 else None
            if found is not None:
                self._known[op.output] = found

    def _interval(self, name: str) -> Interval:
        tensor = self._program.tensors[name]
        if tensor.role == Role.CONSTANT and name in self._program.constants:
            codes = self._program.constants[name]
            return int(codes.min()), int(codes.max())
        return self._known.get(name, (tensor.format.lowest, tensor.format.highest))

    def _made_by(self, op: Op) -> Interval | None:
        out = self._program.tensors[op.output].format
        if op.kernel in TABLES:
            table = self._program.constants[op.inputs[0]]
            codes = table.astype(storage_dtype(out))
            return int(codes.min()), int(codes.max())
        if out.is_sign:  # not a sum in its unit, rounded
            return None
        if op.kernel in ASYMMETRIC:
            return self._limited(op, *ASYMMETRIC[op.kernel](op.params, *map(self._interval, op.inputs)))
        exact = EXACT.get(op.kernel)
        operands = [self._program.tensors[name].format for name in op.inputs]
        if exact is None or op.domain != INTEGER or not all(fmt.is_binary_point for fmt in (*operands, out)):
            return None
        ends = exact(op.params, *map(self._interval, op.inputs))
        return self._limited(op, *(shifted(end, op.params["shift"]) for end in ends))

    def _limited(self, op: Op, low: int, high: int) -> Interval:
        """What the results of `op` between these ends are in its format; they need no clipping if they fit."""
        out = self._program.tensors[op.output].format
        if out.lowest <= low and high <= out.highest:
            self.unclipped.add(op.output)
        return max(low, out.lowest), min(high, out.highest)


def _sum(sign: int) -> Callable[[Mapping[str, int], Interval, Interval], Interval]:
    def ends(params: Mapping[str, int], a: Interval, b: Interval) -> Interval:
        left, right = ([end << params[shift] for end in ends] for ends, shift in ((a, "a_shift"), (b, "b_shift")))
        return (left[0] + right[0], left[1] + right[1]) if sign > 0 else (left[0] - right[1], left[1] - right[0])

    return ends


def _product(_: Mapping[str, int], a: Interval, b: Interval) -> Interval:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def _asymmetric(
    made: Callable[[Mapping[str, int], np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[Mapping[str, int], Interval, Interval], Interval]:
    """The ends of what grows or falls with each of its operands: they are where the operands have theirs."""

    def ends(params: Mapping[str, int], a: Interval, b: Interval) -> Interval:
        corners = np.array([(x - params["a_zero"], y - params["b_zero"]) for x in a for y in b], np.int64)
        units = made(params, corners[:, 0], corners[:, 1])
        return int(units.min()), int(units.max())

    return ends


ASYMMETRIC = {SUM.form: _asymmetric(units_of_sum), PRODUCT.form: _asymmetric(units_of_product)}
EXACT: dict[Form, Callable[..., Interval]] = {ADD.form: _sum(1), SUB.form: _sum(-1), MUL.form: _product}
