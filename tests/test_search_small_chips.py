"""A search on chips where no format for all tensors fits as it is planned: boards say what a mixture takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hil_command import hil, record_of
from onnx_models import node, simple
from scan_models import weights

ENTRY = """chips:
  tiny: {{like: stm32g0b1, ram_bytes: 1200, stack_reserve_bytes: {}}}
boards:
  tiny: {{title: Tiny, chip: tiny, reset: by_probe, upload: stlink}}
"""


@pytest.fixture
def asked(tmp_path: Path) -> tuple[object, ...]:
    """Options that name a network of two convolutions over 28 steps, its samples and its board."""
    shapes = {"W1": (7, 3, 5), "b1": (7,), "W2": (11, 7, 3), "b2": (11,), "A": (18, 13), "B": (13, 4)}
    nodes = [
        node("Conv", "x W1 b1", "c1", kernel_shape=[5], strides=[2], pads=[2, 2]),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 W2 b2", "c2", kernel_shape=[3], pads=[1, 1]),
        node("Relu", "c2", "r2"),
        node("GlobalAveragePool", "r2", "m"),
        node("GlobalMaxPool", "r1", "q"),
        node("Concat", "m q", "cc", axis=1),
        node("Flatten", "cc", "f"),
        node("MatMul", "f A", "g"),
        node("Tanh", "g", "t"),
        node("MatMul", "t B", "y"),
    ]
    model = simple(nodes, {"x": (1, 3, 28)}, {name: weights(*shape) for name, shape in shapes.items()})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(3).normal(size=(40, 3, 28)).astype(np.float32))
    return (
        "--model",
        "net.onnx",
        "--inputs",
        "x.npz",
        "--calibrate",
        "x.npz",
        "--board",
        "tiny",
        "--boards-file",
        "b.yaml",
    )


@pytest.mark.parametrize("reserve_bytes", [256, 640])
def test_what_fits_is_found_and_runs(reserve_bytes: int, asked: tuple[object, ...], tmp_path: Path) -> None:
    """The first image whose stack met static data ended the search; a smaller reserve made it fail."""
    (tmp_path / "b.yaml").write_text(ENTRY.format(reserve_bytes))
    found = record_of(hil("search", *asked, "--evaluations", 8, "--out", "w.yaml", "--json", cwd=tmp_path))
    assert found["ram_bytes"] <= 1200
    ran = record_of(hil("run", *asked, "--assignment", "w.yaml", "--samples", 4, "--json", cwd=tmp_path))
    memory = ran["memory"]
    assert memory["static_bytes"] + memory["stack_limit_bytes"] == found["ram_bytes"]
    boards = [found, *(row for row in found["uniform"] if row["ram_bytes"] is not None)]
    assert all(row["arena_bytes"] < row["ram_bytes"] for row in boards), "1,000 B of arena stood beside 400 B of static"
