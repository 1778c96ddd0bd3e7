"""Index lists and their weights of 8 or 16 bits -> one stream of bytes under one pointer, steps of one byte."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.language.form import Weights
from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.ops.sparse import stream
from tinyhil.passes.exchange import exchanged

BYTE = Fixed(8, 0)
MOST_SUM_BITS = {8: 24, 16: 40}  # for which there are loops (firmware/kernels/avr/fused_avr.hpp)


def with_streams(program: Program) -> Program:
    """`program` with sparse layers of bytes and words as streams; the same object if there are none."""
    found = {(op.kernel, op.output): made for op in walk(program.body) if (made := _made(program, op)) is not None}
    if not found:
        return program
    arrays = {op.inputs[0]: codes for op, codes in found.values()}
    tensors = {name: Tensor(name, codes.size, BYTE, Role.TABLE) for name, codes in arrays.items()}
    return exchanged(program, {place: op for place, (op, _) in found.items()}, tensors, arrays)


def _made(program: Program, op: Op) -> tuple[Op, np.ndarray] | None:
    """The operation and its stream; None if it stays as it is."""
    codes = _stream_of(program, op)
    if codes is None:
        return None
    kernel = replace(op.kernel, weights=Weights.STREAM)
    inputs = (f"{op.inputs[0]}.stream", *op.inputs[2:])
    params = {**op.params, "weight_bytes": program.tensors[op.inputs[1]].format.storage_bytes}
    return replace(op, kernel=kernel, inputs=inputs, params=params), codes


def _stream_of(program: Program, op: Op) -> np.ndarray | None:
    if op.kernel.weights is not Weights.LISTS:
        return None
    weights, x = (program.tensors[name].format for name in op.inputs[1:3])
    plain = weights.is_binary_point and x.is_binary_point and not x.is_unsigned_byte
    if not plain or weights.bits != x.bits:
        return None
    if op.accumulator_bits > MOST_SUM_BITS.get(x.bits, 0):
        return None
    lists, values = (program.constants[name] for name in op.inputs[:2])
    return stream(lists, values, op.params["outputs"], weights.storage_bytes)
