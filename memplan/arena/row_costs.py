"""What rows cost in time, in products of a layer: the model by which their memory is weighed.

A row of a layer costs, besides its products, a call, a table's entry, a ring's places and blocks that are not filled:
240 instructions on Cortex-M3 and M7, as much as EXECUTION_PRODUCTS products, by the CNN on 8 x 8 digits with
`--prefer latency` and `--prefer ram` (58.4k and 61.3k instructions on an M7, 75.1k and 78.0k on an M3). A depthwise
layer whose weights are arranged for an ARM core goes channel by channel and copies its lines: per channel and row as
much as CHANNEL_PRODUCTS products, by MobileNetV1 0.25 on 96 x 96 in int8 (17.40M and 18.74M cycles on an M7). Layers of
16 bits have no blocks and go output by output: each begins anew in every row, 280 instructions on an M7 by DS-CNN in
fixed16 (1.20M and 1.65M in a pointwise layer of 64 outputs, 1.24M and 1.47M in a depthwise one; 25 rows).
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyhil.formats.format import INTEGER
from tinyhil.memplan.arena.row_wise import rows_made
from tinyhil.ops.rows import ROWED
from tinyhil.program import Loop, Op, Program, Role

EXECUTION_PRODUCTS = 100
CHANNEL_PRODUCTS = 170
WIDE_PRODUCTS, WIDE_DEPTHWISE_PRODUCTS = 66, 34  # of each output, where products take 4.2 instructions
NARROW_BITS = 8
WORTH = 0.03  # of the time: what a smaller arena may cost where memory is not short


def products_per_row(program: Program, op: Op) -> int:
    """What one more execution of `op`, for one row of its result, costs."""
    if "groups" not in op.params:
        return EXECUTION_PRODUCTS
    outputs = op.params["outputs"]
    is_depthwise = op.params["groups"] == outputs > 1
    if any(program.tensors[name].blocks is not None for name in op.inputs):
        return EXECUTION_PRODUCTS + (CHANNEL_PRODUCTS * outputs if is_depthwise else 0)
    is_wide = op.domain == INTEGER and any(program.tensors[name].format.bits > NARROW_BITS for name in op.inputs[:2])
    each = WIDE_DEPTHWISE_PRODUCTS if is_depthwise else WIDE_PRODUCTS
    return EXECUTION_PRODUCTS + (each * outputs if is_wide else 0)


def time_lost(program: Program, layers: Program) -> float:
    """The modelled share of the time that the rows of `program` cost, against layer by layer."""
    lost = layer_products(program) - layer_products(layers)
    for loop in (item for item in program.body if isinstance(item, Loop)):
        for op, _ in executions(loop.body):
            if op.kernel in ROWED:
                lost += rows_made(program.constants, loop, op) * products_per_row(program, op)
    return lost / products_of(layers)


def products_of(program: Program) -> int:
    """Products of all layers, at least 1; of other operations an element counts as one."""
    return max(1, sum(times * products_of_op(program, op) for op, times in executions(program.body)))


def products_of_op(program: Program, op: Op) -> int:
    """Products of an operation that makes its whole result, or a row of it."""
    operands = op.inputs[1:] if op.kernel in ROWED else op.inputs
    weights = program.tensors[operands[0]] if operands else None
    is_layer = weights is not None and weights.role == Role.CONSTANT and "outputs" in op.params
    per_element = weights.count // op.params["outputs"] if weights is not None and is_layer else 1
    if op.kernel not in ROWED:
        return program.tensors[op.output].count * per_element
    p = op.params
    return int(p.get("outputs", p["channels"]) * p.get("out_width", p.get("width", 1)) * per_element)


def layer_products(program: Program) -> int:
    """Products of all layers, those that are computed again counted again."""
    found = 0
    for item in program.body:
        for op, times in executions((item,)):
            if "outputs" in op.params:
                by_rows = isinstance(item, Loop) and op.kernel in ROWED
                made = rows_made(program.constants, item, op) if by_rows and isinstance(item, Loop) else times
                found += made * products_of_op(program, op)
    return found


def executions(body: tuple[Op | Loop, ...], times: int = 1) -> Iterator[tuple[Op, int]]:
    """Every operation with how often it is carried out."""
    for item in body:
        if isinstance(item, Loop):
            yield from executions(item.body, times * item.count)
        else:
            yield item, times
