"""Layers of 16 bits as ARM chips carry them out: sums as wide as they were proven, parts of rows, 8 bits beside 16.

The same networks as for bytes (test_arm_kernels.py), natively under sanitizers and by the chips' own instructions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import Case
from onnx_models import compiled, load, samples_for
from random_models import extreme_inputs
from test_arm_kernels import CORES, PORTABLE, check_natively, check_on_board, convolutions, depthwise, residual
from test_rows import Chain, mobile, runs

from tinyhil.language.program import Blocks, Program, walk
from tinyhil.memplan.arena.row_wise import row_wise
from tinyhil.passes.arrange import arrange
from tinyhil.passes.stored import in_blocks
from tinyhil.passes.variants import ARM, CARRIED

# operands and results, weights
FORMATS = (
    ("fixed16", "fixed16"),
    ("fixed16", "fixed8"),
    ("fixed8", "fixed16"),
    ("fixed12", "fixed16"),
    ("fixed13", "fixed12"),
)


def program_of(chain: Chain, folder: Path, default: str, of_weights: str) -> Program:
    loaded = load(chain.model(), folder)
    exceptions = {name: of_weights for name in chain.constants if name.startswith("w")}
    return compiled(loaded, samples_for(loaded.shapes["x"]), default, **exceptions)


def largest(outputs: int = 5, channels: int = 7, kernel: int = 3) -> Chain:
    """Weights that are the largest codes of either sign: every sum is as large as its format permits."""
    chain = Chain(channels, 5).conv(outputs, kernel, pad=kernel // 2)
    chain.constants["w0"] = np.where(chain.constants["w0"] < 0, -32767, 32767).astype(np.float32) / 32768
    return chain


def small(chain: Chain) -> Chain:
    """One weight is as large as before, all others are small: sums of 32 bits."""
    for name, values in chain.constants.items():
        if name.startswith("w"):
            chain.constants[name] = np.where(np.arange(values.size).reshape(values.shape) == 1, values, values / 64)
    return chain


def networks() -> Iterator[tuple[str, Chain]]:
    yield from convolutions()
    yield from depthwise()
    yield "residual", residual()
    yield "largest", largest()
    yield "largest 1x1", largest(6, 9, 1)
    for name, chain in (*list(convolutions())[:4], *list(depthwise())[:3]):
        yield f"{name}, small", small(chain)


def cases_for(core: str, folder: Path) -> list[Case]:
    found, arranged_of = [], dict.fromkeys(FORMATS, 0)
    for number, (name, chain) in enumerate(list(networks())[list(ARM).index(core) % 2 :: 2]):
        formats = FORMATS[number % len(FORMATS)]
        program = program_of(chain, folder, *formats)
        arranged = arrange(program, core)
        arranged_of[formats] += arranged is not program
        found.append(Case(f"{name} {formats}", arranged, extreme_inputs(program, number)))
    assert min(arranged_of.values()) > 0
    program = arrange(program_of(mobile(), folder, "fixed16", "fixed16"), core)
    (chain,) = runs(program)
    by_rows = row_wise(program, chain)
    assert by_rows is not None
    return [*found, Case("rows", by_rows, extreme_inputs(program, 7))]


@pytest.mark.parametrize("core", [core for core in PORTABLE if core in ARM])  # an M0+ has no blocks of 16 bits
def test_natively_with_sanitizers(core: str, tmp_path: Path) -> None:
    check_natively(cases_for(core, tmp_path), core, tmp_path)


@pytest.mark.parametrize("board", [board for board, core in CORES.items() if core in ARM])
def test_on_boards(board: str, tmp_path: Path) -> None:
    check_on_board(cases_for(CORES[board], tmp_path), board, tmp_path)


def parts_of(stored: np.ndarray, inner: int, together: int) -> Iterator[np.ndarray]:
    """The parts of arrays (elements, rows) that lie in flash, each behind the number of its pairs."""
    at = left = 0
    while at < stored.size:
        count = 2 * int(stored[at])
        assert count > 0
        yield stored[at + 1 : at + 1 + count * together].reshape(count, together)
        at += 1 + count * together
        left += count
    assert left % inner == 0


@pytest.mark.parametrize("spread", [32767, 9000, 700])
def test_parts_hold_every_weight_and_no_sum_of_one_exceeds_32_bits(spread: int) -> None:
    chance = np.random.default_rng(spread)
    codes = chance.integers(-spread, spread + 1, (6, 3, 3, 3))
    blocks = Blocks(4, 1, 4, codes.shape, (2, 1, 3), part=65534)
    parts = list(parts_of(in_blocks(codes, blocks), 28, 4))
    rows = np.concatenate(parts).reshape(2, 28, 4).transpose(0, 2, 1).reshape(8, 28)
    assert np.array_equal(rows[:6, :27], codes.transpose(0, 2, 1, 3).reshape(6, 27))
    assert not rows[6:].any()
    assert not rows[:, 27:].any()
    sums = [np.abs(part).sum(axis=0).max() for part in parts]
    assert max(sums) * 32768 + CARRIED < 1 << 31
    ends = np.cumsum([len(part) for part in parts])
    for number, end in enumerate(ends[:-1]):  # none could be longer
        longer = np.concatenate([parts[number], parts[number + 1][:2]])
        assert end == 28 or np.abs(longer).sum(axis=0).max() > 65534


@pytest.mark.parametrize(("smallest", "has_blocks"), [(-32767, True), (-32768, False)])
def test_two_neighbours_whose_products_exceed_32_bits_have_no_parts(
    smallest: int, has_blocks: bool, tmp_path: Path
) -> None:
    program = program_of(largest(), tmp_path, "fixed16", "fixed16")
    op = next(walk(program.body))
    codes = program.constants[op.inputs[0]].copy()
    codes.flat[:2] = smallest
    changed = replace(program, constants={**program.constants, op.inputs[0]: codes})
    assert op.accumulator_bits > 32
    assert (arrange(changed, "cortex-m3").tensors[op.inputs[0]].blocks is not None) == has_blocks
    assert arrange(changed, "cortex-m7").tensors[op.inputs[0]].blocks is not None  # sums of 64 bits throughout


def test_a_row_of_a_depthwise_kernel_fits_32_bits_on_the_m3(tmp_path: Path) -> None:
    chain = Chain(2, 5).conv(2, 3, pad=1, group=2)
    chain.constants["w0"] = np.where(chain.constants["w0"] < 0, -32767, 32767).astype(np.float32) / 32768
    program = program_of(chain, tmp_path, "fixed16", "fixed16")
    name = next(walk(program.body)).inputs[0]
    assert arrange(program, "cortex-m3").tensors[name].blocks is None
    assert arrange(program, "cortex-m7").tensors[name].blocks is not None
