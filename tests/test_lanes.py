"""Two products in one multiplication on a Cortex-M0+: which weights may share a factor, and what decides results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from kernel_cases import Case, first_difference, run_on_board
from random_models import extreme_inputs
from test_arm_kernels import dense_program, program_of
from test_rows import Chain

from tinyhil.formats.affine import rescale
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.program import Blocks, walk
from tinyhil.passes.arrange import arrange
from tinyhil.passes.lanes import EXTRA, fit_lanes, sum_bounds_of_records
from tinyhil.passes.stored import in_blocks


@pytest.mark.parametrize(
    ("weights", "fit"),
    [
        ([127, 127, -128, -128], True),
        ([-128, 0, -128, 0], False),
        ([127, 0, -128, 0], True),
        ([0, -128, 0, -128], False),
    ],
)
def test_weights_share_a_factor_where_no_sum_of_two_products_exceeds_16_bits(weights: list[int], fit: bool) -> None:
    blocks = Blocks(1, 2, 4, (1, 4, 1, 1), (2, 1, 3), lanes=True)
    codes = np.array(weights)
    assert fit_lanes(codes, blocks) == fit
    most = max(abs(weights[0]) + abs(weights[2]), abs(weights[1]) + abs(weights[3])) * 128
    assert (most < 1 << 15) == fit
    assert (in_blocks(codes, blocks).view(np.uint8).astype(int) - 128).tolist() == [weights[n] for n in (2, 3, 0, 1)]


@pytest.mark.parametrize(("smallest", "step"), [(-127, 4), (-128, 1)])
def test_fully_connected_layers_of_a_cortex_m0_whose_weights_include_the_least_byte(
    smallest: int, step: int, tmp_path: Path
) -> None:
    """Their lower products say by themselves which upper ones they have taken one from; else the elements' signs do."""
    programs = [arrange(dense_program(tmp_path, n, smallest, 10), "cortex-m0plus") for n in (508, 512, 600)]
    stored = [tensor.blocks for program in programs for tensor in program.tensors.values()]
    assert {(blocks.lanes, blocks.step) for blocks in stored if blocks} == {(True, step)}
    cases = [Case(f"{number}", program, extreme_inputs(program, number)) for number, program in enumerate(programs)]
    assert first_difference(cases, run_on_board(cases, load_boards().board("nucleo_g0b1"), tmp_path / "cache")) == ""


def test_a_product_of_32_bits_decides_nearly_all_results(tmp_path: Path) -> None:
    """What the kernel of a Cortex-M0+ compares lies on both sides of the exact result, and no product overflows."""
    program = program_of(Chain(40, 3).conv(8, 1), tmp_path, "int8")
    program = arrange(program, "cortex-m0plus")
    op = next(op for op in walk(program.body) if "zero" in op.params)
    stored = program.tensors[op.inputs[2]].stored
    assert stored is not None
    records, bounds = np.array(stored.numbers).reshape(-1, 3), sum_bounds_of_records(program, op)
    for (_, multiplier, packed), bound in zip(records, bounds, strict=True):
        right, bits = packed & 255, packed >> 8
        cut = EXTRA + right - bits
        sums = np.unique(np.random.default_rng(3).integers(-bound, bound, 4000, endpoint=True))
        first = (1 << 30 >> cut) + 1
        low = sums * (multiplier >> cut) + np.minimum(sums, 0) + ((2 * op.params["zero"] + 1) << bits - 1) - first
        high = low + np.abs(sums) + 2 * first
        assert max(np.abs(low).max(), np.abs(high).max()) < 1 << 31
        exact = rescale(sums, multiplier, -right - 2) + op.params["zero"]
        assert (low >> bits <= exact).all()
        assert (exact <= high >> bits).all()
        assert (low >> bits == high >> bits).mean() > 0.6
