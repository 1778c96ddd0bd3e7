"""Operators of com.microsoft that onnxruntime's optimizer writes, against onnxruntime itself."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import compiled, node, onnxruntime_outputs, samples_for, simple
from onnxruntime import quantization

from tinyhil.errors import ModelError
from tinyhil.frontend.onnx import model_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

RNG = np.random.default_rng(5)
BIAS, GAMMA, BETA = (RNG.normal(size=8).astype(np.float32) for _ in range(3))
SKIP, FACTOR = RNG.normal(size=(1, 6, 8)).astype(np.float32), RNG.normal(size=(1, 5, 8)).astype(np.float32)
QKV, BIAS20 = RNG.normal(size=(8, 24)).astype(np.float32) / 3, RNG.normal(size=20).astype(np.float32)
FACTOR_OF_6 = RNG.normal(size=(1, 6, 8)).astype(np.float32)
# operator, constants behind the run-time operand, attributes
CASES: dict[str, tuple[str, list[np.ndarray | None], dict[str, Any]]] = {
    "fast_gelu": ("FastGelu", [], {}),
    "fast_gelu_bias": ("FastGelu", [BIAS], {}),
    "bias_gelu": ("BiasGelu", [BIAS], {}),
    "quick_gelu": ("QuickGelu", [], {"alpha": 1.3}),
    "fused_matmul": ("FusedMatMul", [FACTOR], {"transB": 1, "alpha": 0.25}),
    "skip_layer": ("SkipLayerNormalization", [SKIP, GAMMA, BETA, BIAS], {"epsilon": 1e-5}),
    "skip_layer_short": ("SkipLayerNormalization", [SKIP, GAMMA], {"epsilon": 1e-3}),
    "skip_rms": ("SkipSimplifiedLayerNormalization", [SKIP, GAMMA], {"epsilon": 1e-5}),
    "attention": ("Attention", [QKV, np.tile(BIAS, 3)], {"num_heads": 2}),
    "attention_past": ("Attention", [QKV, np.tile(BIAS, 3)], {"num_heads": 4, "unidirectional": 1, "scale": 0.3}),
    "attention_lengths": ("Attention", [QKV, np.tile(BIAS, 3), np.array([4], np.int32)], {"num_heads": 2}),
    "attention_rows": (
        "Attention",
        [QKV, np.tile(BIAS, 3), np.array([[1, 0, 1, 1, 1, 0]], np.int32)],
        {"num_heads": 2},
    ),
    "attention_widths": ("Attention", [QKV[:, :20], BIAS20], {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]}),
    "heads": ("MultiHeadAttention", [SKIP, FACTOR_OF_6], {"num_heads": 2}),
    "heads_bias": (
        "MultiHeadAttention",
        [SKIP, FACTOR_OF_6, np.tile(BIAS, 3), np.array([[1, 1, 0, 1, 1, 1]], np.int32)],
        {"num_heads": 4},
    ),
}


def words(masked: bool) -> onnx.ModelProto:
    """Embeddings of the six numbers of words that x is rounded to."""
    tables = {name: RNG.normal(size=(rows, 8)).astype(np.float32) for name, rows in (("w", 30), ("p", 6), ("s", 2))}
    tables |= {"g": GAMMA, "b": BETA, "mask": np.array([[1, 1, 1, 1, 0, 0]], np.int32)}
    tables["segments"] = np.array([[0, 0, 1, 1, 1, 0]], np.int32)
    nodes = [helper.make_node("Cast", ["x"], ["ids"], to=TensorProto.INT32)]
    names = ["ids", "segments", "w", "p", "s", "g", "b", *(["mask"] if masked else [])]
    nodes.append(helper.make_node("EmbedLayerNormalization", names, ["y", "counts"], domain="com.microsoft", name="e"))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 6]), ("y", [1, 6, 8]))]
    arrays = [numpy_helper.from_array(array, name) for name, array in tables.items()]
    graph = helper.make_graph(nodes, "m", ends[:1], ends[1:], arrays)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def model(op: str, constants: list[np.ndarray | None], attrs: dict[str, Any], results: list[str]) -> onnx.ModelProto:
    names = [f"c{n}" if array is not None else "" for n, array in enumerate(constants)]
    node = helper.make_node(op, ["x", *names], results, domain="com.microsoft", name="node", **attrs)
    last = helper.make_node("Identity", [next(name for name in reversed(results) if name)], ["y"])
    weights = [numpy_helper.from_array(a, n) for a, n in zip(constants, names, strict=True) if a is not None]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 6, 8]), ("y", None))
    )
    graph = helper.make_graph([node, last], "m", [x], [y], weights)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def compared(proto: onnx.ModelProto, x: np.ndarray | None = None) -> None:
    x = np.random.default_rng(6).normal(size=(3, 1, 6, 8)).astype(np.float32) * 2 if x is None else x
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = np.stack([session.run(None, {"x": one})[0] for one in x])
    got = evaluate(model_of(proto, Path("m"), "").graph, x)
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_it_is_onnxruntime_s(name: str) -> None:
    op, constants, attrs = CASES[name]
    compared(model(op, constants, attrs, ["made"]))


def test_the_sum_before_a_normalization_is_a_result() -> None:
    compared(model("SkipLayerNormalization", [SKIP, GAMMA, BETA], {}, ["made", "", "", "total"]))


def test_statistics_as_results_are_refused_in_a_line() -> None:
    proto = model("SkipLayerNormalization", [SKIP, GAMMA, BETA], {}, ["made", "mean"])
    with pytest.raises(ModelError, match="its mean or deviation as a result"):
        model_of(proto, Path("m"), "")


@pytest.mark.parametrize("masked", [False, True])
def test_embeddings_are_those_of_onnxruntime(masked: bool) -> None:
    compared(words(masked), np.random.default_rng(1).integers(0, 30, (3, 1, 6)).astype(np.float32))


# ---- files as onnxruntime's optimizer leaves them


def layers() -> onnx.ModelProto:
    """Whatever it fuses of a small network of images: activations, residuals, pools, products."""
    nodes = [
        node("Conv", "x w b", "c", pads=[1] * 4),
        node("LeakyRelu", "c", "d", alpha=0.2),
        node("Conv", "d w2 b", "e", pads=[1] * 4),
        node("Clip", "e low high", "f"),
        node("Conv", "f w2 b", "g", pads=[1] * 4),
        node("Add", "g d", "h"),
        node("Relu", "h", "i"),
        node("MaxPool", "i", "j", kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", "i", "k", kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", "j k", "l", axis=1),
        node("GlobalAveragePool", "l", "m"),
        node("Flatten", "m", "n"),
        node("Gemm", "n v b", "o"),
        node("HardSigmoid", "o", "p", alpha=0.3),
        node("Gemm", "p u b", "q"),
        node("Relu", "q", "y"),
    ]
    weights = {"w": samples_for((8, 3, 3, 3), 1)[0] / 5, "w2": samples_for((8, 8, 3, 3), 1)[0] / 8, "b": BIAS}
    weights |= {"low": 0.0, "high": 1.5, "v": samples_for((16, 8), 1)[0] / 4, "u": samples_for((8, 8), 1)[0] / 3}
    return simple(nodes, {"x": (1, 3, 8, 8)}, weights)


def optimized(model_bytes: bytes, level: str, folder: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath, options.intra_op_num_threads = str(folder / "optimized.onnx"), 1
    options.log_severity_level = 3
    onnxruntime.InferenceSession(model_bytes, options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimized.onnx")


def domains(proto: onnx.ModelProto) -> set[str]:
    return {f"{item.domain}.{item.op_type}" for item in proto.graph.node if item.domain}


X = samples_for((1, 3, 8, 8), 4)


def test_its_file_of_floats_runs(tmp_path: Path) -> None:
    made = optimized(layers().SerializeToString(), "EXTENDED", tmp_path)
    assert domains(made) >= {"com.microsoft.FusedConv", "com.microsoft.FusedGemm"}
    compared(made, X)
    graph = model_of(made, Path("m"), "").graph
    program = compiled(graph, X)
    run = run_reference(program, quantize_inputs(program, X)[0])
    wanted = evaluate(graph, X).reshape(len(X), -1)
    np.testing.assert_allclose(dequantize_outputs(program, run.outputs), wanted, atol=2e-3)


def test_a_layout_of_one_processor_is_refused_with_a_remedy(tmp_path: Path) -> None:
    made = optimized(layers().SerializeToString(), "ALL", tmp_path)
    if not any("nchwc" in name for name in domains(made)):
        pytest.skip("onnxruntime has no such layout for this processor")
    with pytest.raises(ModelError, match="up to ORT_ENABLE_EXTENDED"):
        model_of(made, Path("m"), "")


class Calibration(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.left = list(X)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return {"x": self.left.pop()} if self.left else None


@pytest.mark.parametrize("level", ["EXTENDED", "ALL"])
def test_its_file_of_integers_runs(level: str, tmp_path: Path) -> None:
    onnx.save(layers(), tmp_path / "m.onnx")
    kinds = {"activation_type": quantization.QuantType.QUInt8, "weight_type": quantization.QuantType.QInt8}
    quantization.quantize_static(tmp_path / "m.onnx", tmp_path / "q.onnx", Calibration(), per_channel=True, **kinds)
    made = optimized((tmp_path / "q.onnx").read_bytes(), level, tmp_path)
    if level == "ALL" and "com.microsoft.QLinearConv" not in domains(made):
        pytest.skip("onnxruntime moves no channels for this processor")
    x = samples_for((1, 3, 8, 8), 6, 9)
    graph = model_of(made, Path("m"), "").graph
    wanted, got = onnxruntime_outputs(made, x, False), evaluate(graph, x).reshape(len(x), -1)
    step = 1.01 * np.diff(np.unique(wanted)).min()  # of its grid: means of pools are rounded otherwise
    assert np.abs(got - wanted).max() <= step


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_its_optimizer_of_transformers_writes_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    small_bert = importlib.import_module("small_bert")
    optimizer = importlib.import_module("onnxruntime.transformers.optimizer")
    fixed = importlib.import_module("onnxruntime.tools.onnx_model_utils").make_dim_param_fixed
    small_bert.write(tmp_path / "m.onnx")
    made = optimizer.optimize_model(str(tmp_path / "m.onnx"), "bert", small_bert.HEADS, small_bert.WIDTH, opt_level=0)
    fused = {f"com.microsoft.{name}" for name in ("Attention", "BiasGelu", "EmbedLayerNormalization")}
    assert domains(made.model) >= fused | {"com.microsoft.SkipLayerNormalization"}
    for axis, size in (("batch", 1), ("steps", small_bert.STEPS)):
        fixed(made.model.graph, axis, size)
    rng = np.random.default_rng(3)
    given = {"ids": rng.integers(0, small_bert.WORDS, (1, 8)), "kinds": rng.integers(0, 2, (1, 8))}
    given["mask"] = np.array([[1, 1, 1, 1, 1, 0, 0, 0]])
    session = onnxruntime.InferenceSession(made.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, given)
    graph = model_of(made.model, Path("m"), "").graph
    x = np.concatenate([array.reshape(1, -1) for array in given.values()], axis=1).astype(np.float32)
    np.testing.assert_allclose(evaluate(graph, x).reshape(wanted.shape), wanted, atol=1e-5)
