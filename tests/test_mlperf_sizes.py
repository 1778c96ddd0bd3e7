"""Which of MLPerf Tiny's benchmarks a model is, where two have the same sizes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from given_data import data_file
from onnx_models import node, simple

from tinyhil.frontend.load import load_model
from tinyhil.harness.mlperf import benchmarks
from tinyhil.harness.mlperf.benchmarks import benchmark_of


def test_two_sizes_of_image_classification_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of the file, or by its content; without either it is the first."""
    ends = {"x": (1, 3, 32, 32)}
    nodes = [node("GlobalAveragePool", "x", "p"), node("Flatten", "p", "f"), node("Gemm", "f w", "y")]
    proto = simple(nodes, ends, {"w": np.ones((3, 10), np.float32)})
    found = {}
    for name in ("m.onnx", "ic02_large.onnx", "other.onnx"):
        path = tmp_path / name
        path.write_bytes(proto.SerializeToString())
        if name == "other.onnx":
            monkeypatch.setattr(benchmarks, "HASHES", {hashlib.sha256(path.read_bytes()).hexdigest(): "ic02"})
        found[name] = benchmark_of(load_model(path).graph, path).id
    assert found == {"m.onnx": "ic01", "ic02_large.onnx": "ic02", "other.onnx": "ic02"}


@pytest.mark.data("models/mlperftiny_ic02_resnet_large_int8.tflite")
def test_the_published_file_of_the_larger_one_is_known(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(data_file("models/mlperftiny_ic02_resnet_large_int8.tflite").read_bytes())
    assert benchmark_of(load_model(path).graph, path).id == "ic02"
