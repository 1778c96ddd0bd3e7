"""Weights that fit in no way are refused right after the model is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hil_command import hil
from onnx_models import load, node, simple

from tinyhil.assignment import Assignment
from tinyhil.errors import DoesNotFit
from tinyhil.harness.config import load_boards
from tinyhil.harness.measure.weights import SPARE, weigh

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
