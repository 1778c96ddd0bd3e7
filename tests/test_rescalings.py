"""Records of outputs (tinyhil/passes/rescalings.py): the same results as the constants they are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from hil_command import hil
from random_models import extreme_inputs
from test_arm_kernels import dense, program_of
from test_rows import Chain, mobile

from tinyhil.formats.affine import rescale, rescale_once
from tinyhil.language.form import Arithmetic
from tinyhil.language.program import Op, Program, walk
from tinyhil.ops.rescaled import WORDS
from tinyhil.passes.affine_layers import sum_bounds
from tinyhil.passes.arrange import arrange
from tinyhil.passes.constant_channels import without_constant_channels
from tinyhil.passes.rescalings import FARTHEST, LARGEST_SUM, _as_step
from tinyhil.passes.variants import ARM
from tinyhil.references.reference import run_reference


def random_step(rng: np.random.Generator, products: int) -> tuple[int, int, int]:
    """Bias, multiplier and shift of an output that hardly changes, if at all."""
    m, shift = int(rng.integers(1 << 30, 1 << 31)), -int(rng.integers(22, 31))
    if rng.random() < 0.5:
        change = (rng.integers(-100, 100) + 0.5) * 2.0 ** (31 - shift) / m
        return int(np.clip(change - rng.integers(-products, products + 1), 1 - (1 << 30), (1 << 30) - 1)), m, shift
    return int(rng.choice([-1, 1]) * 2 ** rng.uniform(0, 29.9)), m, shift


@pytest.mark.parametrize("rounded", [rescale, rescale_once])
def test_a_small_factor_becomes_a_larger_one_that_gives_the_same(rounded: Callable[..., np.ndarray]) -> None:
    rng, changing = np.random.default_rng(5), [0, 0]
    for _ in range(800):
        products = int(2 ** rng.uniform(0, 19.9))
        bias, m, shift = random_step(rng, products)
        made = _as_step(products, bias, m, shift, rounded)
        assert made is not None  # all of these have two results at most
        sums = np.unique(np.r_[rng.integers(-products, products + 1, 300), -products, products])
        wanted = np.clip(rounded(sums + bias, m, shift), -FARTHEST, FARTHEST)
        assert np.array_equal(np.clip(rounded(sums + made[0], *made[1:]), -FARTHEST, FARTHEST), wanted), (
            bias,
            m,
            shift,
        )
        assert abs(made[0]) + products < LARGEST_SUM
        changing[int(wanted[0] < 0)] += wanted[0] != wanted[-1]
    assert min(changing) > 20


def first_layer(program: Program) -> Op:
    return next(op for op in walk(program.body) if op.kernel.base == "conv")


def with_shifts(program: Program, shift: int) -> Program:
    """The same with this shift in the first layer's first two outputs."""
    name = first_layer(program).inputs[4]
    shifts = program.constants[name].copy()
    shifts[:2] = shift
    return replace(program, constants={**program.constants, name: shifts})


@pytest.mark.parametrize("core", ARM)
@pytest.mark.parametrize(
    ("shift", "kernel"), [(None, "rescaled"), (-27, "rescaled"), (-31, "rescaled"), (0, "affine"), (2, "affine")]
)
def test_the_reference_computes_the_same(core: str, shift: int | None, kernel: str, tmp_path: Path) -> None:
    program = program_of(mobile(), tmp_path, "int8")
    if shift is not None:
        program = with_shifts(program, shift)
    arranged = arrange(program, core)
    assert first_layer(arranged).kernel.arithmetic == kernel
    inputs = extreme_inputs(program, 3)
    wanted, found = run_reference(without_constant_channels(program), inputs), run_reference(arranged, inputs)
    assert np.array_equal(found.outputs, wanted.outputs)
    assert np.array_equal(found.saturations, wanted.saturations)


@pytest.mark.parametrize("core", ARM)
@pytest.mark.parametrize("chain", [Chain(4, 3).conv(6, 1), dense(9, 6)], ids=["conv", "dense"])
def test_layers_some_of_whose_outputs_hardly_change(core: str, chain: Chain, tmp_path: Path) -> None:
    """Factors of all magnitudes, and biases at which results change: the last layer has no channel that is left out."""
    program = program_of(chain, tmp_path, "int8")
    (op,) = (op for op in walk(program.body) if op.kernel.arithmetic is Arithmetic.AFFINE and len(op.inputs) > 3)
    bias, multipliers, shifts = (program.constants[name].copy() for name in op.inputs[2:])
    sums = sum_bounds(program, op) - np.abs(bias)
    for place, (n, zero) in enumerate([(-23, 0), (-25, 0), (-26, -3), (-28, 1), (-30, 0)]):
        shifts[place] = n
        bias[place] = np.clip(
            (zero + 0.5) * 2.0 ** (31 - n) / multipliers[place] - sums[place] // 5, 1 - (1 << 29), (1 << 29) - 1
        )
    multipliers[5], shifts[5], bias[5] = 0, 0, 77
    bias[4] = LARGEST_SUM + 5
    changed = dict(zip(op.inputs[2:], (bias, multipliers, shifts), strict=True))
    program = replace(program, constants={**program.constants, **changed})
    arranged = arrange(program, core)
    (made,) = (one for one in walk(arranged.body) if one.kernel.arithmetic is Arithmetic.RESCALED)
    biases = arranged.constants[made.inputs[2]].reshape(-1, WORDS)[:, 0] >> made.params["doubled"]
    assert (np.abs(biases[:6]) + sums < LARGEST_SUM).all()
    inputs = extreme_inputs(program, 3, 40)
    wanted, found = run_reference(program, inputs), run_reference(arranged, inputs)
    assert np.array_equal(found.outputs, wanted.outputs)
    assert np.array_equal(found.saturations, wanted.saturations)
    assert np.any(np.ptp(wanted.outputs.reshape(len(inputs), 6, -1)[:, :3], axis=(0, 2)) == 1)


def test_a_large_bias_does_not_hinder_pairs(tmp_path: Path) -> None:
    """Only the products of rows are told apart, their biases join later."""
    program = program_of(Chain(4, 3).conv(4, 1), tmp_path, "int8")
    name = first_layer(program).inputs[2]
    bias = np.full_like(program.constants[name], 1 << 25)
    arranged = arrange(replace(program, constants={**program.constants, name: bias}), "cortex-m7")
    blocks = arranged.tensors[first_layer(arranged).inputs[0]].blocks
    assert blocks is not None
    assert blocks.paired


@pytest.mark.slow
@pytest.mark.data("models/mlperftiny_vww_mobilenetv1_025_96_int8.tflite")
def test_sums_far_below_the_zero_point_are_clamped_where_no_product_decides(tmp_path: Path) -> None:
    """Cortex-M0+: MobileNetV1's last layer has outputs whose biases are near -2^30, beyond one product of 32 bits."""
    model = str(data_file("models/mlperftiny_vww_mobilenetv1_025_96_int8.tflite"))
    x = np.random.default_rng(0).integers(-128, 128, (1, 1, 96, 96, 3)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    asked = ("--board", "nucleo_g0b1", "--model", model, "--format", "int8", "--inputs", "x.npz", "--load", "direct")
    done = hil("run", *asked, cwd=tmp_path)
    assert (done.returncode, "of 1 equal to the reference" in done.stdout) == (0, True), done.stderr
