"""Sequences of variable length: what lies behind the length that an input gives changes no bit of the result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from kernel_cases import Case, expected, first_difference, run_natively
from onnx import TensorProto, helper
from onnx_models import floats, load, node, tensors

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.language.assignment import Assignment
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs

STEPS, WIDTH, CLASSES = 20, 8, 5
TYPES = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64}
MOST_ERROR = {"int8": 0.08, "fixed8": 0.12, "fixed16": 0.002}  # of the largest score


def masked_attention(kind: str = "float") -> onnx.ModelProto:
    """Attention over the first `length` rows of x, the mean of these rows' results, scores. Places are compared with
    whole numbers as they are; with floats half a step off, so that a length that is rounded to the input's format means
    the same."""
    draws = np.random.default_rng(0)
    constants = {name: draws.normal(size=(WIDTH, WIDTH)) * WIDTH**-0.5 for name in ("q", "k", "v")}
    constants |= {"head": draws.normal(size=(WIDTH, CLASSES)), "places": np.arange(STEPS).reshape(1, STEPS) + 0.5}
    if kind == "int64":
        constants["places"] = np.arange(STEPS).reshape(1, STEPS)
    constants |= {"far": np.float32(-50.0), "nought": np.float32(0), "ends": np.array([1])}
    nodes = [
        node("Less", "places length", "inside"),  # [1, STEPS]
        node("MatMul", "x q", "xq"),
        node("MatMul", "x k", "xk"),
        node("MatMul", "x v", "xv"),
        node("Transpose", "xk", "kt", perm=[0, 2, 1]),
        node("MatMul", "xq kt", "scores"),
        node("Where", "inside scores far", "seen"),
        node("Softmax", "seen", "shares", axis=-1),
        node("MatMul", "shares xv", "mixed"),
        node("Cast", "inside", "ones", to=1),
        node("ReduceSum", "ones ends", "count", keepdims=1),
        node("Div", "ones count", "weights"),
        node("MatMul", "weights mixed", "mean"),
        node("MatMul", "mean head", "y"),
    ]
    graph = helper.make_graph(
        nodes,
        "masked",
        [floats("x", (1, STEPS, WIDTH)), helper.make_tensor_value_info("length", TYPES[kind], (1, 1))],
        [floats("y", (1, 1, CLASSES))],
        tensors(constants),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def sample(draws: np.random.Generator, x: np.ndarray, length: int) -> np.ndarray:
    """x with other rows behind the length, and the length, as one record."""
    rows = x.copy()
    rows[length:] = draws.normal(size=rows[length:].shape)
    return np.append(rows.reshape(-1), length).astype(np.float32)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("fmt", ["int8", "fixed8", "fixed16"])
def test_what_lies_behind_the_length_changes_nothing(fmt: str, kind: str, tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    graph = load(masked_attention(kind), tmp_path)
    seen = np.stack([sample(draws, draws.normal(size=(STEPS, WIDTH)), n % STEPS + 1) for n in range(40)])
    program = lower(graph, Assignment(fmt), calibrate(graph, seen, {}))
    lengths = (1, 7, 13, STEPS)
    x = draws.normal(size=(STEPS, WIDTH))
    tried = np.stack([sample(draws, x, length) for length in lengths for _ in range(4)])
    made = Case(fmt, program, quantize_inputs(program, tried)[0])
    codes = expected([made]).outputs[0].reshape(len(lengths), 4, -1)
    assert (codes == codes[:, :1]).all()
    assert len({row.tobytes() for row in codes[:, 0]}) == len(lengths)
    wanted = evaluate(graph, tried).reshape(len(tried), -1)
    found = dequantize_outputs(program, expected([made]).outputs[0]).reshape(wanted.shape)
    assert np.abs(found - wanted).max() < MOST_ERROR[fmt] * np.abs(wanted).max()
    assert first_difference([made], run_natively([made], tmp_path)) == ""


@pytest.mark.parametrize("kind", TYPES)
def test_the_float_model_is_onnxruntime_s(kind: str, tmp_path: Path) -> None:
    draws, proto = np.random.default_rng(2), masked_attention(kind)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    graph = load(proto, tmp_path)
    for length in (1, 9, STEPS):
        record = sample(draws, draws.normal(size=(STEPS, WIDTH)), length)
        given = {"x": record[:-1].reshape(1, STEPS, WIDTH), "length": record[-1:].reshape(1, 1)}
        given["length"] = given["length"].astype(helper.tensor_dtype_to_np_dtype(TYPES[kind]))
        (wanted,) = session.run(None, given)
        np.testing.assert_allclose(evaluate(graph, record[None]).reshape(-1), wanted.reshape(-1), atol=1e-5)


def test_a_length_that_a_format_does_not_hold_is_refused(tmp_path: Path) -> None:
    draws, graph = np.random.default_rng(3), load(masked_attention("int64"), tmp_path)
    seen = np.stack([sample(draws, draws.normal(size=(STEPS, WIDTH)), n % STEPS + 1) for n in range(40)])
    with pytest.raises(ModelError, match=r"input 'length': .* does not hold the whole number 1 of 1 to 20"):
        lower(graph, Assignment("fixed5"), calibrate(graph, seen, {}))
