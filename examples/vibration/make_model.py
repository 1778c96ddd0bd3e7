"""Trains the example's model: is a pump idle, running, or running with a worn bearing? Seeded; numpy alone.

python make_model.py        # writes models/vibration.onnx, data/train.npz and data/test.npz
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WINDOW, HIDDEN, CLASSES = 32, 12, 3
HERE = Path(__file__).resolve().parent


def windows(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Acceleration in g, (count, 1, 32), and labels: 0 idle, 1 running, 2 running with a bearing that knocks."""
    source = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    time = np.arange(WINDOW) / WINDOW
    signal = 0.05 * source.standard_normal((count, WINDOW))
    turns = source.uniform(2.5, 3.5, (count, 1)) * time + source.random((count, 1))
    signal += np.where(labels[:, None] > 0, 0.6, 0.0) * np.sin(2 * np.pi * turns)
    knock = np.abs(np.sin(2 * np.pi * turns)) > 0.97
    signal += np.where(labels[:, None] == 2, 0.9, 0.0) * knock
    return signal[:, None, :].astype(np.float32), labels


def train(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Two layers with ReLU, softmax cross-entropy, plain gradient descent with momentum."""
    source = np.random.default_rng(0)
    x = x.reshape(len(x), -1).astype(np.float64)
    target = np.eye(CLASSES)[y]
    shapes = ((WINDOW, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
    weights = [source.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]
    speed = [np.zeros_like(w) for w in weights]
    for _ in range(3000):
        w1, b1, w2, b2 = weights
        hidden = np.maximum(x @ w1 + b1, 0)
        logits = hidden @ w2 + b2
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = (share / share.sum(axis=1, keepdims=True) - target) / len(x)
        back = (error @ w2.T) * (hidden > 0)
        slopes = [x.T @ back, back.sum(axis=0), hidden.T @ error, error.sum(axis=0)]
        speed = [0.9 * v - 0.3 * slope for v, slope in zip(speed, slopes, strict=True)]
        weights = [w + v for w, v in zip(weights, speed, strict=True)]
    return [w.astype(np.float32) for w in weights]


def save(weights: list[np.ndarray], path: Path) -> None:
    names = ("w1", "b1", "w2", "b2")
    nodes = [
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["hidden"], "first"),
        helper.make_node("Relu", ["hidden"], ["active"], "relu"),
        helper.make_node("Gemm", ["active", "w2", "b2"], ["logits"], "second"),
    ]
    nodes.insert(0, helper.make_node("Flatten", ["window"], ["flat"], "flatten"))
    graph = helper.make_graph(
        nodes,
        "vibration",
        [helper.make_tensor_value_info("window", TensorProto.FLOAT, [1, 1, WINDOW])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(w, name) for name, w in zip(names, weights, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main() -> None:
    (HERE / "models").mkdir(exist_ok=True)
    (HERE / "data").mkdir(exist_ok=True)
    x, y = windows(900, seed=1)
    save(train(x, y), HERE / "models" / "vibration.onnx")
    np.savez_compressed(HERE / "data" / "train.npz", x=x[:150], y=y[:150])
    x_test, y_test = windows(60, seed=2)
    np.savez_compressed(HERE / "data" / "test.npz", x=x_test, y=y_test)


if __name__ == "__main__":
    main()
