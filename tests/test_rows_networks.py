"""Whole networks with their layers row by row, executed: what is planned computes what it should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.networks import NETWORKS, mobilenet_v2, squeezenet
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.harness.python import api
from tinyhil.language.assignment import Assignment
from tinyhil.references.reference import quantize_inputs, run_reference

# bytes that the arena may take at most, in 8 bits
SMALL = {
    "mobilenet_v2": (mobilenet_v2(32, 0.35, 4, blocks=3), 9_000),
    "squeezenet": (squeezenet(39, 4, fires=3), 12_000),
}
LIMITS = {
    "MobileNetV1 0.25, 128 x 128": 18_982,
    "MobileNetV2 0.35, 144 x 144": 24_787,  # msf-CNN: 83 kB at 2 % more products, 25.7 kB at 25 %
    "MCUNet-VWW 5 fps, 80 x 80": 15_731,  # msf-CNN: 26.1 kB at 11 % more products
    "SqueezeNet 1.1, 224 x 224": 97_920,
}


def assert_executed(proto: onnx.ModelProto, most_bytes: int, folder: Path, samples: int = 2) -> None:
    """By rows on the host board: what numpy computes by rows, and what it computes layer by layer."""
    path = folder / "network.onnx"
    path.write_bytes(proto.SerializeToString())
    graph = load_model(path).graph
    shape = graph.shapes[graph.inputs[0]]
    x = np.random.default_rng(0).normal(size=(samples, *shape[1:])).astype(np.float32)
    by_rows = api.load(path).calibrate(x).run("host", x, formats="fixed8", prefer="ram", results=folder)
    assert by_rows.bit_exact
    assert by_rows.memory["arena_bytes"] <= most_bytes
    layers = lower(graph, Assignment("fixed8"), calibrate(graph, x, {}))
    wanted = run_reference(layers, quantize_inputs(layers, x)[0])
    assert by_rows.saturations == int(wanted.saturations.sum())
    assert by_rows.raw["outputs"] == [row.astype(np.int8).tobytes().hex() for row in wanted.outputs]


@pytest.mark.parametrize("name", SMALL)
def test_the_beginnings_of_networks(name: str, tmp_path: Path) -> None:
    assert_executed(*SMALL[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_whole_networks(name: str, tmp_path: Path) -> None:
    assert_executed(dict(NETWORKS)[name](), LIMITS[name], tmp_path)
