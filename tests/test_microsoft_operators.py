"""Operators of com.microsoft that onnxruntime's optimizer writes, against onnxruntime itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinyhil.errors import ModelError
from tinyhil.frontend.onnx import model_of
from tinyhil.references.evaluate import evaluate

RNG = np.random.default_rng(5)
BIAS, GAMMA, BETA = (RNG.normal(size=8).astype(np.float32) for _ in range(3))
SKIP, FACTOR = RNG.normal(size=(1, 6, 8)).astype(np.float32), RNG.normal(size=(1, 5, 8)).astype(np.float32)
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
}


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


def compared(proto: onnx.ModelProto) -> None:
    x = np.random.default_rng(6).normal(size=(3, 1, 6, 8)).astype(np.float32) * 2
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
