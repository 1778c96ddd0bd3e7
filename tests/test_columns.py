"""Raw features of very different ranges at 8 bits: each column of the input gets a scale of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hil_command import hil
from onnx_models import load, node, simple

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate, load_ranges, save_ranges
from tinyhil.compiler.columns import REACH
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.formats import named
from tinyhil.frontend.load import load_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, walk
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

sklearn = pytest.importorskip("sklearn", reason="scikit-learn is not installed")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")

from sklearn import datasets, ensemble, linear_model, neural_network, pipeline, preprocessing, tree  # noqa: E402
from sklearn.model_selection import train_test_split  # noqa: E402

SETS = {"wine": datasets.load_wine, "cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
MODELS: dict[str, Any] = {
    "tree": tree.DecisionTreeClassifier(random_state=0),
    "forest": ensemble.RandomForestClassifier(20, random_state=0),
    "extra": ensemble.ExtraTreesClassifier(20, random_state=0),
    "boosted": ensemble.GradientBoostingClassifier(n_estimators=10, max_depth=3, random_state=0),
    "minmax": pipeline.make_pipeline(preprocessing.MinMaxScaler(), linear_model.LogisticRegression(max_iter=300)),
    "standard": pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=300)),
    "raw": linear_model.LogisticRegression(max_iter=300),
    "scaled tree": pipeline.make_pipeline(preprocessing.StandardScaler(), tree.DecisionTreeClassifier(random_state=0)),
    "network": pipeline.make_pipeline(
        preprocessing.StandardScaler(), neural_network.MLPClassifier((16,), max_iter=200, random_state=0)
    ),
}
POINT = 0.01
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@cache
def data(name: str) -> tuple[np.ndarray, ...]:
    """Training and test points, labels."""
    x, y = SETS[name](return_X_y=True)
    return tuple(train_test_split(x.astype(np.float32), y, test_size=0.5, random_state=0))


def fitted(kind: str, name: str, folder: Path) -> Graph:
    x, _, y, _ = data(name)
    model = sklearn.base.clone(MODELS[kind]).fit(x, y)
    options = {type(model.steps[-1][1] if hasattr(model, "steps") else model): {"zipmap": False}}
    proto = skl2onnx.to_onnx(model, x[:1], options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return load_model(folder / "m.onnx").graph


def labels(program: Program, x: np.ndarray) -> np.ndarray:
    run = run_reference(program, quantize_inputs(program, x)[0])
    return dequantize_outputs(program, run.outputs).argmax(1)


TREES = ("tree", "forest")
CASES = [(kind, name) for kind in MODELS for name in SETS if name != "digits" or kind in TREES]
CASES.remove(("boosted", "cancer"))  # scores of one class of two are refused


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_raw_features_keep_their_decisions_at_8_bits(kind: str, name: str, tmp_path: Path) -> None:
    """Accuracy within a point of float, or a test point of a small set, on points the model was not fitted to."""
    g = fitted(kind, name, tmp_path)
    x, points, _, y = data(name)
    ranges = calibrate(g, np.concatenate([x, points]), {})
    wanted = (evaluate(g, points).reshape(len(points), -1).argmax(1) == y).mean()
    for fmt in ("fixed8", "fixed8pc", "int8"):
        found = (labels(lower(g, Assignment(fmt), ranges), points) == y).mean()
        assert found >= wanted - max(POINT, 1.01 / len(y)), fmt


def kernels(program: Program) -> list[str]:
    return [name_of(op.kernel) for op in walk(program.body)]


def test_a_scaler_is_left_to_the_host(tmp_path: Path) -> None:
    g = fitted("minmax", "wine", tmp_path)
    x = data("wine")[0]
    program = lower(g, Assignment("fixed8"), calibrate(g, x, {}))
    assert kernels(program) == ["dense_bias", "softmax"]
    low, high = x.min(axis=0), x.max(axis=0)
    assert program.columns is not None
    np.testing.assert_allclose(program.columns.applied(low), np.zeros(13), atol=1e-6)
    np.testing.assert_allclose(program.columns.applied(high), np.ones(13), rtol=1e-5)


@pytest.mark.parametrize(
    ("fmt", "wanted"),
    [
        ("int8", ["dense_affine_clip", "dense_affine", "softmax_affine"]),
        ("fixed8", ["dense_bias_relu", "dense_bias", "softmax"]),
    ],
)
def test_a_classifier_is_its_layers(fmt: str, wanted: list[str], tmp_path: Path) -> None:
    """Exporters write biases as sums apart and shares as Softmax, whose exponentials are integers in int8, too."""
    g = fitted("network", "digits", tmp_path)
    program = lower(g, Assignment(fmt), calibrate(g, data("digits")[0], {}))
    assert [name for name in kernels(program) if not name.startswith("convert")] == wanted
    shares = program.tensors[program.output].format
    assert fmt == "fixed8" or shares.grid == (1 / 256, -128.0)


def test_a_product_whose_format_the_model_states_stays_one(tmp_path: Path) -> None:
    """Its bias is added to what is rounded as the model says."""
    g = fitted("network", "digits", tmp_path)
    first = next(node for node in g.nodes if node.op == "MatMul")
    ranges = calibrate(g, data("digits")[0], {})
    for pinned, sums in (({}, 0), ({first.outputs[0]: named("int8").fit(1.0)}, 1)):
        program = lower(replace(g, pinned=pinned), Assignment("int8"), ranges)
        assert sum(name.startswith("sum_affine") for name in kernels(program)) == sums


def test_beyond_the_thresholds_nothing_is_lost(tmp_path: Path) -> None:
    """Features far outside of everything seen go the way their side of the threshold says, and are no saturation."""
    g = fitted("tree", "wine", tmp_path)
    x = data("wine")[0]
    program = lower(g, Assignment("fixed8"), calibrate(g, x, {}))
    far = np.concatenate([x * 1000, -x * 1000])
    assert quantize_inputs(program, far)[1] == 0
    assert np.array_equal(labels(program, far), evaluate(g, far).reshape(len(far), -1).argmax(1))


def wide_columns(*shape: int) -> np.ndarray:
    scales = np.array([1e-3, 1.0, 5e3], np.float32)
    return np.random.default_rng(0).normal(size=(50, *shape, 3)).astype(np.float32) * scales


WEIGHTS = np.array([[3e2, -0.4], [0.3, 0.2], [1e-4, 2e-4]], np.float32)
LINEAR = [node("MatMul", "x w", "a"), node("Tanh", "a", "y")]


def close(g: Graph, x: np.ndarray, **exceptions: str) -> Program:
    """Lowered with 8 bits; its results are near those of floats."""
    program = lower(g, Assignment("fixed8", exceptions), calibrate(g, x, {}))
    found = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
    assert np.abs(found - evaluate(g, x).reshape(found.shape)).max() < 0.05
    return program


def test_a_layer_takes_the_columns_into_its_weights(tmp_path: Path) -> None:
    program = close(load(simple(LINEAR, {"x": (1, 3)}, {"w": WEIGHTS}), tmp_path), wide_columns(1))
    assert program.columns is not None
    x = wide_columns(1).reshape(50, 3)
    assert np.abs(program.columns.applied(np.stack([x.min(axis=0), x.max(axis=0)]))).max() <= REACH + 1e-6


def test_an_assignment_may_name_what_is_left_out(tmp_path: Path) -> None:
    nodes = [node("Sub", "x o", "c"), node("Mul", "c s", "n"), node("MatMul", "n w", "a"), node("Tanh", "a", "y")]
    constants = {"o": wide_columns(1)[:10].mean(axis=(0, 1)), "s": 1 / wide_columns(1).std(axis=(0, 1))}
    constants["w"] = np.random.default_rng(1).normal(size=(3, 2)) * 0.5
    g = load(simple(nodes, {"x": (1, 3)}, constants), tmp_path)
    program = close(g, wide_columns(1), c="fixed16", n="fixed12")
    assert program.tensors[program.input].format.bits == 8
    assert kernels(program) == ["dense_bias", "tanh"] or kernels(program) == ["dense", "tanh"]


@pytest.mark.parametrize("fmt", ["float32", "bfloat16", "posit16es1"])
def test_floats_are_given_what_the_model_says(fmt: str, tmp_path: Path) -> None:
    g = load(simple(LINEAR, {"x": (1, 3)}, {"w": WEIGHTS}), tmp_path)
    assert lower(g, Assignment(fmt), calibrate(g, wide_columns(1), {})).columns is None


def test_what_reads_the_input_otherwise_keeps_one_scale(tmp_path: Path) -> None:
    """A second reader, a sequence, even columns, a result."""
    constants = {"w": WEIGHTS, "ones": np.ones((3, 2), np.float32), "same": np.full(3, 0.5, np.float32)}
    others = {
        "second reader": (
            [*LINEAR[:1], node("Softmax", "x", "b"), node("MatMul", "b ones", "c"), node("Add", "a c", "y")],
            1,
        ),
        "rows": (LINEAR, 4),
        "scaler of one number": ([node("Mul", "x same", "m"), node("Sigmoid", "m", "y")], 1),
    }
    for nodes, rows in others.values():
        g = load(simple(nodes, {"x": (rows, 3)}, constants), tmp_path)
        assert lower(g, Assignment("fixed8"), calibrate(g, wide_columns(rows), {})).columns is None
    g = load(simple(LINEAR, {"x": (1, 3)}, constants), tmp_path)
    even = np.random.default_rng(0).normal(size=(50, 1, 3)).astype(np.float32)
    assert lower(g, Assignment("fixed8"), calibrate(g, even, {})).columns is None


def test_ranges_keep_the_columns(tmp_path: Path) -> None:
    g = load(simple(LINEAR, {"x": (1, 3)}, {"w": WEIGHTS}), tmp_path)
    ranges = calibrate(g, wide_columns(1), {"name": "test"})
    save_ranges(tmp_path / "ranges.json", ranges, "hash")
    assert load_ranges(tmp_path / "ranges.json", "hash") == ranges
    text = (tmp_path / "ranges.json").read_text()
    for wrong in ('"x": [[1], [0]]', '"x": 3', '"x": [["a"], ["b"]]', '"x": [[NaN], [NaN]]'):
        (tmp_path / "wrong.json").write_text(text[: text.index('"columns"')] + f'"columns": {{{wrong}}}}}')
        with pytest.raises(ModelError, match="ranges"):
            load_ranges(tmp_path / "wrong.json", "hash")


def test_on_the_command_line(tmp_path: Path) -> None:
    """The record of a run on this computer says how it went, bit for bit."""
    fitted("forest", "wine", tmp_path)
    x, points, _, y = data("wine")
    np.savez(tmp_path / "train.npz", x=x)
    np.savez(tmp_path / "test.npz", x=points, y=y)
    args = ["run", "--board", "host", "--model", "m.onnx", "--format", "fixed8"]
    done = hil(*args, "--inputs", "test.npz", "--calibrate", "train.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "bit-exact      yes" in done.stdout
    assert "DEGRADED" not in done.stdout
    accuracy, floats = (
        float(part.split()[0]) for part in re.findall(r"accuracy +(\S+ %), float (\S+ %)", done.stdout)[0]
    )
    assert accuracy >= floats - 1.2
