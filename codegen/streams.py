"""Index lists and their weights of 8 bits -> one stream of bytes under one pointer: two bytes per weight, not 3."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.ops.sparse import stream
from tinyhil.program import Loop, Op, Program, Role, Tensor, walk

FROM, TO = "sparse_dense", "stream_dense"
BYTE = Fixed(8, 0)


def with_streams(program: Program) -> Program:
    """`program` with sparse layers of bytes as streams; the same object if there are none."""
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
    body = _changed(program.body, names)
    used = {name for op in walk(body) for name in op.inputs}
    gone = {name for op in walk(program.body) for name in op.inputs[:2] if op.inputs[0] in names} - used
    return replace(
        program,
        tensors={name: tensor for name, tensor in tensors.items() if name not in gone},
        constants={name: array for name, array in constants.items() if name not in gone},
        body=body,
    )


def _stream_of(program: Program, op: Op) -> np.ndarray | None:
    if not op.kernel.startswith(FROM) or op.accumulator_bits > 24:
        return None
    weights, x = (program.tensors[name].format for name in op.inputs[1:3])
    if not all(fmt.is_binary_point and fmt.bits == BYTE.bits for fmt in (weights, x)):
        return None
    lists, values = (program.constants[name] for name in op.inputs[:2])
    return stream(lists, values, op.params["outputs"])


def _changed(body: tuple[Op | Loop, ...], names: dict[str, str]) -> tuple[Op | Loop, ...]:
    changed: list[Op | Loop] = []
    for item in body:
        if isinstance(item, Loop):
            changed.append(replace(item, body=_changed(item.body, names)))
        elif item.kernel.startswith(FROM) and item.inputs[0] in names:
            kernel = TO + item.kernel.removeprefix(FROM)
            changed.append(replace(item, kernel=kernel, inputs=(names[item.inputs[0]], *item.inputs[2:])))
        else:
            changed.append(item)
    return tuple(changed)
