"""NaN for what is missing: imputers as skl2onnx writes them, beside scikit-learn and onnxruntime, in every format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from kernel_cases import Case, first_difference, run_natively, run_on_board
from search_models import host_engine

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import DataError, ModelError
from tinyhil.formats.single import FLOAT32
from tinyhil.frontend.load import load_model
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
impute, linear = pytest.importorskip("sklearn.impute"), pytest.importorskip("sklearn.linear_model")
processing, pipeline = pytest.importorskip("sklearn.preprocessing"), pytest.importorskip("sklearn.pipeline")
datasets = pytest.importorskip("sklearn.datasets")
FORMATS = ("float32", "fixed16", "fixed8", "int8", "posit16es1", "bfloat16")
NAN = np.float32(np.nan)


def holed(x: np.ndarray, share: float, seed: int) -> np.ndarray:
    """`x` with NaN at random places."""
    return np.where(np.random.default_rng(seed).random(x.shape) < share, NAN, x).astype(np.float32)


def written(estimator: Any, x: np.ndarray, path: Path, opset: int = 22) -> Graph:
    """The graph of the file of a fitted estimator of rows like those of `x`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = skl2onnx.to_onnx(estimator, x[:1], target_opset=opset)
    path.write_bytes(file.SerializeToString())
    return load_model(path).graph


def program_of(graph: Graph, x: np.ndarray, chosen: str) -> Program:
    return lower(graph, Assignment(chosen), calibrate(graph, x, {"name": "test"}))


def integers(program: Program, x: np.ndarray) -> np.ndarray:
    """Real outputs (samples, elements)."""
    return dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)


def wine() -> tuple[np.ndarray, np.ndarray]:
    """Columns that differ a thousandfold, a fifth of the numbers missing."""
    x, y = datasets.load_wine(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(x))
    return holed(x[order], 0.2, 2), y[order]


PIPELINES = {
    "filled": lambda: (impute.SimpleImputer(), processing.StandardScaler()),
    "neighbours": lambda: (impute.KNNImputer(n_neighbors=3), processing.StandardScaler()),
    "scaled before": lambda: (processing.StandardScaler(), impute.KNNImputer()),
}


@pytest.mark.parametrize("chosen", FORMATS)
@pytest.mark.parametrize("name", PIPELINES)
def test_classes_are_those_of_floats(name: str, chosen: str, tmp_path: Path) -> None:
    x, y = wine()
    model = pipeline.make_pipeline(*PIPELINES[name](), linear.LogisticRegression()).fit(x[:100], y[:100])
    graph, asked = written(model, x, tmp_path / "m.onnx"), x[100:]
    assert graph.pinned == {graph.inputs[0]: FLOAT32}
    errors = np.abs(evaluate(graph, asked).reshape(78, 3) - model.predict_proba(asked)).max(axis=1)
    assert (errors > 1e-4).sum() <= 1  # of two neighbours that single precision can not tell apart the other
    program = program_of(graph, x[:100], chosen)
    found = integers(program, asked).reshape(78, 3).argmax(axis=1)
    most = 0.06 if chosen in ("fixed8", "int8", "bfloat16") else 0.03
    assert (found != model.predict(asked)).mean() <= most


def random_imputer(seed: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A fitted KNNImputer, its training samples and others: columns that nobody has, one column, one sample."""
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 25)), int(rng.integers(1, 6))
    x = rng.normal(size=(rows, columns)) * rng.choice([1.0, 1.0, 3.0], columns) + rng.normal(size=columns) * 5
    x = holed(x, float(rng.choice([0.0, 0.1, 0.4, 0.7])), seed)
    x[0, 0] = 1.0  # there is something
    fitted = impute.KNNImputer(n_neighbors=int(rng.integers(1, 6)), keep_empty_features=bool(seed % 2)).fit(x)
    near = np.nan_to_num(x)[rng.integers(0, rows, 30)] + rng.normal(size=(30, columns))
    return fitted, x, holed(near, 0.4, seed + 1)


def by_onnxruntime(path: Path, x: np.ndarray) -> list[np.ndarray | None]:
    """Row by row; None where the converter's file fails: a row without neighbours leaves it nothing to index."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    found: list[np.ndarray | None] = []
    for row in x:
        try:
            found.append(session.run(None, {"X": row[None]})[0][0])
        except Exception:  # its own classes, of which it exports none
            found.append(None)
    return found


@pytest.mark.filterwarnings("ignore")
def test_neighbours_are_those_of_scikit_learn_and_of_onnxruntime(tmp_path: Path) -> None:
    beside = 0
    for seed in range(7):
        fitted, x, asked = random_imputer(seed)
        graph = written(fitted, x, tmp_path / "m.onnx", 18 + seed % 5)
        found, wanted = evaluate(graph, asked), fitted.transform(asked)
        if wanted.shape[1] == x.shape[1]:  # columns that nobody has: 0 in scikit-learn, left out in the file
            wanted = wanted[:, ~np.isnan(x).all(axis=0)]
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4)
        for got, row in zip(found, by_onnxruntime(tmp_path / "m.onnx", asked), strict=True):
            if row is not None:
                np.testing.assert_allclose(got.reshape(-1), row, rtol=1e-4, atol=1e-4)
                beside += 1
    assert beside > 100


def cases(folder: Path) -> list[Case]:
    found = []
    for seed, chosen in enumerate((*FORMATS, "fixed16")):
        fitted, x, asked = random_imputer(seed)
        graph = written(fitted, x, folder / "m.onnx")
        program = program_of(graph, asked, chosen)
        found.append(Case(f"{seed} {chosen}", program, quantize_inputs(program, asked)[0]))
    return found


@pytest.mark.filterwarnings("ignore")
def test_kernels_and_the_engine_equal_the_reference(tmp_path: Path) -> None:
    made, engine = cases(tmp_path), host_engine(default_cache_dir())
    (tmp_path / "native").mkdir()
    assert first_difference(made, run_natively(made, tmp_path / "native")) == ""
    for case in made:
        wanted, got = run_reference(case.program, case.inputs), engine.run(case.program, case.inputs)
        np.testing.assert_array_equal(got.outputs, wanted.outputs)
        np.testing.assert_array_equal(got.saturations, wanted.saturations)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("board", ["uno", "due", "h747"])
def test_boards_equal_the_reference(board: str, tmp_path: Path) -> None:
    made = cases(tmp_path)[1:3] if board == "uno" else cases(tmp_path)
    assert first_difference(made, run_on_board(made, load_boards().board(board), tmp_path / "build")) == ""


def test_another_mark_than_nan_is_refused(tmp_path: Path) -> None:
    """skl2onnx leaves it out of the file, which onnxruntime gives the samples back from as they are."""
    x = np.array([[1, -1], [2, 3], [4, 5]], np.float32)
    with pytest.raises(ModelError, match=r"another mark than NaN.*would impute nothing; fit it with missing_values=nu"):
        written(impute.KNNImputer(missing_values=-1).fit(x), x, tmp_path / "m.onnx")
    (row,) = by_onnxruntime(tmp_path / "m.onnx", x[:1])
    np.testing.assert_array_equal(row, x[0])


def test_functions_of_another_converter_are_refused(tmp_path: Path) -> None:
    x = holed(np.random.default_rng(0).normal(size=(8, 3)), 0.3, 1)
    written(impute.KNNImputer().fit(x), x, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    weights = next(function for function in proto.functions if function.name == "calc_impute_weights")
    next(node for node in weights.node if node.op_type == "IsNaN").op_type = "IsInf"
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"node '.*' \(local_domain.knn_imputer_column\): local functions other than"):
        load_model(tmp_path / "m.onnx")


def test_nan_is_let_in_where_the_file_asks_for_it_alone(tmp_path: Path) -> None:
    x = holed(np.random.default_rng(0).normal(size=(30, 3)), 0.3, 1)
    full, y = np.nan_to_num(x), np.arange(30) % 2
    graph = written(linear.LogisticRegression().fit(full, y), full, tmp_path / "m.onnx")
    with pytest.raises(DataError, match="holds NaN or infinite values"):
        evaluate(graph, x)
    graph = written(impute.SimpleImputer().fit(x), x, tmp_path / "m.onnx")
    with pytest.raises(DataError, match="holds NaN or infinite values"):
        evaluate(graph, np.where(np.isnan(x), np.inf, x))
    program = program_of(graph, x, "fixed8")
    assert quantize_inputs(program, x)[1] == 0
