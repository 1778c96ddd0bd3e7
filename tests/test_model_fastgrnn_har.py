"""The bundled model: a valid file that computes FastGRNN, with the accuracy its manifest and card state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from given_data import data_file, needs_set
from onnx import numpy_helper

from tinyhil.data import Dataset, har
from tinyhil.data.har_archive import CHANNELS

FOLDER = Path(__file__).parent.parent / "models" / "fastgrnn_har"
GOAL = 0.91
HIDDEN, RANK = 32, 8


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "model.yaml").read_text())
    return loaded


@pytest.fixture(scope="module")
def proto(manifest: dict[str, Any]) -> onnx.ModelProto:
    return onnx.load(FOLDER / manifest["onnx"])


@pytest.fixture(scope="module")
def session(manifest: dict[str, Any]) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(FOLDER / manifest["onnx"], providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def weights(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}


@pytest.fixture(scope="module")
def subset(manifest: dict[str, Any]) -> Dataset:
    """The very file on which the stated accuracy was measured."""
    data = har.read_subset(data_file(f"small/{har.SUBSET_FILE}"))
    assert data.sha256 == manifest["float_accuracy"]["data_sha256"]
    return data


def test_the_file_is_valid_and_old_enough_to_run_everywhere(proto: onnx.ModelProto) -> None:
    onnx.checker.check_model(proto, full_check=True)
    assert proto.ir_version <= 10  # onnxruntime 1.18
    assert [entry.version for entry in proto.opset_import] == [17]


def test_the_manifest_describes_the_file(
    manifest: dict[str, Any], session: onnxruntime.InferenceSession, proto: onnx.ModelProto
) -> None:
    (source,), (sink,) = session.get_inputs(), session.get_outputs()
    assert (source.name, source.shape, source.type) == (
        manifest["input"]["name"],
        manifest["input"]["shape"],
        "tensor(float)",
    )
    assert (sink.name, sink.shape) == ("logits", [1, 6])
    assert manifest["name"] == FOLDER.name == proto.graph.name
    assert manifest["dataset"] == har.NAME
    assert manifest["input"]["channels"] == list(CHANNELS)
    assert len(manifest["input"]["units"]) == len(CHANNELS)


def test_the_cell_is_a_loop_over_steps(proto: onnx.ModelProto) -> None:
    assert [node.op_type for node in proto.graph.node] == ["Scan", "MatMul", "Add"]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in proto.graph.node[0].attribute}
    assert (attributes["num_scan_inputs"], list(attributes["scan_input_axes"])) == (1, [1])
    names = [name for node in attributes["body"].node for name in node.output]
    names += [name for node in proto.graph.node for name in node.output]
    names += [info.name for info in attributes["body"].input]
    names += [tensor.name for tensor in proto.graph.initializer]
    assert len(names) == len(set(names))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_it_computes_fastgrnn(session: onnxruntime.InferenceSession, weights: dict[str, np.ndarray]) -> None:
    """Against the paper's equations with zeta = 1 and nu = 0, in float64; |h| < 1 follows from them."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    random = np.random.default_rng(3)
    for _ in range(5):
        x = random.normal(0, [0.2, 0.1, 0.1, 0.4, 0.4, 0.3, 0.5, 0.4, 0.4], (1, 128, 9)).astype(np.float32)
        h = np.zeros((1, HIDDEN))
        for x_t in x[0].astype(np.float64):
            c = x_t @ w["W"] + h @ w["U1"] @ w["U2"]
            z = sigmoid(c + w["b_z"])
            h = z * h + (1.0 * (1 - z) + 0.0) * np.tanh(c + w["b_h"])
            assert np.abs(h).max() < 1
        (logits,) = session.run(None, {"x": x})
        np.testing.assert_allclose(logits, h @ w["fc_w"] + w["fc_b"], atol=1e-4)


def test_cost_and_ranges(weights: dict[str, np.ndarray]) -> None:
    """800 multiply-accumulates per step, and no weight that needs more than two integer bits."""
    assert weights["W"].shape == (9, HIDDEN)
    assert weights["U1"].shape == (HIDDEN, RANK)
    assert weights["U2"].shape == (RANK, HIDDEN)
    assert sum(weights[name].size for name in ("W", "U1", "U2")) == 800
    assert sum(array.size for name, array in weights.items() if name not in ("one", "h_0")) == 1062
    assert max(float(np.abs(array).max()) for array in weights.values()) < 4
    assert (FOLDER / "fastgrnn_har.onnx").stat().st_size < 8192


@needs_set("har6")
def test_accuracy_is_the_stated_one(
    manifest: dict[str, Any], session: onnxruntime.InferenceSession, subset: Dataset
) -> None:
    logits = np.concatenate([session.run(None, {"x": window[None]})[0] for window in subset.x_test])
    accuracy = float((logits.argmax(axis=1) == subset.y_test).mean())
    stated = manifest["float_accuracy"]
    assert accuracy >= GOAL
    assert (stated["value"], stated["n"], stated["split"]) == (accuracy, len(subset.x_test), "test")


def test_the_card_states_the_same(manifest: dict[str, Any]) -> None:
    card = (FOLDER / "card.md").read_text()
    stated = manifest["float_accuracy"]
    assert f"{100 * stated['value']:.2f} %" in card
    assert f"{round(stated['value'] * stated['n'])} of {stated['n']}" in card
    for fact in ("102,592", "1062", "CC BY 4.0", "train.py", stated["data_sha256"][:16]):
        assert fact in card
