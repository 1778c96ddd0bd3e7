"""Products of computed matrices, softmax and normalisation -> what decides nearly all of them in exact integers.

For ARM chips; in fixed point for those that multiply pairs of halfwords, for others gain nothing there. What
operations compute stays as it is: of asymmetric bytes, whose results are defined in single precision, kernels round
exact integers wherever floats can not round otherwise, and fall back to floats elsewhere
(firmware/kernels/arm/decided.hpp). A product gets scratch for some columns, softmax a table of exponentials;
normalisation needs neither.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import AFFINE, INTEGER, SINGLE
from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.names import free_name
from tinyhil.ops import batched, linear, real_functions
from tinyhil.passes.code_tables import Tables
from tinyhil.passes.exchange import Place, exchanged

PRODUCTS = (batched.BATCH_MATMUL.form, linear.MATMUL.form)
WORD = Fixed(32, 0)
MOST_TERMS = 1 << 12  # of a sum of bytes: its squares fit 31 bits
FEWEST_TERMS = 8  # below, packing costs more than it saves
FRACTION_BITS = 30
MULTIPLE = 4  # of the elements of a packed column
TOGETHER = {1: 8, 2: 4}  # columns, by their elements' bytes (firmware/kernels/arm/packed_columns.hpp)
FEWEST_TOGETHER = 2
CODES = 256
MOST_RANGE = 64.0  # of a softmax's operand: beyond it exponentials of floats are too far from the table's
LEAST_SCALE = 2.0**-40  # products of three scales and their reciprocals are normal floats


def with_decisions(program: Program, *, pairs: bool = True) -> Program:
    """`program` for chips with these kernels; the same object if nothing changes. `pairs`: the chip multiplies two
    halfwords at once."""
    made: dict[Place, Op] = {}
    tables = Tables(program)
    for op in walk(program.body):
        if _is_product(program, op, pairs):
            name = free_name(f"{op.output}.columns", program.tensors, tables.tensors)
            tables.tensors[name] = Tensor(name, _words_of_columns(program, op), WORD, Role.ARENA)
            made[op.kernel, op.output] = replace(op, scratch=name)
        elif _is_softmax_of_rows(program, op) and (pairs or op.params["outer"] * op.params["along"] >= CODES):
            entries = exponentials(_scale(program, op.inputs[0]))
            name = tables.shared(f"{op.output}.exponentials", entries, WORD)
            params = {key: op.params[key] for key in ("outer", "along", "shift")}
            form = real_functions.SOFTMAX_DECIDED.form
            made[op.kernel, op.output] = replace(op, kernel=form, inputs=(name, *op.inputs), params=params)
    return exchanged(program, made, tables.tensors, tables.tables) if made else program


def _words_of_columns(program: Program, op: Op) -> int:
    """Of as many columns as kernels pack at a time, as halfwords."""
    most = TOGETHER[program.tensors[op.inputs[1]].format.storage_bytes]
    columns = most if op.params["columns"] >= most else FEWEST_TOGETHER
    return -(-op.params["inner"] // MULTIPLE) * MULTIPLE * columns // 2


def exponentials(scale: float) -> np.ndarray:
    """exp(-scale * d) of the distances d from 255 down to 0, with FRACTION_BITS."""
    return np.floor(np.exp(-scale * np.arange(CODES - 1, -1, -1.0)) * 2.0**FRACTION_BITS + 0.5).astype(np.int64)


def _scale(program: Program, name: str) -> float:
    grid = program.tensors[name].format.grid
    assert grid is not None
    return grid[0]


def _is_computed(tensor: Tensor) -> bool:
    return tensor.role not in (Role.CONSTANT, Role.TABLE)


def _is_of_bytes(program: Program, op: Op) -> bool:
    """Whether operands, all of run time, and the result are asymmetric bytes, and the operation is one of floats."""
    return op.domain == SINGLE and all(
        tensor.format.domain == AFFINE
        and tensor.format.storage_bytes == 1
        and _is_computed(tensor)
        and LEAST_SCALE <= _scale(program, tensor.name) <= 1 / LEAST_SCALE
        for tensor in (program.tensors[name] for name in op.tensors)
    )


def _is_product(program: Program, op: Op, pairs: bool) -> bool:
    if op.kernel not in PRODUCTS or op.crossbar is not None or op.scratch or op.params["inner"] < FEWEST_TERMS:
        return False
    if op.domain == INTEGER:
        return pairs and _is_of_fixed_point(program, op)
    return _is_of_bytes(program, op) and op.params["inner"] <= MOST_TERMS and op.params["shift"] == 0


def _is_of_fixed_point(program: Program, op: Op) -> bool:
    """Whether two computed matrices of bytes, or of 16 bits, are multiplied in sums that these kernels have."""
    a, b = (program.tensors[name] for name in op.inputs)
    width = a.format.storage_bytes
    if width != b.format.storage_bytes or width > 2 or op.accumulator_bits > (32 if width == 1 else 64):
        return False
    plain = (t.format.is_binary_point and not (t.format.is_sign or t.format.is_unsigned_byte) for t in (a, b))
    return all(map(_is_computed, (a, b))) and all(plain)


def _is_softmax_of_rows(program: Program, op: Op) -> bool:
    if op.kernel != real_functions.SOFTMAX.form or not _is_of_bytes(program, op):
        return False
    p = op.params
    is_row = p["inner"] == 1 and p["along"] <= MOST_TERMS and p["power"] == p["shift"] == 0
    return is_row and _scale(program, op.inputs[0]) * CODES <= MOST_RANGE
