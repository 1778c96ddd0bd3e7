"""Layers of asymmetric integers -> the same with a record for each output, for ARM chips.

What is left after the products is a multiplication, an addition, a shift and a clamp there: the zero point and the
half that rounds join before the shift (firmware/kernels/arm/rescaled.hpp). Layers some of whose factors are too large
for that stay as they are. Where a factor is too small the output can hardly change, and a larger one gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tinyhil.formats.affine import MULTIPLIER_BITS, rescale, rescale_once
from tinyhil.formats.fixed import Fixed
from tinyhil.language.form import Arithmetic
from tinyhil.language.program import Op, Program, Role, Tensor, walk
from tinyhil.names import free_name
from tinyhil.ops import KERNEL_OF, conv, rescaled
from tinyhil.passes.affine_layers import sum_bounds, whole_factors
from tinyhil.passes.exchange import exchanged

WORD = Fixed(32, 0)
MOST_RIGHT = 22  # a zero point and a half, nine bits, to the left by more do not fit 32 bits
LARGEST_SUM = 1 << 30  # twice as much fits 32 bits
LEAST_STEP = 4  # bits of a factor that kernels take
FARTHEST = 256  # a result that is clipped whatever its zero point


def with_records(program: Program, doubles: bool, has_blocks: Callable[[Op], bool]) -> Program:
    """`program` with such layers, of which `has_blocks` says that the chip's blocks know them.

    `doubles`: the chip multiplies twice the sum of a convolution.
    """
    layers = (op for op in walk(program.body) if _is_layer(program, op) and has_blocks(op))
    found = {(op.kernel, op.output): made for op in layers if (made := _made(program, op, doubles)) is not None}
    if not found:
        return program
    arrays = {op.inputs[2]: array.reshape(-1) for op, array in found.values()}
    tensors = {name: Tensor(name, array.size, WORD, Role.CONSTANT) for name, array in arrays.items()}
    return exchanged(program, {place: op for place, (op, _) in found.items()}, tensors, arrays)


def _is_layer(program: Program, op: Op) -> bool:
    if op.kernel.arithmetic is not Arithmetic.AFFINE or not KERNEL_OF[op.kernel].is_sum:
        return False
    return all(program.tensors[name].role == Role.CONSTANT for name in (op.inputs[0], *op.inputs[2:5]))


def _made(program: Program, op: Op, doubles: bool) -> tuple[Op, np.ndarray] | None:
    """The operation and its records; None if it stays as it is."""
    factors = whole_factors(program, op) if "lift" in op.params else None
    if factors is not None and sum_bounds(program, op).max() * int(factors.max()) < LARGEST_SUM:
        records = rescaled.factor_records(program.constants[op.inputs[2]].astype(np.int64), factors, op.params["zero"])
        return _with_record(program, op, Arithmetic.FACTORED), records
    bias, multipliers, shifts = (program.constants[name].astype(np.int64) for name in op.inputs[2:5])
    is_conv = op.kernel.base == conv.CONV.form.base
    doubled = doubles and is_conv
    bounds = sum_bounds(program, op)
    array = rescaled.records(bias, multipliers, shifts, doubled)
    for n in np.flatnonzero((array[:, 2] > MOST_RIGHT) | (multipliers == 0) | (bounds >= LARGEST_SUM)):
        step = _as_step(
            int(bounds[n] - abs(bias[n])),
            int(bias[n]),
            int(multipliers[n]),
            int(shifts[n]),
            rescale if is_conv else rescale_once,
        )
        if step is None:
            return None
        b, m, shift = (np.array([number]) for number in step)
        array[n] = rescaled.records(b, m, shift, doubled)[0]
    if array[:, 2].min() < 0 or array[:, 2].max() > MOST_RIGHT:
        return None
    made = _with_record(program, op, Arithmetic.RESCALED)
    return replace(made, params={**op.params, "doubled": int(doubled)}), array


def _with_record(program: Program, op: Op, arithmetic: Arithmetic) -> Op:
    """`op` in an `arithmetic` that has a record in the place of biases, multipliers and shifts."""
    name = free_name(f"{op.output}.channels", program.tensors)
    kernel = replace(op.kernel, arithmetic=arithmetic)
    return replace(op, kernel=kernel, inputs=(*op.inputs[:2], name, *op.inputs[5:]))


def _as_step(
    products: int, bias: int, m: int, shift: int, rounded: Callable[..., np.ndarray]
) -> tuple[int, int, int] | None:
    """Bias, multiplier and shift that a kernel takes, which make the same of all sums of products up to `products`.

    Where the factor is that small there are two results at most, d and from some sum on d + 1: a factor of 2^-k, of
    which the products are less than a half, and a bias that moves its rounding there. None if there are more.
    """

    def results(at: Sequence[int], b: int, m: int, shift: int) -> list[int]:
        units = rounded(np.array(at, np.int64) + b, m, shift)
        return [int(u) for u in np.clip(units, -FARTHEST, FARTHEST)]  # beyond any code

    below, above = -products, products + 1  # the last sum of the first result, the first that is not
    d, last = results([below, products], bias, m, shift)
    k = max(LEAST_STEP, (4 * products).bit_length())
    if last > d + 1 or k > MOST_RIGHT:
        return None
    while last > d and above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if results([middle], bias, m, shift) == [d] else (below, middle)
    twice = (
        0 if rounded is rescale_once else 1 if d < 0 else -1
    )  # two roundings: a half less one half is rounded up, too
    half = (1 << k - 1) - above + twice if last > d else 0
    made = (d << k) + half, 1 << MULTIPLIER_BITS - 1, 1 - k
    ends = [-products, *([below, above] if last > d else []), products]
    return made if results(ends, *made) == results(ends, bias, m, shift) else None
