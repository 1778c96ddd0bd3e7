"""Models whose weights are not part of the project: found in HIL_DATA, refused in one line without, and the peers'."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import yaml
from given_data import SETS

from benchmarks.peers_models import (
    FLOAT_PERCENT,
    RAM_LIMIT_BYTES,
    SHIFTRY,
    UNIFORM,
    Peer,
    build_peers,
    float_correct,
    weights_file,
)
from tinyhil.compiler.calibrate import calibrate, load_ranges
from tinyhil.compiler.lower import lower
from tinyhil.data import load
from tinyhil.errors import ModelError
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.zoo import find_model, zoo_names
from tinyhil.language.assignment import Assignment
from tinyhil.memplan.arena.placement import place
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

MODELS = Path(__file__).parent.parent / "models"
EXTERNAL = ("autoencoder_ad", "dscnn_kws", "resnet20_cifar")
# Samples of the test part that take a second or two.
SAMPLES = {"autoencoder_ad": 98, "dscnn_kws": 100, "resnet20_cifar": 16}


def manifest_of(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((MODELS / name / "model.yaml").read_text())
    return loaded


def needs_all_of(name: str) -> Any:
    """The case of a model: its weights and its data set."""
    manifest = manifest_of(name)
    return pytest.param(name, marks=pytest.mark.data(manifest["external"]["file"], *SETS[manifest["dataset"]]))


def test_they_are_not_among_the_bundled_models() -> None:
    assert not set(EXTERNAL) & set(zoo_names())
    assert not [path for name in EXTERNAL for path in (MODELS / name).glob("*.onnx")]


@pytest.mark.parametrize("name", EXTERNAL)
def test_without_the_weights(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for setting in (None, str(tmp_path)):
        if setting is None:
            monkeypatch.delenv("HIL_DATA", raising=False)
        else:
            monkeypatch.setenv("HIL_DATA", setting)
        with pytest.raises(
            ModelError, match=r"not part of the project; set HIL_DATA .* made from github\.com"
        ) as caught:
            find_model(name)
        assert "\n" not in str(caught.value)


def check_the_file(name: str, path: Path) -> None:
    """It is the one of manifest, card and ranges."""
    manifest, card = manifest_of(name), (MODELS / name / "card.md").read_text()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == manifest["external"]["sha256"]
    assert digest[:16] in card
    assert load_ranges(MODELS / name / "ranges.json", digest).source["name"] == manifest["dataset"]
    stated = manifest.get("float_accuracy")
    if stated is not None:
        assert f"**{100 * stated['correct'] / stated['n']:.2f} %** ({stated['correct']} of {stated['n']}" in card
        assert stated["value"] == stated["correct"] / stated["n"]


@pytest.mark.parametrize("name", [needs_all_of(name) for name in EXTERNAL])
def test_it_is_the_stated_file_and_our_float_reference_agrees_with_onnxruntime(name: str) -> None:
    path, source = find_model(name).path, manifest_of(name)["dataset"]
    check_the_file(name, path)
    x = load(source, allow_download=False).x_test[: SAMPLES[name]]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    rows = x.reshape(len(x), *[dim if isinstance(dim, int) else 1 for dim in given.shape])
    expected = np.concatenate([session.run(None, {given.name: row[None, ...][0]})[0] for row in rows])
    found = evaluate(load_model(path).graph, x).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_array_equal(found.argmax(1), expected.argmax(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", [needs_all_of(name) for name in ("dscnn_kws", "resnet20_cifar")])
def test_stated_accuracy(name: str) -> None:
    path, stated = find_model(name).path, manifest_of(name)["float_accuracy"]
    data = load(manifest_of(name)["dataset"], allow_download=False)
    assert data.sha256 == stated["data_sha256"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    shape = [dim if isinstance(dim, int) else 1 for dim in given.shape]
    labels = np.array([session.run(None, {given.name: x.reshape(shape)})[0].argmax() for x in data.x_test])
    assert int((labels == data.y_test).sum()) == stated["correct"]


# ---- the networks Shiftry was measured on


@pytest.mark.data("models/shiftry_peers.npz", *SETS["usps"])
def test_the_peers_networks_have_their_accuracy_and_fit_minun_s_limits(tmp_path: Path) -> None:
    weights_file()
    peers = build_peers()
    assert set(peers) == set(FLOAT_PERCENT) == set(RAM_LIMIT_BYTES)
    for name, peer in peers.items():
        correct = float_correct(peer)
        assert round(100 * correct / len(peer.y_test), 2) == FLOAT_PERCENT[name]
        assert len(peer.x_train) == 7291
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(peer.proto.SerializeToString())
        logits = evaluate(load_model(path).graph, peer.x_test).reshape(len(peer.y_test), -1)
        assert int((logits.argmax(1) == peer.y_test).sum()) == correct
        assert_fits(name, path, peer)


def assert_fits(name: str, path: Path, peer: Peer) -> None:
    graph = load_model(path).graph
    fmt, by = next(iter(UNIFORM.items()))
    program = place(lower(graph, Assignment(fmt), calibrate(graph, peer.x_train, {}, by)))
    assert program.plan.peak_bytes <= RAM_LIMIT_BYTES[name]
    integers, _ = quantize_inputs(program.program, peer.x_test)
    labels = dequantize_outputs(program.program, run_reference(program.program, integers).outputs).argmax(1)
    percent = 100 * float((labels == peer.y_test).mean())
    assert percent >= max(FLOAT_PERCENT[name] - 0.5, SHIFTRY[name]["percent"])
