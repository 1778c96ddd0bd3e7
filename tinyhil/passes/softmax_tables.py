"""Softmax of rows of bytes in fixed point -> exponentials of every distance from a row's largest byte by one table.

Between two bytes there are at most 255 units, so the kernel's own reference says all of its exponentials. Where 32 bits
hold them with the result's fraction bits, division is one instruction on most chips.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.language.program import Op, Program, walk
from tinyhil.ops import softmax
from tinyhil.passes.code_tables import Tables
from tinyhil.passes.exchange import Place, exchanged

WORD = Fixed(32, 0)
DISTANCES = 256
MOST_FRACTION_BITS = 12  # exponentials are at most 2^19, sums below 2^31


def with_softmax_tables(program: Program) -> Program:
    """`program` with such rows by table, with more elements than a table has entries; the same object if none."""
    made: dict[Place, Op] = {}
    tables = Tables(program)
    for op in walk(program.body):
        if not _is_of_bytes(program, op):
            continue
        shared = program.constants[op.inputs[0]].reshape(-1)
        entries = softmax.exp_negative(np.arange(DISTANCES), op.params["scale"] - softmax.FRACTION_BITS, shared)
        name = tables.shared(f"{op.output}.exponentials", entries, WORD)
        params = {key: op.params[key] for key in ("outer", "count", "fraction_bits")}
        form = softmax.LOOKED_UP.form
        made[op.kernel, op.output] = replace(op, kernel=form, inputs=(name, *op.inputs[1:]), params=params)
    return exchanged(program, made, tables.tensors, tables.tables) if made else program


def _is_of_bytes(program: Program, op: Op) -> bool:
    if op.kernel != softmax.SOFTMAX.form:
        return False
    x, out, p = program.tensors[op.inputs[1]], program.tensors[op.output], op.params
    are_binary = x.format.is_binary_point and out.format.is_binary_point
    is_row = p["inner"] == 1 and p["fraction_bits"] <= MOST_FRACTION_BITS
    return are_binary and x.format.storage_bytes == 1 and is_row and p["outer"] * p["count"] > DISTANCES
