"""Dense layers of several rows -> the same with scratch, in which kernels of DSP cores expand two rows at a time.

Every word of weights is then read once for both rows (firmware/kernels/arm/dense_rows.hpp).
"""

from __future__ import annotations

from dataclasses import replace

from tinyhil.formats.fixed import Fixed
from tinyhil.language.form import Arithmetic, Joined, Weights
from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.names import free_name
from tinyhil.ops import linear
from tinyhil.passes.exchange import Place, exchanged

WORD = Fixed(32, 0)
TOGETHER = 4  # rows of a block of weights
OF_HALVES = (2, 2)  # rows and elements in turn of weights of 16 bits
MULTIPLE = 4  # of the elements of a row: words of it are expanded
ARITHMETICS = (Arithmetic.EXACT, Arithmetic.RESCALED)


def with_patches(program: Program) -> Program:
    """`program`, whose weights lie in blocks, with scratch for two rows; the same object if it has none."""
    layers = [op for op in walk(program.body) if _has_rows(program, op)]
    made: dict[Place, Op] = {}
    tensors: dict[str, Tensor] = {}
    for op in layers:
        name = free_name(f"{op.output}.rows", program.tensors, tensors)
        tensors[name] = Tensor(name, op.params["inner"], WORD, Role.ARENA)
        made[op.kernel, op.output] = replace(op, scratch=name)
    return exchanged(program, made, tensors, {}) if made else program


def _has_rows(program: Program, op: Op) -> bool:
    if op.kernel.base != linear.DENSE.form.base or op.kernel.weights is not Weights.PLAIN or op.scratch:
        return False
    if op.kernel.arithmetic not in ARITHMETICS or op.kernel.joined is Joined.PAIR or op.params["rows"] < 2:
        return False
    blocks = program.tensors[op.inputs[0]].blocks
    if blocks is None or blocks.raised is not None or op.params["inner"] % MULTIPLE:
        return False
    in_pairs = blocks.paired and blocks.together == TOGETHER and op.params["outputs"] % TOGETHER == 0
    return in_pairs or (blocks.together, blocks.step) == OF_HALVES
