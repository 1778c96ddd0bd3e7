"""What fits is run and what does not is refused early: weights in flash, cycles in a counter of 32 bits."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hil_command import hil
from onnx_models import load, node, simple

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import DoesNotFit
from tinyhil.harness.build.weights import SPARE, check_weights, weigh
from tinyhil.harness.measure.counter import check_sample
from tinyhil.harness.settings.config import BoardSpec, load_boards
from tinyhil.harness.wire.stream import COUNTER_TICKS
from tinyhil.harness.wire.trace import SampleTrace
from tinyhil.language.assignment import Assignment

SIDE = 600  # 720,000 B in 16 bits: 22 times the flash of an Uno


def test_far_too_many_weights_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(SIDE, SIDE))
    proto = simple([node("MatMul", "x w", "y")], {"x": (1, SIDE)}, {"w": weights})
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.ones((4, SIDE), np.float32))
    done = hil("run", "--board", "uno", "--model", tmp_path / "m.onnx", "--inputs", tmp_path / "x.npz", cwd=tmp_path)
    assert done.returncode == DoesNotFit.exit_code
    assert "uno: weights 720000 B > 32256 B of flash, 687744 B too much; largest w 720000 B" in done.stderr
    assert "calibrating" not in done.stderr


def test_a_board_whose_flash_weights_exceed_is_left_out_of_a_project(tmp_path: Path) -> None:
    """Its compiler had stumbled over them."""
    weights = np.random.default_rng(0).normal(size=(200, 100))
    proto = simple([node("MatMul", "x w", "y")], {"x": (1, 200)}, {"w": weights})
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.ones((4, 200), np.float32))
    done = hil("generate", "m.onnx", "--calibrate", "x.npz", "--out", "p", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "m.onnx: does not fit uno; there the project refuses to compile" in done.stderr + done.stdout


def test_a_ram_that_no_schedule_takes_is_no_remedy(tmp_path: Path) -> None:
    """`--ram 308` was named to a user whose input alone has more."""
    chip = "chips:\n  tiny: {like: stm32l4r5, ram_bytes: 2504}\n"
    (tmp_path / "own.yaml").write_text(
        f"{chip}boards:\n  tiny: {{title: T, chip: tiny, reset: by_probe, upload: stlink}}\n"
    )
    proto = simple([node("MatMul", "x w", "y")], {"x": (1, 600)}, {"w": np.ones((600, 4))})
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.ones((4, 600), np.float32))
    run = ("run", "--model", "m.onnx", "--inputs", "x.npz", "--board", "tiny", "--boards-file", "own.yaml")
    done = hil(*run, "--format", "fixed8", cwd=tmp_path)
    assert done.returncode == DoesNotFit.exit_code
    assert int(re.search(r"RAM exceeded by (-?\d+) B", done.stderr)[1]) > 0
    assert "as stack_reserve_bytes of tiny, not 2048: it takes" in done.stderr
    assert "--ram" not in done.stderr
    assert "use a lower width" in done.stderr
    (tmp_path / "own.yaml").write_text((tmp_path / "own.yaml").read_text().replace("2504", "65536, flash_bytes: 4096"))
    done = hil(*run, "--format", "fixed8", cwd=tmp_path)
    assert re.search(r"tiny: flash \d+ B > 4096 B.*largest: [\w:<>()]+ \d+ B", done.stderr)
    assert "_Z" not in done.stderr
    assert "stack_reserve_bytes" not in done.stderr  # which is no part of flash


@pytest.mark.parametrize(("share", "format_", "fits"), [(1.0, "fixed16", False), (0.5, "fixed16", True)])
def test_zeros_weigh_nothing(share: float, format_: str, fits: bool, tmp_path: Path) -> None:
    board = load_boards().board("uno")
    assert board.chip.flash_bytes is not None
    weights = np.ones(SIDE * SIDE)
    weights[int(share * len(weights)) :] = 0
    assert (share * len(weights) * 2 <= SPARE * board.chip.flash_bytes) is fits
    proto = simple([node("MatMul", "x w", "y")], {"x": (1, SIDE)}, {"w": weights.reshape(SIDE, SIDE)})
    graph = load(proto, tmp_path)
    if fits:
        weigh(graph, Assignment(format_), board)
    else:
        with pytest.raises(DoesNotFit):
            weigh(graph, Assignment(format_), board)


def _with_flash(board: BoardSpec, flash_bytes: int) -> BoardSpec:
    return board.model_copy(update={"chip": board.chip.model_copy(update={"flash_bytes": flash_bytes})})


def test_weights_below_8_bits_are_weighed_as_they_are_packed(tmp_path: Path) -> None:
    """64 x 64 weights of 4 bits are 2048 B of flash, and the biases beside them."""
    weights = np.random.default_rng(0).normal(size=(64, 64))
    graph = load(simple([node("MatMul", "x w", "y")], {"x": (1, 64)}, {"w": weights}), tmp_path)
    program = lower(graph, Assignment("fixed4"), calibrate(graph, np.ones((2, 1, 64), np.float32), {}))
    board = load_boards().board("uno")
    check_weights(program, _with_flash(board, 2048))
    with pytest.raises(DoesNotFit, match="weights 2048 B > 2047 B of flash, 1 B too much; largest w 2048 B"):
        check_weights(program, _with_flash(board, 2047))


@pytest.mark.parametrize(("cycles", "fits"), [(COUNTER_TICKS - 1, True), (COUNTER_TICKS, False)])
def test_cycles_and_not_their_bound_tell_whether_a_counter_went_round(cycles: int, fits: bool) -> None:
    """SqueezeNet on the STM32H747: 0.4e9 modelled cycles within bounds of 0.2e9 and 6.3e9."""
    trace = SampleTrace(instructions=10**8, cycles=cycles, cycles_min=10**8, cycles_max=2 * COUNTER_TICKS)
    with nullcontext() if fits else pytest.raises(DoesNotFit, match=f"took {cycles} cycles"):
        check_sample("h747", 0, trace)
