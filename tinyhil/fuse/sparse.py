"""Dense layers with many zero weights -> index lists, where these are cheaper: bit for bit the same results.

Flash: a weight kept costs its own bytes and two of index, and each output two for its count; a dense weight costs its
own. Cycles: a product from a list takes at most `CYCLES_RATIO` times one of a dense row. A list must pay in flash and
not lose in cycles. Measured with the projection of protonn_usps2 (513 of 2560 weights) on the emulated Uno: 109 cycles
per product from a list at 16 bits (dense 39), 40 at 8 bits (dense 16); on the Due the whole inference takes half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER
from tinyhil.fuse.rewriting import program_fusion
from tinyhil.language.form import Weights
from tinyhil.language.program import Op, Program, Role, Tensor, mapped, walk
from tinyhil.names import free_name
from tinyhil.ops.linear import DENSE
from tinyhil.ops.sparse import index_lists

INDEX_BYTES = 2
MOST_COLUMNS = 1 << 16
CYCLES_RATIO = 3  # of a product from a list to one of a dense row, on the chip that loses most


def list_pays(weights: np.ndarray, element_bytes: int) -> bool:
    """Whether index lists of `weights` (outputs, inner) need less flash and no more cycles than the matrix; never of
    zeros alone, of which nothing would be kept."""
    nonzero = int(np.count_nonzero(weights))
    sparse_bytes = nonzero * (element_bytes + INDEX_BYTES) + len(weights) * INDEX_BYTES
    return nonzero > 0 and sparse_bytes < weights.size * element_bytes and nonzero * CYCLES_RATIO <= weights.size


def _apply(program: Program) -> Program:
    chosen: dict[str, np.ndarray] = {}
    for op in walk(program.body):
        if op.kernel.bare != DENSE.form or op.domain != INTEGER:
            continue
        tensor = program.tensors[op.inputs[0]]
        weights = program.constants[tensor.name].reshape(op.params["outputs"], op.params["inner"])
        plain = tensor.format.is_binary_point and op.params["inner"] <= MOST_COLUMNS
        if plain and list_pays(weights, tensor.format.storage_bytes):
            chosen[tensor.name] = weights
    if not chosen:
        return program
    tensors, constants = dict(program.tensors), dict(program.constants)
    names: dict[str, tuple[str, str]] = {}
    for name, weights in chosen.items():
        table, values = index_lists(weights)
        names[name] = (free_name(f"{name}.lists", tensors), free_name(f"{name}.nonzero", tensors))
        tensors[names[name][0]] = Tensor(names[name][0], table.size, Fixed(16, 0), Role.TABLE)
        tensors[names[name][1]] = Tensor(names[name][1], values.size, tensors[name].format, Role.CONSTANT)
        constants[names[name][0]], constants[names[name][1]] = table, values
    body = mapped(program.body, lambda op: _listed(op, names))
    used = {name for op in walk(body) for name in op.inputs}
    for name in chosen:
        if name not in used:
            del tensors[name], constants[name]
    return replace(program, tensors=tensors, constants=constants, body=body)


def _listed(op: Op, names: Mapping[str, tuple[str, str]]) -> Op:
    if op.kernel.bare != DENSE.form or op.inputs[0] not in names:
        return op
    return replace(op, kernel=replace(op.kernel, weights=Weights.LISTS), inputs=(*names[op.inputs[0]], *op.inputs[1:]))


SPARSE = program_fusion("sparse", "index lists for weights that are mostly zero", _apply)
