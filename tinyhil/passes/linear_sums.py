"""Sums of asymmetric integers with constants that only functions read -> look-ups by a linear form of the operand.

TensorFlow Lite rounds every term of a sum by itself. What one multiplication, one addition and one shift make of a code
is held against that for every code and every constant when the program is compiled: where all agree, it is the index of
a table that is long enough for all sums; elsewhere the operations stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.affine import MULTIPLIER_BITS
from tinyhil.formats.fixed import Fixed
from tinyhil.language.program import Body, Op, Program, Role, Tensor
from tinyhil.names import free_name
from tinyhil.ops.affine import ADD_LIFT, SUM, is_affine, units_of_sum
from tinyhil.ops.code_table import LINEAR_TABLE
from tinyhil.passes.code_tables import Tables, codes_of, evaluated
from tinyhil.passes.folded import MOST_CONSTANT, Indexed, Sum, changed, ends_of, indexed_by, without_sums

WORD = Fixed(32, 0)
RIGHTS = range(16, 22)  # bits below the point of an index; 16 are free on an AVR
LARGEST = 1 << 30  # of a sum, less than half of 32 bits
MOST_ENTRIES = 1 << 10
NO_LIMIT = (1 << 14) - 1  # beyond every index
Results = tuple[np.ndarray, np.ndarray]  # of all codes of an operand, and which are clipped


def with_linear_forms(program: Program) -> Program:
    """`program` with such look-ups, where it makes more of them than a table has entries; the same object if none."""
    tables = Tables(program)

    def found(op: Op) -> tuple[str, Indexed] | None:
        one = _form_of(program, op)
        if one is None:
            return None
        if isinstance(one, Sum):
            return one.operand, indexed_by(tables, program, one)
        return one.operand, lambda readers: _look_ups(tables, program, op.output, one, readers)

    def change(body: Body, steps: int) -> Body:
        return without_sums(program, body, steps, found)

    body = change(changed(program.body, change), 1)
    return tables.within(body) if body != program.body else program


def starts_of(products: np.ndarray, units: np.ndarray, right: int) -> np.ndarray | None:
    """Numbers, one per row, with floor((products + start) / 2^right) = units for all of (rows, codes); None: none."""
    least = ((units << right) - products).max(axis=-1)
    most = ((units + 1 << right) - products).min(axis=-1) - 1
    return None if (least > most).any() else (least + most) // 2


def _near(slope: float, right: int) -> Iterator[int]:
    """Whole numbers next to slope * 2^right, the nearest first."""
    nearest = round(slope * 2.0**right)
    yield from (nearest, *(nearest + sign * step for step in range(1, 5) for sign in (1, -1)))


def _bytes(program: Program, op: Op) -> bool:
    return is_affine(*(program.tensors[name].format for name in (*op.inputs, op.output)), bits=8)


@dataclass(frozen=True, slots=True)
class _Linear:
    """A sum with a constant as floor((operand * slope + starts) / 2^right) + lowest, of 0 to `entries` - 1."""

    operand: str
    constant: str
    slope: int
    right: int
    starts: np.ndarray
    lowest: int
    entries: int
    periods: tuple[int, int]


def _form_of(program: Program, op: Op) -> _Linear | Sum | None:
    """A sum of one run-time operand and constants; None if no such form makes the same of all codes."""
    if op.kernel != SUM.form or op.output == program.output or not _bytes(program, op):
        return None
    fixed = [n for n, name in enumerate(op.inputs) if program.tensors[name].role == Role.CONSTANT]
    if len(fixed) != 1:
        return None
    p, at = op.params, 1 - fixed[0]
    operand, constant = op.inputs[at], op.inputs[fixed[0]]
    zeros, keys = (p["a_zero"], p["b_zero"]), "ab"
    codes = codes_of(program.tensors[operand].format)
    terms = [codes - zeros[at], program.constants[constant].reshape(-1, 1).astype(np.int64) - zeros[1 - at]]
    units = units_of_sum(p, *(terms if at == 0 else terms[::-1]))
    periods = (p[f"{keys[at]}_period"], p[f"{keys[1 - at]}_period"])
    moved = units - codes
    if (moved == moved[:, :1]).all() and np.ptp(moved) <= MOST_CONSTANT:
        by = moved[:, 0]
        return Sum(op, operand, by - by.min(), int(codes[0] + by.min()), 0, periods)
    lowest, entries = int(units.min()), int(np.ptp(units)) + 1
    bits = p[f"{keys[at]}_shift"] + p["o_shift"] + ADD_LIFT - 2 * MULTIPLIER_BITS
    slope = (p["sign"] if at else 1) * p[f"{keys[at]}_multiplier"] * p["o_multiplier"] * 2.0**bits
    for right in RIGHTS if entries <= MOST_ENTRIES else ():
        for near in _near(slope, right):
            starts = starts_of(codes * near, units - lowest, right)
            if starts is not None and np.abs(starts).max() + abs(near) * len(codes) < LARGEST and near:
                return _Linear(operand, constant, near, right, starts, lowest, entries, periods)
    return None


def _look_ups(tables: Tables, program: Program, of: str, found: _Linear, readers: Sequence[Op]) -> list[Op]:
    """`readers` of the sum `of` with it inside."""
    functions = [evaluated(program, op, program.tensors[of]) for op in readers]
    starts = _named_starts(tables, program, found, of)
    return [
        _by_linear(tables, program, op, found, function, starts, first=op is readers[0])
        for op, function in zip(readers, functions, strict=True)
    ]


def _named_starts(tables: Tables, program: Program, found: _Linear, of: str) -> str:
    """The name of what a sum adds to each element, in flash."""
    name = free_name(f"{of}_{found.constant}", program.tensors, tables.tensors)
    tables.tensors[name] = Tensor(name, found.starts.size, WORD, Role.CONSTANT)
    tables.tables[name] = found.starts
    return name


def _by_linear(
    tables: Tables, program: Program, op: Op, found: _Linear, function: Results, starts: str, *, first: bool
) -> Op:
    """A look-up of a sum with the sum inside; `function`: of all codes. The first one counts which sums are clipped."""
    results, clipped = function
    sums = found.lowest + np.arange(found.entries)
    half = len(results) // 2
    held = np.clip(sums, -half, half - 1)
    table = results[held + half]
    own = ends_of(~clipped[held + half], NO_LIMIT)
    whole = ends_of(held == sums, NO_LIMIT) if first else (0, NO_LIMIT)
    out = program.tensors[op.output].format
    names = tables.named(op.output, table, out), found.operand, starts
    params = {
        **dict(zip(("count", "a_period", "b_period"), (op.params["count"], *found.periods), strict=True)),
        **dict(zip(("slope", "right"), (found.slope, found.right), strict=True)),
        **dict(zip(("lowest", "highest", "least", "most"), (*own, *whole), strict=True)),
    }
    return Op(LINEAR_TABLE.form, op.name, names, op.output, params)
