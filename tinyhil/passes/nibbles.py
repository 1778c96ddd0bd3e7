"""Dense layers with weights of 4 bits in groups -> the same with weights as DSP cores read them.

Eight elements of a row are one word, those of four rows follow each other: nibbles n and n + 4 are a pair of halfwords
after one AND, in the order into which bytes, or halfwords, of the other operand are split. Codes are stored 8 larger,
so that they have no sign; what this adds is in the zeros. Scales and zeros lie in the same order, and scratch takes the
sums of the operand's groups (firmware/kernels/arm/group_blocks.hpp).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.language.form import Weights
from tinyhil.language.program import Op, Program, Role, Stored, Tensor, walk
from tinyhil.names import free_name
from tinyhil.passes.exchange import Place, exchanged

WORD = Fixed(32, 0)
TOGETHER = 4  # rows
STEP = 8  # elements of a word
BITS, RAISED = 4, 8
OF_BYTES = (0, 1, 4, 5, 2, 3, 6, 7)  # the element of each nibble, from the lowest
OF_HALVES = (0, 2, 4, 6, 1, 3, 5, 7)


def with_nibbles(program: Program) -> Program:
    """`program` for chips with these kernels; the same object if nothing changes."""
    made: dict[Place, Op] = {}
    tensors: dict[str, Tensor] = {}
    for op in walk(program.body):
        if _fits(program, op):
            name = free_name(f"{op.output}.sums", program.tensors, tensors)
            tensors[name] = Tensor(name, -(-op.params["inner"] // op.params["size"]), WORD, Role.ARENA)
            made[op.kernel, op.output] = replace(op, scratch=name)
            tensors |= _stored(program, op)
    if not made:
        return program
    exchanged_program = exchanged(program, made, tensors, {})
    return replace(exchanged_program, tensors={**exchanged_program.tensors, **tensors})


def _fits(program: Program, op: Op) -> bool:
    if op.kernel.weights is not Weights.GROUPS or op.scratch:
        return False
    weights, x = (program.tensors[name] for name in op.inputs[:2])
    readers = sum(weights.name in one.inputs for one in walk(program.body))
    whole = op.params["inner"] % STEP == 0 == op.params["size"] % STEP
    plain = x.format.bits in (8, 16) and x.format.storage_bytes == x.format.bits // 8
    return weights.format.bits == BITS and readers == 1 and whole and plain and x.role != Role.CONSTANT


def _stored(program: Program, op: Op) -> dict[str, Tensor]:
    weights, x, scales, zeros = op.inputs[:4]
    outputs, inner = op.params["outputs"], op.params["inner"]
    order = OF_BYTES if program.tensors[x].format.storage_bytes == 1 else OF_HALVES
    codes = _in_fours(program.constants[weights].reshape(outputs, inner // STEP, STEP)[..., list(order)])
    both = [_in_fours(program.constants[name].reshape(outputs, -1)) for name in (scales, zeros)]
    numbers = {
        weights: Stored(tuple((codes + RAISED).reshape(-1).tolist()), "hil::nibbles"),
        scales: Stored(tuple(both[0].reshape(-1).tolist())),
        zeros: Stored(tuple((both[1] - RAISED).reshape(-1).tolist())),
    }
    return {name: replace(program.tensors[name], stored=one) for name, one in numbers.items()}


def _in_fours(rows: np.ndarray) -> np.ndarray:
    """(outputs, groups, ...) as (blocks, groups, TOGETHER, ...), rows of zeros behind the last."""
    padded = np.pad(rows, ((0, -len(rows) % TOGETHER), *((0, 0),) * (rows.ndim - 1)))
    return padded.reshape(-1, TOGETHER, *rows.shape[1:]).swapaxes(1, 2)
