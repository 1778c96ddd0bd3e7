"""What rows cost in time, in products of a layer: the model by which their memory is weighed where each product is made
once. What computes products again is weighed in cycles of a core (core_times.py).

A row of a layer costs, besides its products, a call, a table's entry, a ring's places and blocks that are not filled:
240 instructions on Cortex-M3 and M7, as much as EXECUTION_PRODUCTS products, by the CNN on 8 x 8 digits with
`--prefer latency` and `--prefer ram` (58.4k and 61.3k instructions on an M7, 75.1k and 78.0k on an M3). A depthwise
layer whose weights are arranged for an ARM core goes channel by channel and copies its lines: per channel and row as
much as CHANNEL_PRODUCTS products, by MobileNetV1 0.25 on 96 x 96 in int8 (17.40M and 18.74M cycles on an M7). Layers of
more than 8 bits without blocks go output by output: each begins anew in every row, 280 instructions on an M7 by DS-CNN
in fixed16 before it had blocks (1.20M and 1.65M in a pointwise layer of 64 outputs, 1.24M and 1.47M in a depthwise one;
25 rows). Two groups
of channels cost 369 more per pixel by MobileNetV1 0.25 in fixed16 (24.10M and 24.95M).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tinyhil.formats.format import INTEGER
from tinyhil.language.program import Loop, Op, Program, Role, executions
from tinyhil.memplan.arena.attention_rows import packed_again
from tinyhil.memplan.arena.row_wise import rows_made

EXECUTION_PRODUCTS = 100
CHANNEL_PRODUCTS = 170
WIDE_PRODUCTS, WIDE_DEPTHWISE_PRODUCTS = 66, 34  # of each output, where products take 4.2 instructions
NARROW_BITS = 8
WORTH = 0.03  # of the time: what a smaller arena may cost where nobody knows how much memory there is


@dataclass(frozen=True, slots=True)
class Products:
    """What parts of a program cost, in products of its layers."""

    def of(self, program: Program, op: Op) -> int:
        """Making the whole result."""
        return products_of_op(program, op)

    def of_row(self, program: Program, op: Op, channels: int) -> int:
        """One more call, for a row of all channels of the result."""
        return products_per_row(program, op)

    def of_group(self, program: Program, op: Op) -> int:
        """One more call, for a group of its channels."""
        return products_per_group(program, op)


PRODUCTS = Products()


def products_per_row(program: Program, op: Op) -> int:
    """What one more execution of `op`, for one row of its result, costs."""
    if "groups" not in op.params:
        return EXECUTION_PRODUCTS
    outputs, by_channel = op.params["outputs"], is_depthwise(op)
    if any(program.tensors[name].blocks is not None for name in op.inputs):
        return EXECUTION_PRODUCTS + (CHANNEL_PRODUCTS * outputs if by_channel else 0)
    each = WIDE_DEPTHWISE_PRODUCTS if by_channel else WIDE_PRODUCTS
    return EXECUTION_PRODUCTS + (each * outputs if _is_wide(program, op) else 0)


def products_per_group(program: Program, op: Op) -> int:
    """What one more execution of `op`, for a group of its channels, costs: every window is gathered anew."""
    if "outputs" not in op.params or is_depthwise(op):
        return EXECUTION_PRODUCTS
    pixels = program.tensors[op.output].count // op.params["outputs"]
    window = program.tensors[op.inputs[0]].count // op.params["outputs"]
    return EXECUTION_PRODUCTS + pixels * (window + (WIDE_PRODUCTS if _is_wide(program, op) else 0))


def is_depthwise(op: Op) -> bool:
    """Whether each result of a layer is made of one channel."""
    return op.params.get("groups") == op.params["outputs"] > 1


def _is_wide(program: Program, op: Op) -> bool:
    """Whether a layer's operands have more than 8 bits, and it has no blocks of sums."""
    is_wide = any(program.tensors[name].format.bits > NARROW_BITS for name in op.inputs[:2])
    return op.domain == INTEGER and is_wide and not any(program.tensors[name].blocks for name in op.inputs)


def time_lost(program: Program, layers: Program) -> float:
    """The modelled share of the time that the rows of `program` cost, against layer by layer."""
    lost = layer_products(program) - layer_products(layers)
    lost += _calls_of_groups(program) + packed_again(program)
    for loop in (item for item in program.body if isinstance(item, Loop)):
        for op, _ in executions(loop.body):
            if op.kernel.rows:
                lost += rows_made(program.constants, loop, op) * products_per_row(program, op)
    return lost / products_of(layers)


def _calls_of_groups(program: Program) -> int:
    """What more calls of a layer, for groups of its channels, cost; groups are called like the layer."""
    calls = Counter(item.name for item in program.body if isinstance(item, Op) and "outputs" in item.params)
    first = {item.name: item for item in reversed(program.body) if isinstance(item, Op) and "outputs" in item.params}
    return sum((times - 1) * products_per_group(program, first[name]) for name, times in calls.items())


def products_of(program: Program) -> int:
    """Products of all layers, at least 1; of other operations an element counts as one."""
    return max(1, sum(times * products_of_op(program, op) for op, times in executions(program.body)))


def products_of_op(program: Program, op: Op) -> int:
    """Products of an operation that makes its whole result, or a row of it."""
    operands = op.inputs[1:] if op.kernel.rows else op.inputs
    weights = program.tensors[operands[0]] if operands else None
    is_layer = weights is not None and weights.role == Role.CONSTANT and "outputs" in op.params
    per_element = weights.count // op.params["outputs"] if weights is not None and is_layer else 1
    if not op.kernel.rows:
        return program.tensors[op.output].count * (per_element + op.params.get("more_inner", 0))
    p = op.params
    return int(p.get("outputs", p["channels"]) * p.get("out_width", p.get("width", 1)) * per_element)


def layer_products(program: Program) -> int:
    """Products of all layers, those that are computed again counted again."""
    found = 0
    for item in program.body:
        for op, times in executions((item,)):
            if "outputs" in op.params:
                by_rows = isinstance(item, Loop) and op.kernel.rows
                made = rows_made(program.constants, item, op) if by_rows and isinstance(item, Loop) else times
                found += made * products_of_op(program, op)
    return found


def products_again(program: Program, lowered: Program) -> float:
    """Products of the layers that a planned program computes again, as a share of those there are."""
    products = layer_products(lowered)
    return max(0.0, layer_products(program) / products - 1) if products else 0.0
