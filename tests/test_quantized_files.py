"""Files that the benchmark of engines writes of float networks: ours computes what TensorFlow Lite Micro does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from given_data import data_file
from onnx import numpy_helper

import tinyhil
from benchmarks import fastgrnn_calls, peers, quantized_files
from benchmarks.tflite_files import EVERYWHERE, verdict
from tests.test_engines import bench
from tinyhil.data import load
from tinyhil.harness.engines import registry
from tinyhil.harness.engines.engine_run import run_engine
from tinyhil.harness.job.job import Request

runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")
ROOT = Path(__file__).resolve().parent.parent
ENGINES, BENCH = "engines", "models/peer_bench"


def cell(steps: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Random weights and samples."""
    rng = np.random.default_rng(1)
    shapes = {"W": (9, 32), "U": (32, 32), "bg": (32,), "bh": (32,), "F": (32, 6), "f": (6,)}
    w = {name: rng.normal(0, 0.3, shape) for name, shape in shapes.items()}
    return {**w, "zeta": np.array(0.75), "nu": np.array(0.02)}, rng.normal(size=(20, steps, 9))


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn", "fastgrnn"])
def test_every_tensor_is_the_runtimes(name: str, tmp_path: Path) -> None:
    if name == "fastgrnn":
        data = quantized_files.fastgrnn(*cell(4))
    else:
        graph = onnx.load(ROOT / "models" / name / f"{name}.onnx").graph
        weights = [numpy_helper.to_array(one).astype(np.float64) for one in graph.initializer]
        x = load("digits").x_train.astype(np.float64)
        data = getattr(quantized_files, name)(weights, x.reshape(len(x), 1, 8, 8))
    (tmp_path / "made.tflite").write_bytes(data)
    found = verdict(tmp_path / "made.tflite", 3)
    assert (found.kind, found.reason) == (EVERYWHERE, "")


@pytest.mark.slow
@pytest.mark.data(ENGINES, BENCH)
def test_decisions_on_the_windows_of_the_fastgrnn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/measured/peers.md says them, ours first: by how many of 400 each is not the floats."""
    source = data_file(BENCH)
    w = {name: np.asarray(one, np.float64) for name, one in np.load(source / "rnn.npz").items()}
    x, y = (np.load(source / f"har_{name}.npy") for name in ("x", "y"))
    monkeypatch.setattr(registry, "ENGINES", (*registry.ENGINES, fastgrnn_calls.engine("calls", w, x)))
    model, inputs = tmp_path / "net.onnx", tmp_path / "x.npz"
    onnx.save(peers.fastgrnn_as_scan(source / "rnn.npz"), model)
    np.savez(inputs, x=x, y=y)
    ours = tinyhil.load(str(model)).run("host", x, y, formats="int8")
    asked = Request("host", str(model), "int8", inputs=inputs, results=tmp_path)
    calls, _ = run_engine("calls", data_file(ENGINES), asked, bench())
    assert [(one["samples"], one["disagreements"]) for one in (ours, calls)] == [(400, 0), (400, 1)]
    interpreter = runtime.Interpreter.from_bytes(quantized_files.fastgrnn(w, x), arena_size=1 << 20)
    decided = []
    for codes in quantized_files.codes_of(x, quantized_files.grid_of(x)):
        interpreter.set_input(codes[None], 0)
        interpreter.invoke()
        decided.append(interpreter.get_output(0).argmax())
    assert int((decided != quantized_files.fastgrnn_values(w, x)["y"].argmax(1)).sum()) == 1
