"""What depends on constants alone is folded whatever the operator, what is old is brought up, offsets join layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import graph, load, model, node, onnxruntime_outputs, samples_for

from tinyhil.errors import ModelError
from tinyhil.frontend.onnx import load_onnx
from tinyhil.references.evaluate import evaluate

A = np.arange(6).reshape(2, 3) - 2.3
FOLDED: dict[str, tuple[Sequence[onnx.NodeProto], dict[str, Any]]] = {
    "mod": ([node("Mod", "i j", "c")], {"i": np.arange(6) - 3, "j": np.array(4)}),
    "product": ([node("ReduceProd", "a", "c", axes=[1])], {"a": A}),
    "hardmax": ([node("Hardmax", "a", "c")], {"a": A}),
    "lower triangle": ([node("Trilu", "a", "c", upper=0)], {"a": A}),
    "one hot": ([node("OneHot", "i d v", "c")], {"i": np.array([0, 2]), "d": np.array(3), "v": [0.0, 2.0]}),
    "not zero": ([node("NonZero", "i", "c")], {"i": np.array([[0, 2, 1]])}),
    "scattered": ([node("ScatterND", "a i u", "c")], {"a": A, "i": np.array([[1]]), "u": np.ones((1, 3))}),
    "determinant": ([node("Det", "a", "c")], {"a": A[:, :2]}),
    "angle": ([node("Atan", "a", "c")], {"a": A}),
    "of several": ([node("Asinh", "a", "b"), node("Cosh", "b", "d"), node("IsNaN", "d", "c")], {"a": A}),
    "gathered": ([node("GatherElements", "a i", "c", axis=1)], {"a": A, "i": np.array([[0, 2], [1, 1]])}),
    "softsign": ([node("Softsign", "a", "c")], {"a": A}),
}


def sums(nodes: Sequence[onnx.NodeProto], constants: dict[str, Any], opset: int = 17) -> onnx.ModelProto:
    """The sum of what `nodes` make of constants is added to x."""
    tail = [
        node("Cast", "c", "f", to=TensorProto.FLOAT),
        node("ReduceSum", "f", "s", keepdims=0),
        node("Add", "x s", "y"),
    ]
    return model(graph([*nodes, *tail], {"x": (1, 3)}, "y", constants), opset)


@pytest.mark.parametrize("name", FOLDED)
def test_constants_fold_as_in_onnxruntime(name: str, tmp_path: Path) -> None:
    proto, x = sums(*FOLDED[name]), samples_for((1, 3), 2)
    loaded = load(proto, tmp_path)
    assert [item.op for item in loaded.nodes] == ["Add"]
    np.testing.assert_allclose(evaluate(loaded, x).reshape(2, -1), onnxruntime_outputs(proto, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([node("Tile", "a r", "c")], {"a": A, "r": np.array([1 << 30, 1 << 30])}),
        ([node("EyeLike", "a", "b"), node("Tile", "b r", "c")], {"a": A, "r": np.array([1 << 20, 1 << 20])}),
        ([node("HannWindow", "n", "c")], {"n": np.array(1 << 40)}),
        ([node("RandomNormalLike", "a", "c")], {"a": A}),
    ],
    ids=["tile", "of several", "window", "random"],
)
def test_what_is_huge_or_random_is_refused(nodes: Any, constants: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"node '.*'( \(|: operator)"):
        load(sums(nodes, constants), tmp_path)


# ---- old opsets

OLD: dict[str, tuple[Sequence[onnx.NodeProto], dict[str, Any], int]] = {
    "softmax of all that follows": ([node("Softmax", "x", "y", axis=1)], {}, 11),
    "axes as attributes": ([node("ReduceSum", "x", "s", axes=[2]), node("Unsqueeze", "s", "y", axes=[0])], {}, 9),
    "ends as attributes": ([node("Clip", "x", "y", min=-0.5, max=0.5)], {}, 6),
    "pads as attributes": ([node("Pad", "x", "y", pads=[0, 0, 1, 0, 0, 1])], {}, 10),
    "batch normalization": (
        [node("BatchNormalization", "x s b m v", "y")],
        {"s": [1.0, 2.0], "b": [0.5, 0.0], "m": [0.1, 0.2], "v": [1.0, 0.5]},
        8,
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_old_opsets_are_brought_up_and_said(name: str, tmp_path: Path) -> None:
    nodes, constants, opset = OLD[name]
    proto, x = model(graph(nodes, {"x": (1, 2, 4)}, "y", constants), opset), samples_for((1, 2, 4), 3)
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    loaded = load_onnx(tmp_path / "m.onnx")
    assert loaded.notes == (f"opset {opset} is brought up to 13 by onnx's version converter",)
    found = evaluate(loaded.graph, x).reshape(3, -1)
    np.testing.assert_allclose(found, onnxruntime_outputs(proto, x), rtol=1e-5, atol=1e-6)


def test_standard_operators_without_an_opset_are_refused(tmp_path: Path) -> None:
    main = graph([node("Relu", "x", "y")], {"x": (1, 2)}, {"y": (1, 2)})
    proto = helper.make_model(main, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)
    with pytest.raises(ModelError, match=r"imports no opset|not a valid ONNX model"):
        load(proto, tmp_path)


# ---- offsets

CONV = node("Conv", "x w", "c", pads=[1, 1, 1, 1])
WEIGHTS = samples_for((3, 2, 3, 3), 1)[0]
OFFSETS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], list[str]]] = {
    "per channel": ([CONV, node("Add", "c o", "y")], {"o": np.ones((3, 1, 1))}, ["Conv"]),
    "from the left": ([CONV, node("Add", "o c", "y")], {"o": np.arange(3.0).reshape(1, 3, 1, 1)}, ["Conv"]),
    "one for all": ([CONV, node("Sub", "c o", "y")], {"o": 0.5}, ["Conv"]),
    "twice": ([CONV, node("Add", "c o", "d"), node("Sub", "d o", "y")], {"o": np.ones((3, 1, 1))}, ["Conv"]),
    "per column": ([CONV, node("Add", "c o", "y")], {"o": np.ones(4)}, ["Conv", "Add"]),
    "from a constant": ([CONV, node("Sub", "o c", "y")], {"o": np.ones((3, 1, 1))}, ["Conv", "Sub"]),
    "read twice": ([CONV, node("Add", "c o", "d"), node("Mul", "c d", "y")], {"o": 0.5}, ["Conv", "Add", "Mul"]),
}


@pytest.mark.parametrize("name", OFFSETS)
def test_offsets_of_channels_become_the_bias(name: str, tmp_path: Path) -> None:
    nodes, constants, ops = OFFSETS[name]
    proto = model(graph(nodes, {"x": (1, 2, 4, 4)}, "y", {"w": WEIGHTS, **constants}))
    loaded, x = load(proto, tmp_path), samples_for((1, 2, 4, 4), 3)
    assert [item.op for item in loaded.nodes] == ops
    found = evaluate(loaded, x).reshape(3, -1)
    np.testing.assert_allclose(found, onnxruntime_outputs(proto, x), rtol=1e-4, atol=1e-5)
