"""Models as scikit-learn's and XGBoost's users export them (tests/scikit_learn): outputs, labels and class names."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hil_command import hil
from kernel_cases import Case, first_difference, run_natively
from onnx_models import compiled

import tinyhil
from tinyhil.errors import ConfigError, DataError, ModelError
from tinyhil.frontend import onnx_outputs
from tinyhil.frontend.load import load_model
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference
from tinyhil.train.write import trained_onnx

FOLDER = Path(__file__).resolve().parent / "scikit_learn"
NAMES = sorted(path.stem for path in FOLDER.glob("*.onnx") if not path.stem.startswith("refused"))
X = np.load(FOLDER / "iris.npz")["x"]
IRIS = ("setosa", "versicolor", "virginica")
CLASSES = {"rf_odd": ("2", "5", "8")}
REGRESSORS = {"svr", "nusvr", "knnr", "xgbr"}
# of the largest output: scores that are near to each other, far from zero or coupled otherwise have larger errors
FLOAT_TOLERANCE = {"svc2_prob": 2e-3, "nusvr": 2e-3, "svc_poly": 5e-5}
INTEGER_TOLERANCE = {"gnb_str": 0.02, "gmm": 0.02, "nusvr": 0.08}


def wanted(name: str) -> tuple[np.ndarray, list[str]]:
    """(scores or values, labels) of onnxruntime."""
    session = onnxruntime.InferenceSession(str(FOLDER / f"{name}.onnx"), providers=["CPUExecutionProvider"])
    results = session.run(None, {session.get_inputs()[0].name: X})
    scores = results[-1]
    if isinstance(scores, list):  # ZipMap's
        scores = np.array([list(row.values()) for row in scores])
    return np.asarray(scores, np.float64).reshape(len(X), -1), [str(label) for label in np.ravel(results[0])]


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_onnxruntime(name: str) -> None:
    loaded = load_model(FOLDER / f"{name}.onnx")
    scores, labels = wanted(name)
    got = evaluate(loaded.graph, X[:, None]).reshape(len(X), -1)
    if name == "kmeans":
        assert loaded.notes == ("output 'scores' is left out: 'label' is where it is smallest",)
        scores = np.array([[float(label)] for label in labels])
    if name == "svc2":  # the sign that goes with the labels
        scores = -scores
    size = max(1.0, float(np.abs(scores).max()))
    assert np.abs(got - scores).max() < FLOAT_TOLERANCE.get(name, 1e-5) * size
    if name not in REGRESSORS and name != "oneclass":
        names = loaded.classes or tuple(str(number) for number in range(3))
        assert [names[index] for index in classes_of(loaded.graph, got)] == labels
    program = compiled(loaded.graph, X[:, None])
    run = run_reference(program, quantize_inputs(program, X[:, None])[0])
    assert np.abs(dequantize_outputs(program, run.outputs) - got).max() < INTEGER_TOLERANCE.get(name, 3e-3) * size


def test_class_names() -> None:
    for name in NAMES:
        expected = IRIS if name.endswith("_str") else CLASSES.get(name, ())
        assert load_model(FOLDER / f"{name}.onnx").classes == expected, name


def test_trees_of_several_samples_at_once_are_refused(tmp_path: Path) -> None:
    proto = onnx.load(FOLDER / "rf2.onnx")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="a batch of 2; export it with one sample"):
        load_model(tmp_path / "m.onnx")


REFUSED_FILES = {
    "refused_svc_prob": r"node 'SVMc': probabilities of 3 classes.*train with probability=False",
    "refused_svc_ovo": r"node 'SVMc': its scores are of pairs of classes.*train with decision_function_shape='ovr'",
}


@pytest.mark.parametrize("name", REFUSED_FILES)
def test_what_would_name_wrong_classes_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(ModelError, match=REFUSED_FILES[name]):
        load_model(FOLDER / f"{name}.onnx")


def test_labels_may_be_class_names(tmp_path: Path) -> None:
    y = np.load(FOLDER / "iris.npz")["y"]
    np.savez(tmp_path / "named.npz", x=X, y=np.array(IRIS)[y])
    np.savez(tmp_path / "odd.npz", x=X, y=y * 3 + 2)
    for model, inputs in (("rf_str", "named"), ("rf_odd", "odd")):
        done = hil(
            "run", "--board", "host", "--model", FOLDER / f"{model}.onnx", "--inputs", tmp_path / f"{inputs}.npz",
            "--results", tmp_path / "results", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "accuracy       96.67 %" in done.stdout or "accuracy       100.00 %" in done.stdout
    np.savez(tmp_path / "other.npz", x=X, y=np.array(("rosa", *IRIS[1:]))[y])
    done = hil(
        "run", "--board", "host", "--model", FOLDER / "rf_str.onnx", "--inputs", tmp_path / "other.npz", cwd=tmp_path
    )
    assert done.returncode == DataError.exit_code
    assert "label 'rosa' is none of the model's classes setosa, versicolor, virginica" in done.stderr


def test_names_in_another_order_are_no_other_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X)
    export = ("export", "cmake", FOLDER / "rf_str.onnx", "--calibrate", "x.npz", "--out", "x.zip", "--classes")
    swapped = hil(*export, "virginica,versicolor,setosa", cwd=tmp_path)
    assert swapped.returncode == ConfigError.exit_code
    assert "its outputs are setosa, versicolor, virginica; leave --classes out" in swapped.stderr
    for names in ("setosa, versicolor, virginica", "rot,grün,blau"):
        assert hil(*export, names, cwd=tmp_path).returncode == 0


def test_names_of_classes_stay_with_a_model(tmp_path: Path) -> None:
    """From Python as from a file, and in what is written of a model: trained or converted."""
    path, names = FOLDER / "gnb_str.onnx", np.array(IRIS)[np.load(FOLDER / "iris.npz")["y"]]
    record = tinyhil.load(path).calibrate(X).run("host", X, names, results=tmp_path / "results")
    assert record.accuracy > 0.9
    for y in (names.astype(object), np.unique(names, return_inverse=True)[1]):  # as pandas has them, and as places
        again = tinyhil.load(path).calibrate(X).run("host", X, y, results=tmp_path / "results")
        assert again.accuracy == record.accuracy
    np.savez(tmp_path / "named.npz", x=X, y=names)
    asked = ("--model", path, "--inputs", "named.npz", "--evaluations", "2", "--formats", "fixed8,fixed16", "--json")
    found = hil("search", "--board", "uno", *asked, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["accuracy"] > 0.9
    assert hil("convert", path, "converted.onnx", cwd=tmp_path).returncode == 0
    (tmp_path / "trained.onnx").write_bytes(trained_onnx(load_model(path), {}, "m"))
    for name in ("converted", "trained"):
        assert load_model(tmp_path / f"{name}.onnx").classes == IRIS
        damaged = onnx.load(tmp_path / f"{name}.onnx")
        for text in ("{", "3", "[1]", "[" * 9999):
            onnx.helper.set_model_props(damaged, {onnx_outputs.CLASSES: text})
            onnx.save(damaged, tmp_path / "damaged.onnx")
            with pytest.raises(ModelError, match="no list of names; take it out"):
                load_model(tmp_path / "damaged.onnx")


def test_the_kernels_equal_the_reference(tmp_path: Path) -> None:
    cases = []
    for name in NAMES:
        program = compiled(load_model(FOLDER / f"{name}.onnx").graph, X[:, None])
        cases.append(Case(name, program, quantize_inputs(program, X[::4, None])[0]))
    assert first_difference(cases, run_natively(cases, tmp_path)) == ""


def test_damaged_files_end_in_one_line(tmp_path: Path) -> None:
    rng, contents = random.Random(7), [(FOLDER / f"{name}.onnx").read_bytes() for name in NAMES]
    for _ in range(400):
        data = bytearray(rng.choice(contents))
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / "m.onnx").write_bytes(data)
        try:
            load_model(tmp_path / "m.onnx")
        except ModelError as error:
            said = str(error)
            assert len(said.splitlines()) == 1, said


RUN = {
    "SimpleImputer": ("sklearn.impute", {}),
    "KNNImputer": ("sklearn.impute", {}),
    "OneHotEncoder": ("sklearn.preprocessing", {"handle_unknown": "ignore", "sparse_output": False}),
    "OrdinalEncoder": ("sklearn.preprocessing", {}),
    "AdaBoostRegressor": ("sklearn.ensemble", {"n_estimators": 3}),
    "OneVsOneClassifier": ("sklearn.multiclass", None),
    "PowerTransformer": ("sklearn.preprocessing", {}),
    "QuantileTransformer": ("sklearn.preprocessing", {"n_quantiles": 20}),
}


def exported(name: str, folder: Path) -> tuple[Path, np.ndarray]:
    """A file of one estimator, before a LogisticRegression where it transforms, and inputs; the test is skipped
    without the converter."""
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    datasets = pytest.importorskip("sklearn.datasets")
    linear, pipeline = importlib.import_module("sklearn.linear_model"), importlib.import_module("sklearn.pipeline")
    module, options = RUN[name]
    kind = getattr(importlib.import_module(module), name)
    x, y = datasets.load_iris(return_X_y=True)
    x = np.round(x).astype(np.float32)
    one = kind(linear.LogisticRegression()) if options is None else kind(**options)
    model = pipeline.make_pipeline(one, linear.LogisticRegression()) if hasattr(one, "transform") else one
    (folder / "m.onnx").write_bytes(skl2onnx.to_onnx(model.fit(x, y), x[:1]).SerializeToString())
    return folder / "m.onnx", x


def row_of(name: str) -> str:
    page = (Path(__file__).resolve().parent.parent / "docs/exporters.md").read_text()
    (row,) = (line for line in page.splitlines() if f"`{name}`" in line and line.startswith("|"))
    return row


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RUN)
def test_what_the_page_says_runs_does(name: str, tmp_path: Path) -> None:
    path, x = exported(name, tmp_path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {session.get_inputs()[0].name: x})[-1]
    if isinstance(wanted, list):
        wanted = np.array([list(row.values()) for row in wanted])
    graph = load_model(path).graph
    got = evaluate(graph, x[:, None]).reshape(len(x), -1)
    np.testing.assert_allclose(got, np.asarray(wanted).reshape(got.shape), atol=1e-5)
    program = compiled(graph, x[:, None])
    run = run_reference(program, quantize_inputs(program, x[:, None])[0])
    np.testing.assert_allclose(dequantize_outputs(program, run.outputs), got, atol=1e-3)
    assert "| yes" in row_of(name)


@pytest.mark.filterwarnings("ignore")
def test_powers_of_both_signs_and_near_zero(tmp_path: Path) -> None:
    """Where (z**l - 1) / l is a small difference of large numbers, where l is 0 or 2, and at 0, which the file makes of
    NaN; the input has a name that could be one of its parts."""
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    processing = pytest.importorskip("sklearn.preprocessing")
    x = np.random.default_rng(0).normal(size=(200, 7)).astype(np.float32) * 2
    x[:9] = np.round(x[:9])
    model = processing.PowerTransformer(standardize=False).fit(x)
    for powers in ([0, 2, 1, 0.01, 1.99, -0.3, 2.4], [0.499, 0.501, 1.499, 1.501, -1, 3, 0.1]):
        model.lambdas_ = np.array(powers)
        kind = skl2onnx.common.data_types.FloatTensorType([None, 7])
        file = skl2onnx.to_onnx(model, initial_types=[("log", kind)])
        (tmp_path / "m.onnx").write_bytes(file.SerializeToString())
        session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
        wanted = session.run(None, {"log": x})[0]
        graph = load_model(tmp_path / "m.onnx").graph
        np.testing.assert_allclose(evaluate(graph, x[:, None])[:, 0], wanted, rtol=1e-5, atol=2e-5)
        program = compiled(graph, x[:, None])
        run = run_reference(program, quantize_inputs(program, x[:, None])[0])
        error = np.abs(dequantize_outputs(program, run.outputs).reshape(wanted.shape) - wanted).max()
        assert error < 2e-4 * np.abs(wanted).max()


@pytest.mark.parametrize(("modes", "aggregate", "after"), [((0, 3), 1, 2), ((1, 2), 0, 1), ((0,), 1, 0)])
def test_trees_whose_leaves_stand_apart(modes: tuple[int, ...], aggregate: int, after: int, tmp_path: Path) -> None:
    """TreeEnsemble of ai.onnx.ml 5, with thresholds that values equal."""
    rng, table = np.random.default_rng(0), onnx.numpy_helper.from_array
    node = onnx.helper.make_node(
        "TreeEnsemble", ["X"], ["Y"], domain="ai.onnx.ml", aggregate_function=aggregate, post_transform=after,
        n_targets=3, tree_roots=[0, 3], nodes_featureids=rng.integers(0, 4, 6).tolist(),
        nodes_modes=table(rng.choice(modes, 6).astype(np.uint8)),
        nodes_splits=table(np.round(rng.normal(size=6)).astype(np.float32)),
        nodes_truenodeids=[1, 0, 2, 4, 4, 6], nodes_trueleafs=[0, 1, 1, 0, 1, 1],
        nodes_falsenodeids=[2, 1, 3, 5, 5, 7], nodes_falseleafs=[0, 1, 1, 0, 1, 1],
        leaf_targetids=rng.integers(0, 3, 8).tolist(), leaf_weights=table(rng.normal(size=8).astype(np.float32)),
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("ai.onnx.ml", 5)]

    ends = [onnx.helper.make_tensor_value_info(name, 1, [None, size]) for name, size in (("X", 4), ("Y", 3))]
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "m.onnx")
    x = np.round(rng.normal(size=(30, 4)) * 2).astype(np.float32)
    wanted = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"X": x})[0]
    loaded = load_model(tmp_path / "m.onnx").graph
    np.testing.assert_allclose(evaluate(loaded, x[:, None]).reshape(30, 3), wanted, atol=1e-6)
    program = compiled(loaded, x[:, None])
    run = run_reference(program, quantize_inputs(program, x[:, None])[0])
    np.testing.assert_allclose(dequantize_outputs(program, run.outputs).reshape(30, 3), wanted, atol=1e-3)


BAYES = {"iris": 0.9, "wine": 0.9, "breast_cancer": 0.9, "digits": 0.8}  # what floats reach at least


@pytest.mark.parametrize("name", BAYES)
def test_naive_bayes_on_raw_features_is_within_a_point_of_floats(name: str, tmp_path: Path) -> None:
    """Whatever their scales: columns of wine differ a thousandfold, those of digits never vary within some classes."""
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    datasets, bayes = pytest.importorskip("sklearn.datasets"), pytest.importorskip("sklearn.naive_bayes")
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y, learnt = x[order].astype(np.float32), y[order], 2 * len(x) // 3
    model = bayes.GaussianNB().fit(x[:learnt], y[:learnt])
    (tmp_path / "m.onnx").write_bytes(skl2onnx.to_onnx(model, x[:1]).SerializeToString())
    graph, asked = load_model(tmp_path / "m.onnx").graph, x[learnt:, None]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    wanted = np.array([list(row.values()) for row in session.run(None, {"X": x[learnt:]})[1]])
    assert np.abs(evaluate(graph, asked).reshape(wanted.shape) - wanted).max() < 1e-4
    program = compiled(graph, x[:learnt, None])
    run = run_reference(program, quantize_inputs(program, asked)[0])
    found = [evaluate(graph, asked).reshape(len(asked), -1), dequantize_outputs(program, run.outputs)]
    floats, integers = (float((scores.argmax(axis=1) == y[learnt:]).mean()) for scores in found)
    assert floats > BAYES[name]
    assert abs(floats - integers) <= 0.01
