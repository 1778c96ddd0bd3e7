"""Numbers that kernels of asymmetric layers read in the place of constants, and the bounds that permit them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tinyhil.formats.affine import MULTIPLIER_BITS
from tinyhil.formats.fixed import Fixed
from tinyhil.language.form import Arithmetic, Form
from tinyhil.language.program import Op, Program, Role, Tensor
from tinyhil.passes.affine_layers import NEAR_BITS, _near_multipliers, sum_bounds


def layer(**constants: np.ndarray) -> tuple[Program, Op]:
    """A fully connected one of these weights, biases, multipliers and shifts."""
    tensors = {name: Tensor(name, array.size, Fixed(32, 0), Role.CONSTANT) for name, array in constants.items()}
    op = Op(Form("dense", Arithmetic.AFFINE), "y", ("w", "x", "b", "m", "s"), "y", {"outputs": constants["b"].size}, 20)
    return Program("one", tensors, constants, (op,), "x", "y", (1,), (1,)), op


def test_no_sum_exceeds_its_bound_and_one_reaches_it() -> None:
    weights = np.array([[3, 5, 1], [-4, 2, -7], [0, 0, 0], [-6, -1, -2]])
    bias = np.array([-11, 9, 4, 5])
    program, op = layer(w=weights.reshape(-1), b=bias)
    operands = np.array(list(product((-128, 0, 127), repeat=3)))
    largest = np.abs(operands @ weights.T + bias).max(axis=0)
    assert (largest <= sum_bounds(program, op)).all()
    assert (largest == sum_bounds(program, op)).tolist() == [True, False, True, True]


@pytest.mark.parametrize("shift", [-7, -8, -9, -12, -20])
def test_near_multipliers_are_the_nearest_of_their_bits(shift: int) -> None:
    multipliers = np.array([1 << 30, (1 << 31) - 1, 1234567890])
    program, op = layer(w=np.ones(3, np.int64), b=np.zeros(3, np.int64), m=multipliers, s=np.full(3, shift))
    found = _near_multipliers(program, op)
    assert found is not None
    near, lift = found
    exact = multipliers * 2.0 ** (shift - MULTIPLIER_BITS + 32 - lift)
    assert near.max() < 1 << NEAR_BITS
    assert (np.abs(near - exact) <= np.where(exact > (1 << NEAR_BITS) - 1, 1, 0.5)).all()
    assert lift == max(shift + 8, 0)
