"""Files that use operators before the opset that has them: Deeploy's, and what ONNX Runtime's optimizer writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from given_data import data_file
from onnx import helper
from onnx_models import floats, load, node, samples_for, tensors

from tinyhil.errors import ModelError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.references.evaluate import evaluate

NETWORKS = ("microLlama/FP32/microLlama1", "CCT/FP32/CCT_1_16_16_8")


def files_of(network: str) -> tuple[str, ...]:
    return tuple(f"deeploy/Models/{network}/{file}" for file in ("network.onnx", "inputs.npz", "outputs.npz"))


def of_opset(opset: int, nodes: list, constants: dict, shape: tuple[int, ...] = (1, 3, 4)) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", [floats("x", (1, 3, 4))], [floats("y", shape)], tensors(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_rms_norm_of_deeploy(tmp_path: Path) -> None:
    scale = np.array([1, 2, -1, 0.5], np.float32)
    nodes = [node("RMSNorm", "x w", "n"), node("Softmax", "n", "s"), node("HardSwish", "s", "y", six=1, three=2)]
    x = samples_for((3, 4))
    found = evaluate(load(of_opset(10, nodes, {"w": scale}), tmp_path), x[:, None]).reshape(x.shape)
    normal = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * scale
    soft = np.exp(normal) / np.exp(normal).sum(axis=-1, keepdims=True)  # whatever opset 10 says of the axis
    assert np.allclose(found, soft * np.clip(soft / 6 + 0.5, 0, 1), atol=1e-6)


def test_layer_normalization_before_its_opset(tmp_path: Path) -> None:
    nodes = [node("LayerNormalization", "x w", "n", epsilon=0.0), node("Squeeze", "n", "y", axes=[0])]
    x = samples_for((3, 4))
    found = evaluate(load(of_opset(12, nodes, {"w": np.ones(4, np.float32)}, (3, 4)), tmp_path), x[:, None]).reshape(
        x.shape
    )
    assert np.allclose(found, (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), atol=1e-5)


def test_a_softmax_that_joins_axes_is_no_dialect(tmp_path: Path) -> None:
    nodes = [node("LayerNormalization", "x w", "n"), node("Softmax", "n", "y")]
    with pytest.raises(ModelError, match="LayerNormalization"):
        load(of_opset(12, nodes, {"w": np.ones(4, np.float32)}), tmp_path)


@pytest.mark.parametrize("network", [pytest.param(one, marks=pytest.mark.data(*files_of(one))) for one in NETWORKS])
def test_networks_of_deeploy_compute_what_their_files_say(network: str) -> None:
    """microLlama's file says nothing of epsilon."""
    folder = f"deeploy/Models/{network}"
    given, wanted = (np.load(data_file(f"{folder}/{name}.npz")) for name in ("inputs", "outputs"))
    parts = [given[name] for name in given.files]
    x = parts[0] if len(parts) == 1 else np.concatenate([part.reshape(1, -1) for part in parts], axis=1)
    found = evaluate(load_onnx(data_file(f"{folder}/network.onnx")).graph, x)
    assert np.allclose(found.reshape(-1), wanted[wanted.files[0]].reshape(-1), atol=3e-5)
