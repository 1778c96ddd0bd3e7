"""Index lists and their weights of 8 or 16 bits -> one stream of bytes under one pointer, steps of one byte."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.ops.sparse import stream
from tinyhil.program import Loop, Op, Program, Role, Tensor, walk

FROM, TO = "sparse_dense", "stream_dense"
BYTE = Fixed(8, 0)
MOST_SUM_BITS = {8: 24, 16: 40}  # for which there are loops (firmware/kernels/avr/fused_avr.hpp)


def with_streams(program: Program) -> Program:
    """`program` with sparse layers of bytes and words as streams; the same object if there are none."""
    tensors, constants = dict(program.tensors), dict(program.constants)
    names: dict[str, str] = {}
    for op in walk(program.body):
        codes = _stream_of(program, op)
        if codes is not None:
            lists = op.inputs[0]
            names[lists] = f"{lists}.stream"
            tensors[names[lists]] = Tensor(names[lists], codes.size, BYTE, Role.TABLE)
            constants[names[lists]] = codes
    if not names:
        return program
    body = _changed(program.body, names, program.tensors)
    used = {name for op in walk(body) for name in op.inputs}
    gone = {name for op in walk(program.body) for name in op.inputs[:2] if op.inputs[0] in names} - used
    return replace(
        program,
        tensors={name: tensor for name, tensor in tensors.items() if name not in gone},
        constants={name: array for name, array in constants.items() if name not in gone},
        body=body,
    )


def _stream_of(program: Program, op: Op) -> np.ndarray | None:
    if not op.kernel.startswith(FROM):
        return None
    weights, x = (program.tensors[name].format for name in op.inputs[1:3])
    if not (weights.is_binary_point and x.is_binary_point) or weights.bits != x.bits:
        return None
    if op.accumulator_bits > MOST_SUM_BITS.get(x.bits, 0):
        return None
    lists, values = (program.constants[name] for name in op.inputs[:2])
    return stream(lists, values, op.params["outputs"], weights.storage_bytes)


def _changed(
    body: tuple[Op | Loop, ...], names: Mapping[str, str], tensors: Mapping[str, Tensor]
) -> tuple[Op | Loop, ...]:
    changed: list[Op | Loop] = []
    for item in body:
        if isinstance(item, Loop):
            changed.append(replace(item, body=_changed(item.body, names, tensors)))
        elif item.kernel.startswith(FROM) and item.inputs[0] in names:
            kernel = TO + item.kernel.removeprefix(FROM)
            inputs = (names[item.inputs[0]], *item.inputs[2:])
            params = {**item.params, "weight_bytes": tensors[item.inputs[1]].format.storage_bytes}
            changed.append(replace(item, kernel=kernel, inputs=inputs, params=params))
        else:
            changed.append(item)
    return tuple(changed)
