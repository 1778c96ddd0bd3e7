"""Layers of asymmetric integers with what each output needs after its products in one record
(tinyhil/passes/rescalings.py).

A record is bias, multiplier and how far to shift to the right, three words of 32 bits. It says the same as the three
constants of tinyhil/ops/affine.py: `doubled` layers hold twice the bias, and their shift is one less than theirs is to
the right; elsewhere it is two less. So a shifted number is twice the result, and the last bit rounds it
(firmware/kernels/arm/rescaled.hpp).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.affine import multiplier
from tinyhil.formats.format import Format
from tinyhil.language.form import Arithmetic, Limit
from tinyhil.language.kernel import Arrays, Kernel
from tinyhil.language.program import Op
from tinyhil.ops import affine, affine_pair
from tinyhil.ops.affine_pair import FACTOR_BITS
from tinyhil.ops.limits import forms

WORDS = 3


def records(bias: np.ndarray, multipliers: np.ndarray, shifts: np.ndarray, doubled: bool) -> np.ndarray:
    """(outputs, WORDS) records of three constants of `affine`."""
    right = -shifts.reshape(-1) - (1 if doubled else 2)
    return np.stack([bias.reshape(-1) << int(doubled), multipliers.reshape(-1), right], axis=1)


def three_constants(array: np.ndarray, doubled: int) -> list[np.ndarray]:
    """Bias, multipliers and shifts of such records, as `affine` has them."""
    bias, multipliers, right = array.reshape(-1, WORDS).T
    return [bias >> doubled, multipliers, doubled - 2 - right]


def _rescaled(base: Kernel) -> Kernel:
    def execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
        return base.execute(op, [*arrays[:2], *three_constants(arrays[2], op.params["doubled"]), *arrays[3:]], out)

    return replace(
        base,
        form=replace(base.form, arithmetic=Arithmetic.RESCALED),
        summary=f"{base.summary}: bias, multiplier and shift of each output as one record",
        execute=execute,
        params=(*base.params, "doubled"),
        static_params=(*base.static_params, "doubled"),
        codes=tuple(range(len(base.codes) - 2)),
    )


def factor_records(bias: np.ndarray, factors: np.ndarray, zero: int) -> np.ndarray:
    """(outputs, 2) records of a pair whose factors are whole numbers of 2^-FACTOR_BITS: what joins a sum times its
    factor before it is shifted, zero point and rounding half included, and the factor."""
    return np.stack([bias * factors + (2 * zero + 1) * (1 << FACTOR_BITS - 1), factors], axis=1)


def _execute_factored(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    starts, factors = arrays[2].reshape(-1, 2).T
    bias = (starts - (2 * op.params["zero"] + 1) * (1 << FACTOR_BITS - 1)) // factors
    pairs = [multiplier(float(factor) / (1 << FACTOR_BITS)) for factor in factors]
    constants = [bias, *(np.array(numbers) for numbers in zip(*pairs, strict=True))]
    return affine_pair.PAIR.execute(op, [*arrays[:2], *constants, *arrays[3:]], out)


DENSE, CONV, PAIR = (_rescaled(base) for base in (affine.DENSE, affine.CONV, affine_pair.PAIR))
FACTORED = replace(
    affine_pair.PAIR,
    form=replace(affine_pair.PAIR.form, arithmetic=Arithmetic.FACTORED),
    summary=f"{affine_pair.PAIR.summary}: start and factor of each output as one record",
    execute=_execute_factored,
    codes=tuple(range(5)),
)
_BASES = (DENSE, CONV, PAIR, FACTORED)
KERNELS = (*_BASES, *forms(_BASES, (Limit.CLIP,)))
