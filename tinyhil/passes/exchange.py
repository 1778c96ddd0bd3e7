"""Operations in the places of others, as cores have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyhil.language.form import Form
from tinyhil.language.program import Op, Program, Tensor, mapped, walk

Place = tuple[Form, str]  # kernel and result of the operation that was there


def exchanged(
    program: Program, made: Mapping[Place, Op], tensors: Mapping[str, Tensor], constants: Mapping[str, np.ndarray]
) -> Program:
    """`program` with the operations of `made`, and what they need; without what only those before them have used."""
    body = mapped(program.body, lambda op: made.get((op.kernel, op.output), op))
    used = {name for op in walk(body) for name in op.tensors}
    gone = {name for op in walk(program.body) for name in op.tensors if name not in used}
    return replace(
        program,
        tensors={name: one for name, one in {**program.tensors, **tensors}.items() if name not in gone},
        constants={name: one for name, one in {**program.constants, **constants}.items() if name not in gone},
        body=body,
    )
