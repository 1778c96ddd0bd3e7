"""Index lists -> the matrix again, on cores whose dense kernels multiply two weights at once and outrun the lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.language.form import Weights
from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.names import free_name
from tinyhil.ops.sparse import matrix
from tinyhil.passes.exchange import exchanged

# Cycles of a product from a list per product of the core's matrix kernel, by bytes of a weight: least squares over the
# zoo's ProtoNN and Bonsai with lists and without. Other cores gain by all that tinyhil/fuse/sparse.py makes.
CYCLES_RATIO = {"cortex-m4": {1: 4.8, 2: 3.6}, "cortex-m33": {1: 4.4, 2: 4.2}, "cortex-m7": {1: 6.8, 2: 4.9}}


def with_matrices(program: Program, core: str) -> Program:
    """`program` without lists that take longer than their matrix on this core; the same object if there are none."""
    made = {(op.kernel, op.output): _made(program, op, core) for op in walk(program.body)}
    found = {place: one for place, one in made.items() if one is not None}
    if not found:
        return program
    tensors = {tensor.name: tensor for _, tensor, _ in found.values()}
    arrays = {tensor.name: weights for _, tensor, weights in found.values()}
    return exchanged(program, {place: op for place, (op, _, _) in found.items()}, tensors, arrays)


def _made(program: Program, op: Op, core: str) -> tuple[Op, Tensor, np.ndarray] | None:
    """The dense operation, its weights' tensor and they themselves; None if the operation stays as it is."""
    if op.kernel.weights is not Weights.LISTS or core not in CYCLES_RATIO:
        return None
    (lists, values), p = op.inputs[:2], op.params
    fmt = program.tensors[values].format
    size, nonzero = p["outputs"] * p["inner"], program.constants[values].size
    if nonzero * CYCLES_RATIO[core].get(fmt.storage_bytes, 0) <= size:
        return None
    weights = matrix(program.constants[lists], program.constants[values], p["outputs"], p["inner"])
    tensor = Tensor(free_name(f"{values}.matrix", program.tensors), size, fmt, Role.CONSTANT)
    kernel = replace(op.kernel, weights=Weights.PLAIN)
    return replace(op, kernel=kernel, inputs=(tensor.name, *op.inputs[2:])), tensor, weights.reshape(-1)
