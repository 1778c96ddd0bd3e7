"""Program -> what the host engine reads: a table of tensors, a flat list of operations, the constants in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.ops import KERNEL_BY_NAME
from tinyhil.program import Loop, Op, Program, Tensor

# in the order of `kernels` in engine.cpp; loop and slice are the engine's own
KERNELS = (
    *("dense", "dense_bias", "matmul", "add", "sub", "mul", "relu", "sigmoid", "tanh", "copy", "fill"),
    *("conv", "conv_bias", "max_pool", "average_pool", "average_pool_inside"),
    *("move", "place", "place_more", "gather_rows", "softmax"),
    *("clip", "slopes", "hard_sigmoid", "hard_swish", "minimum", "maximum"),
    *("reduce_sum", "reduce_max", "reduce_min", "arg_max"),
    *("exp", "log", "div", "sqrt", "compare", "sign", "truncate", "where"),
    *("gather_at", "take_row", "place_row", "count", "curve", "normalize"),
    *("conv_transpose", "interpolate", "batch_matmul", "prelu"),
    *("squared_distance", "sparse_dense", "sparse_dense_bias", "dense_at"),
)
LOOP, SLICE = len(KERNELS), len(KERNELS) + 1
MOST_INPUTS, MOST_PARAMS = 4, 20
OP_WORDS = 3 + MOST_INPUTS + 1 + MOST_PARAMS + 1
NARROW_BITS = 32
WIDTHS = {8: 0, 16: 1}  # bits -> storage class; others would saturate elsewhere than their storage does
TABLE_CLASS = 2


@dataclass(frozen=True, slots=True)
class Flat:
    """`ops` (n, 29) and `tensors` (n, 4) int64 as engine.cpp declares them; `constants` keeps what they point to.

    `logged` lists the output tensor of each operation in order of execution, once per execution.
    """

    ops: np.ndarray
    tensors: np.ndarray
    constants: tuple[np.ndarray, ...]
    workspace_bytes: int
    input: int
    output: int
    logged: tuple[str, ...]


def flatten(program: Program) -> Flat:
    """ModelError when the engine lacks a kernel or a width of the program."""
    numbers = {name: index for index, name in enumerate(program.tensors)}
    rows, constants, offset = [], [], 0
    for tensor in program.tensors.values():
        kind = _storage_class(tensor)
        size = tensor.count * (1 if kind == 0 else 2)
        address = 0
        if tensor.name in program.constants:
            stored = np.ascontiguousarray(program.constants[tensor.name], (np.int8, np.int16, np.uint16)[kind])
            constants.append(stored)
            address = stored.ctypes.data
        rows.append((kind, size, address, offset))
        if tensor.role == "arena":
            offset += -(-size // 8) * 8
    ops: list[list[int]] = []
    _flatten_body(program, program.body, numbers, ops)
    return Flat(
        ops=np.array(ops, np.int64).reshape(-1, OP_WORDS),
        tensors=np.array(rows, np.int64),
        constants=tuple(constants),
        workspace_bytes=offset,
        input=numbers[program.input],
        output=numbers[program.output],
        logged=tuple(executions(program.body)),
    )


def _storage_class(tensor: Tensor) -> int:
    if tensor.role == "table":
        return TABLE_CLASS
    if tensor.format.bits not in WIDTHS:
        raise ModelError(
            f"tensor '{tensor.name}' ({tensor.format}): the host engine has 8 and 16 bits; "
            "evaluate with the numpy reference instead (--evaluator reference)"
        )
    return WIDTHS[tensor.format.bits]


def _flatten_body(program: Program, body: tuple[Op | Loop, ...], numbers: dict[str, int], ops: list[list[int]]) -> None:
    for item in body:
        if isinstance(item, Op):
            ops.append(_call(program, item, numbers))
            continue
        inner: list[list[int]] = []
        _flatten_body(program, item.body, numbers, inner)
        ops.append(_words(LOOP, params=[item.count, len(inner), len(item.slices)]))
        for sequence, row in item.slices:
            size_bytes = program.tensors[row].size_bytes
            ops.append(_words(SLICE, out=numbers[row], inputs=[numbers[sequence]], params=[size_bytes]))
        ops += inner


def _call(program: Program, op: Op, numbers: dict[str, int]) -> list[int]:
    if op.kernel not in KERNELS:
        raise ModelError(
            f"node '{op.name}': the host engine has no kernel '{op.kernel}'; "
            "evaluate with the numpy reference instead (--evaluator reference)"
        )
    kernel = KERNEL_BY_NAME[op.kernel]
    fields = kernel.struct[1] if kernel.struct is not None else ()
    return _words(
        KERNELS.index(op.kernel),
        wide=int(op.accumulator_bits > NARROW_BITS),
        out=numbers[op.output],
        inputs=[numbers[name] for name in op.inputs],
        params=[op.params[name] for name in (*fields, *kernel.params)],
        rest=(numbers[op.scratch] if op.scratch else 0, program.tensors[op.output].count),
    )


def _words(
    kernel: int,
    *,
    params: list[int],
    wide: int = 0,
    out: int = 0,
    inputs: list[int] | None = None,
    rest: tuple[int, int] = (0, 0),
) -> list[int]:
    """`rest`: the scratch tensor and the elements of the output."""
    given = inputs or []
    operands = given + [0] * (MOST_INPUTS - len(given))
    scratch, count = rest
    return [kernel, wide, out, *operands, scratch, *params, *[0] * (MOST_PARAMS - len(params)), count]


def executions(body: tuple[Op | Loop, ...]) -> list[str]:
    names: list[str] = []
    for item in body:
        if isinstance(item, Op):
            names.append(item.output)
        else:
            names += executions(item.body) * item.count
    return names
