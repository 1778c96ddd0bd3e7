"""Functions of one operand of at most 8 bits -> tables of what they make of each of its codes.

The operation's own reference fills the table, so nothing it computes changes; which codes saturate is two limits beside
it. A table is shorter than the code of these functions and the table they interpolate, and a look-up many times faster.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.language.form import Arithmetic
from tinyhil.language.program import Body, Op, Program, Role, Tensor, loops_of, mapped, walk
from tinyhil.names import free_name
from tinyhil.ops import activation, affine, curve, division, exponential, piecewise
from tinyhil.ops.code_table import CODE_TABLE
from tinyhil.references.reference import run_reference

CODE_BITS = 8
_KERNELS = (*activation.KERNELS, *exponential.KERNELS, division.SQRT, curve.CURVE)
FUNCTIONS = frozenset(kernel.form for kernel in (*_KERNELS, piecewise.HARD_SIGMOID, piecewise.HARD_SWISH))
PAIRS = (affine.SUM.form, affine.PRODUCT.form)  # of a byte and one constant element: functions of the byte
ELEMENT_PARAMS = {"count", "power", "first", "second", "shift"}  # of a function that makes each result of one element


def with_tables(program: Program) -> Program:
    """`program` with the functions of 8-bit operands as look-ups; the same object if there are none."""
    made = Tables(program)
    body = mapped(program.body, made.looked_up)
    return made.within(body) if made.tables else program


class Tables:
    """Tables that were made, equal ones once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.tensors: dict[str, Tensor] = {}
        self.tables: dict[str, np.ndarray] = {}

    def within(self, body: Body) -> Program:
        """The program of `body` with these tables, without the tensors and constants that nobody reads any more."""
        program = self._program
        used = {name for op in walk(body) for name in op.tensors} | {program.input, program.output}
        used |= {name for loop in loops_of(body) for pair in loop.slices for name in pair}
        tensors = {name: tensor for name, tensor in {**program.tensors, **self.tensors}.items() if name in used}
        constants = {name: array for name, array in {**program.constants, **self.tables}.items() if name in used}
        return replace(program, tensors=tensors, constants=constants, body=body)

    def looked_up(self, op: Op) -> Op:
        """The look-up in the place of a function, where a table can take it; else the operation."""
        operand = operand_of(self._program, op)
        if operand is None:
            return op
        return self.look_up(op, operand, *evaluated(self._program, op, operand)) or op

    def look_up(self, op: Op, operand: Tensor, results: np.ndarray, clipped: np.ndarray) -> Op | None:
        """The look-up in the place of `op`: `results` of all codes of `operand`; None if clips have no limits."""
        out, codes = self._program.tensors[op.output].format, codes_of(operand.format)
        limits = limits_of(codes, clipped)
        if limits is None:
            return None
        table = np.zeros(codes.size, np.int64)
        table[codes & (codes.size - 1)] = results
        params = {"count": op.params["count"], "mask": codes.size - 1, "lowest": limits[0], "highest": limits[1]}
        return Op(CODE_TABLE.form, op.name, (self.named(op.output, table, out), operand.name), op.output, params)

    def named(self, of: str, table: np.ndarray, out: Format) -> str:
        """The name of a table `of` something in flash, of codes of `out`."""
        table = table & ((1 << 8 * out.storage_bytes) - 1)
        return self.shared(f"{of}_codes", table, Fixed(8 * out.storage_bytes, 0))

    def shared(self, wish: str, table: np.ndarray, fmt: Fixed) -> str:
        """The name of a table of `fmt`: that of an equal one, else as it is wished if nothing is called so."""
        for name, other in self.tables.items():
            if np.array_equal(other, table) and self.tensors[name].format == fmt:
                return name
        name = free_name(wish, self._program.tensors, self.tensors)
        self.tensors[name], self.tables[name] = Tensor(name, table.size, fmt, Role.TABLE), table
        return name


def operand_of(program: Program, op: Op) -> Tensor | None:
    """The one operand of a function that a table can replace, if it is stored in a byte."""
    run_time = [name for name in op.inputs if program.tensors[name].role not in (Role.TABLE, Role.CONSTANT)]
    if not _is_function(program, op, run_time) or program.tensors[op.output].format.storage_bytes > 2:
        return None
    tensor = program.tensors[run_time[0]]
    fmt = tensor.format
    return tensor if fmt.storage_bytes == 1 and fmt.bits <= CODE_BITS and not fmt.is_unsigned_byte else None


def _is_function(program: Program, op: Op, run_time: list[str]) -> bool:
    """Whether each element of the result is made of one element of the only operand that is no constant."""
    if len(run_time) != 1 or "count" not in op.params:  # a softmax in single precision joins elements
        return False
    if op.kernel in FUNCTIONS or (op.kernel.arithmetic is Arithmetic.SINGLE and set(op.params) <= ELEMENT_PARAMS):
        return all(program.tensors[name].role == Role.TABLE for name in op.inputs if name != run_time[0])
    if op.kernel.bare not in PAIRS:
        return False
    return all(program.tensors[name].count == 1 for name in op.inputs if name != run_time[0])


def codes_of(fmt: Format) -> np.ndarray:
    """All codes of a format of at most 8 bits, as the reference stores them, from the lowest."""
    return np.arange(fmt.lowest, fmt.highest + 1)


def evaluated(program: Program, op: Op, operand: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """What the operation's reference makes of each code of its operand, and which results are clipped."""
    codes = codes_of(operand.format)
    source = Tensor(operand.name, codes.size, operand.format, Role.INPUT)
    result = replace(program.tensors[op.output], count=codes.size)
    tables = {name: program.tensors[name] for name in op.inputs if name != operand.name}
    alone = Program(
        op.name,
        {**tables, source.name: source, result.name: result},
        {name: program.constants[name] for name in tables},
        (replace(op, params={**op.params, **_sizes(op, operand, codes.size)}),),
        source.name,
        result.name,
        (codes.size,),
        (codes.size,),
    )
    seen: list[np.ndarray] = []
    run = run_reference(alone, codes[None, :], observe=lambda _op, _codes, clipped: seen.append(clipped))
    return run.outputs[0].astype(storage_dtype(result.format)).astype(np.int64), seen[0][0]


def _sizes(op: Op, operand: Tensor, count: int) -> dict[str, int]:
    """The counts of `op` for an operand of `count` elements."""
    periods = {"a_period": op.inputs[0], "b_period": op.inputs[-1]}
    return {
        "count": count,
        **{key: count for key, name in periods.items() if key in op.params and name == operand.name},
    }


def limits_of(codes: np.ndarray, clipped: np.ndarray) -> tuple[int, int] | None:
    """The lowest and the highest code whose result is not clipped; None if codes between them are clipped, too."""
    unclipped = codes[~clipped]
    if unclipped.size == 0 or unclipped[-1] - unclipped[0] + 1 != unclipped.size:
        return None
    if not clipped.any():
        return -128, 255
    return (int(unclipped[0]), int(unclipped[-1])) if codes[0] < 0 else None
