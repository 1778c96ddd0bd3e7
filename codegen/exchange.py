"""Operations in the places of others, as cores have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyhil.program import Loop, Op, Program, Tensor, walk

Place = tuple[str, str]  # kernel and result of the operation that was there


def exchanged(
    program: Program, made: Mapping[Place, Op], tensors: Mapping[str, Tensor], constants: Mapping[str, np.ndarray]
) -> Program:
    """`program` with the operations of `made`, and what they need; without what only those before them have used."""
    body = _changed(program.body, made)
    used = {name for op in walk(body) for name in op.tensors}
    gone = {name for op in walk(program.body) for name in op.tensors if name not in used}
    return replace(
        program,
        tensors={name: one for name, one in {**program.tensors, **tensors}.items() if name not in gone},
        constants={name: one for name, one in {**program.constants, **constants}.items() if name not in gone},
        body=body,
    )


def _changed(body: tuple[Op | Loop, ...], made: Mapping[Place, Op]) -> tuple[Op | Loop, ...]:
    return tuple(
        replace(item, body=_changed(item.body, made))
        if isinstance(item, Loop)
        else made.get((item.kernel, item.output), item)
        for item in body
    )
