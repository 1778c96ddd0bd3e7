"""The snippets of docs/exporters.md, run as they stand; what they export is read and means the same."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from dsl_models import through_dsl
from hil_command import hil
from onnx import helper
from onnx_models import compiled, floats, model, onnxruntime_outputs

from tinyhil.errors import ModelError
from tinyhil.frontend.listing import Model
from tinyhil.frontend.load import load_model
from tinyhil.frontend.onnx import model_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

PAGE = Path(__file__).resolve().parent.parent / "docs" / "exporters.md"
SNIPPETS = re.findall(r"<!-- needs: (.*?) -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
HEADS = ["torch dynamo", "torch script", "keras", "scikit-learn"]


def missing(names: str) -> list[str]:
    return [name for name in names.split() if importlib.util.find_spec(name) is None]


def run_script(text: str, folder: Path, needs: str) -> None:
    absent = missing(needs)
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")
    (folder / "snippet.py").write_text(text)
    done = subprocess.run([sys.executable, "snippet.py"], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]


def scores(path: Path, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """onnxruntime's last output, which is the scores where there are labels too, of each sample."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    results = [session.run(None, {name: row.reshape(shape)})[-1] for row in x]
    rows = [list(result[0].values()) if isinstance(result, list) else result for result in results]  # ZipMap's
    return np.stack([np.asarray(row, np.float32).reshape(-1) for row in rows])


def check(loaded: Model, path: Path, x: np.ndarray) -> None:
    """Floats as onnxruntime, integers near them, the same after a round trip through the DSL."""
    wanted = scores(path, x, loaded.graph.shapes[loaded.graph.inputs[0]])
    found = evaluate(loaded.graph, x).reshape(len(x), -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    program = compiled(loaded.graph, x)
    run = run_reference(program, quantize_inputs(program, x)[0])
    error = np.abs(dequantize_outputs(program, run.outputs) - wanted).max()
    assert error < 0.02 * max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_array_equal(evaluate(through_dsl(loaded, path.parent).graph, x).reshape(len(x), -1), found)


def test_the_page_has_all_of_them() -> None:
    assert len(SNIPPETS) == len(HEADS)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(HEADS)), ids=HEADS)
def test_snippets(number: int, tmp_path: Path) -> None:
    needs, text = SNIPPETS[number]
    run_script(text, tmp_path, needs)
    check(load_model(tmp_path / "model.onnx"), tmp_path / "model.onnx", np.load(tmp_path / "test.npz")["x"][:20])


@pytest.mark.slow
def test_the_command_on_an_exported_model(tmp_path: Path) -> None:
    needs, text = SNIPPETS[-1]
    run_script(text, tmp_path, needs)
    done = hil(
        "run", "--board", "host", "--model", tmp_path / "model.onnx", "--inputs", tmp_path / "test.npz", "--json",
        "--results", tmp_path / "results", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["bit_exact"]
    assert record["samples"] == 597
    assert abs(record["accuracy"] - record["float_accuracy"]) < 0.01
    assert "output 'output_label' is left out" in done.stderr
    assert "calibrating on the first 298 of 597 inputs" in done.stderr


RECURRENT = """
import numpy as np
import torch
from torch import nn

torch.manual_seed(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.{kind}(5, 8, batch_first=True{more})
        self.classes = nn.LazyLinear(3)

    def forward(self, x):
        states, _ = self.rnn(x)
        return self.classes(states[:, -1])


x = torch.rand(20, 7, 5)
net = Net().eval()
net(x)
torch.onnx.export(net, (x[:1],), "model.onnx", {options})
np.savez("test.npz", x=x.numpy())
"""
OLD, NEW = "dynamo=False, opset_version=17", "dynamo=True, external_data=True"


@pytest.mark.slow
@pytest.mark.parametrize("options", [OLD, NEW], ids=["old", "new"])
@pytest.mark.parametrize(("kind", "more"), [("GRU", ""), ("RNN", ""), ("LSTM", ", bidirectional=True")])
def test_recurrent_layers_of_pytorch(kind: str, more: str, options: str, tmp_path: Path) -> None:
    run_script(RECURRENT.format(kind=kind, more=more, options=options), tmp_path, "torch onnxscript")
    check(load_model(tmp_path / "model.onnx"), tmp_path / "model.onnx", np.load(tmp_path / "test.npz")["x"])


ESTIMATORS = {
    "logistic": ("LogisticRegression(max_iter=500)", "y"),
    "logistic of two": ("LogisticRegression(max_iter=500)", "y > 4"),
    "ridge classifier": ("RidgeClassifier()", "y"),
    "support vectors": ("LinearSVC()", "y"),
    "normalizer": ("make_pipeline(Normalizer(), LogisticRegression(max_iter=500))", "y"),
    "scaler": ("make_pipeline(MinMaxScaler(), LogisticRegression(max_iter=500))", "y"),
    "linear": ("LinearRegression()", "y.astype(float)"),
    "tree": ("DecisionTreeClassifier(max_depth=8, random_state=0)", "y"),
    "forest": ("RandomForestClassifier(6, max_depth=6, random_state=0)", "y"),
    "tree of two": ("DecisionTreeClassifier(max_depth=4, random_state=0)", "(y > 4).astype(int)"),
    "regression tree": ("DecisionTreeRegressor(max_depth=6, random_state=0)", "y.astype(float)"),
    "regression forest": ("RandomForestRegressor(4, max_depth=4, random_state=0)", "y.astype(float)"),
    "boosted": ("GradientBoostingRegressor(n_estimators=5, random_state=0)", "y.astype(float)"),
    "perceptron": ("MLPRegressor(hidden_layer_sizes=(8,), max_iter=50, random_state=0)", "y.astype(float)"),
}
FIT = """
import warnings

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer
from sklearn.svm import LinearSVC
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

warnings.simplefilter("ignore")
x, y = load_digits(return_X_y=True)
x = x.astype(np.float32) / 16
model = {estimator}.fit(x, {target})
open("model.onnx", "wb").write(to_onnx(model, x[:1]).SerializeToString())
np.savez("test.npz", x=x[:40])
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name: str, tmp_path: Path) -> None:
    estimator, target = ESTIMATORS[name]
    text = FIT.format(estimator=estimator, target=target)
    run_script(text, tmp_path, "sklearn skl2onnx")
    check(load_model(tmp_path / "model.onnx"), tmp_path / "model.onnx", np.load(tmp_path / "test.npz")["x"])


# ---- what these exporters write, without them


def classical(*nodes: onnx.NodeProto, output: str = "y", inputs: int = 3, outputs: int = 2) -> onnx.ModelProto:
    main = helper.make_graph(list(nodes), "g", [floats("x", (1, inputs))], [floats(output, (1, outputs))])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(main, opset_imports=opsets, ir_version=8)


def learned(op: str, inputs: list[str], results: list[str], **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, results, name=op, domain="ai.onnx.ml", **attrs)


LINEAR = {"coefficients": [0.5, -1.0, 0.25, 1.0, 0.75, -0.5], "intercepts": [0.1, -0.2], "classlabels_ints": [0, 1]}
PLAIN = {
    "scores": classical(learned("LinearClassifier", ["x"], ["l", "y"], **LINEAR)),
    "softmax": classical(learned("LinearClassifier", ["x"], ["l", "y"], post_transform="SOFTMAX", **LINEAR)),
    "logistic": classical(learned("LinearClassifier", ["x"], ["l", "y"], post_transform="LOGISTIC", **LINEAR)),
    "normalized": classical(
        learned("LinearClassifier", ["x"], ["l", "s"], post_transform="LOGISTIC", **LINEAR),
        learned("Normalizer", ["s"], ["y"], norm="L1"),
    ),
    "regression": classical(
        learned("LinearRegressor", ["x"], ["y"], coefficients=LINEAR["coefficients"], intercepts=[1.0, 2.0], targets=2)
    ),
    "scaled": classical(learned("Scaler", ["x"], ["y"], offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, 1.0]), outputs=3),
    "unit length": classical(learned("Normalizer", ["x"], ["y"], norm="L2"), outputs=3),
    "largest is one": classical(learned("Normalizer", ["x"], ["y"], norm="MAX"), outputs=3),
}


@pytest.mark.parametrize("name", PLAIN)
def test_operators_of_scikit_learn(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(PLAIN[name].SerializeToString())
    x = (np.random.default_rng(2).random((10, 1, 3)) + 0.1).astype(np.float32)
    check(load_model(tmp_path / "m.onnx"), tmp_path / "m.onnx", x)


def trees(**change: object) -> onnx.ModelProto:
    """Two trees over three features: one of two levels, one that is a leaf."""
    attrs: dict[str, object] = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0],
        "nodes_featureids": [2, 0, 0, 0, 0, 0],
        "nodes_values": [0.6, 0.4, 0.0, 0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 2, 0, 0, 0, 0],
        "nodes_falsenodeids": [4, 3, 0, 0, 0, 0],
        "class_treeids": [0, 0, 0, 1, 1],
        "class_nodeids": [2, 3, 4, 0, 0],
        "class_ids": [0, 1, 0, 0, 1],
        "class_weights": [1.0, 1.0, 0.25, 0.5, -0.125],
        "classlabels_int64s": [0, 1],
        **change,
    }
    return classical(learned("TreeEnsembleClassifier", ["x"], ["l", "y"], **attrs))


PLAIN["trees"] = trees()
PLAIN["trees, second class alone"] = trees(class_ids=[1] * 5)
PLAIN["trees, one class of two"] = trees(class_ids=[0] * 5, class_weights=[0.5, 0.25, 0.0, 0.25, 0.125])
PLAIN["trees, softmax"] = trees(post_transform="SOFTMAX")


@pytest.mark.parametrize("standard", [(), (("", 0),), (("", 1),), (("ai.onnx", 1),), (("", 9),)], ids=str)
def test_xgboost_s_trees_run_whatever_opset_of_the_standard_operators_they_import(
    standard: tuple[tuple[str, int], ...], tmp_path: Path
) -> None:
    """onnxmltools imports ai.onnx.ml 1 alone for them, which once was "opset 0 is older than 13"."""
    proto = trees(post_transform="SOFTMAX")
    del proto.opset_import[:]
    proto.opset_import.extend(helper.make_opsetid(*each) for each in (*standard, ("ai.onnx.ml", 1)))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    x = (np.random.default_rng(2).random((10, 1, 3)) + 0.1).astype(np.float32)
    check(load_model(tmp_path / "m.onnx"), tmp_path / "m.onnx", x)


def test_trees_walk_one_path_in_loops() -> None:
    """Two loops whatever the number of trees, and tables that stay in flash."""
    graph = model_of(trees(), Path("m.onnx"), "").graph
    assert [node.op for node in graph.walk() if node.body is not None] == ["Scan", "Repeat"]
    assert sum(node.op == "GatherAt" for node in graph.walk()) == 6


REFUSED = {
    "a tree that never ends": (trees(nodes_truenodeids=[1, 0, 0, 0, 0, 0]), "its attributes make no sense"),
    "a branch to nowhere": (trees(nodes_falsenodeids=[9, 3, 0, 0, 0, 0]), "its attributes make no sense"),
    "another condition": (
        trees(nodes_modes=["BRANCH_GT", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "LEAF"]),
        "conditions BRANCH_GT, BRANCH_LEQ; all <= or all < is supported",
    ),
    "trees of unequal lists": (trees(nodes_modes=["LEAF"]), "its attributes make no sense"),
    "one class of two": (
        trees(class_ids=[0] * 5),
        "scores of one class of two that are no probabilities",
    ),
    "probit": (
        classical(learned("LinearClassifier", ["x"], ["l", "y"], post_transform="PROBIT", **LINEAR)),
        "post_transform PROBIT is not supported",
    ),
    "one score for two": (
        classical(learned("LinearClassifier", ["x"], ["l", "y"], **{**LINEAR, "intercepts": [0.1]}), outputs=1),
        "1 scores for 2 classes",
    ),
    "another": (
        classical(learned("FeatureVectorizer", ["x"], ["y"], inputdimensions=[3])),
        "operator ai.onnx.ml.FeatureVectorizer is not supported; of ai.onnx.ml there are ArrayFeatureExtractor",
    ),
    "coefficients": (
        classical(learned("LinearRegressor", ["x"], ["y"], coefficients=[1.0] * 5, targets=2)),
        "its attributes make no sense",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, tmp_path: Path) -> None:
    proto, message = REFUSED[name]
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match=message):
        load_model(tmp_path / "m.onnx")


# ---- weights beside the model


def beside(folder: Path, **change: str) -> Path:
    """A model whose weights are in `weights.bin`."""
    w = np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32)
    main = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [floats("x", (1, 4))], [floats("y", (1, 2))],
        [onnx.numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    proto = model(main)
    (folder / "weights.bin").write_bytes(b"12345678" + proto.graph.initializer[0].raw_data)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "weights.bin", "offset": "8", "length": "32", **change}.items():
        tensor.external_data.add(key=key, value=value)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    path = beside(tmp_path)
    x = np.random.default_rng(2).random((5, 1, 4)).astype(np.float32)
    check(load_model(path), path, x)
    before = load_model(path).sha256
    (tmp_path / "weights.bin").write_bytes(b"12345678" + bytes(32))
    assert load_model(path).sha256 != before
    whole = onnx.load(path)
    np.testing.assert_allclose(evaluate(load_model(path).graph, x)[:, 0], onnxruntime_outputs(whole, x), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"location": "../weights.bin"}, "not in the folder of the model"),
        ({"location": "/etc/hostname"}, "not in the folder of the model"),
        ({"location": ""}, "not in the folder of the model"),
        ({"location": "link.bin"}, "not in the folder of the model"),
        ({"location": "none.bin"}, "in another file, 'none.bin', which is missing; put it beside the model"),
        ({"offset": "16"}, "bytes 16 to 48 of 40; one of the files is damaged"),
        ({"offset": "-8"}, "bytes -8 to 24 of 40"),
        ({"length": "many"}, "its place there makes no sense"),
        ({"length": "16"}, "weights 'w' can not be read|not a valid ONNX model"),
    ],
)
def test_weights_that_are_not_there(change: dict[str, str], message: str, tmp_path: Path) -> None:
    (tmp_path / "link.bin").symlink_to("/etc/hostname")
    with pytest.raises(ModelError, match=message) as caught:
        load_model(beside(tmp_path, **change))
    assert "\n" not in str(caught.value)
