"""Every estimator that skl2onnx converts: it equals onnxruntime, or is refused for a reason that is stated here."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_models import compiled

from tinyhil.errors import ModelError
from tinyhil.frontend.load import load_model
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import quantize_inputs, run_reference

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
types = importlib.import_module("skl2onnx.common.data_types")
registry = importlib.import_module("skl2onnx._supported_operators")
datasets, linear = pytest.importorskip("sklearn.datasets"), importlib.import_module("sklearn.linear_model")
REGISTRY = {kind.__name__: kind for kind in registry.sklearn_operator_name_map}
REFUSED = {
    "CountVectorizer": "input 'X' is STRING",
    "DictVectorizer": "operator ai.onnx.ml.DictVectorizer is not supported",
    "FeatureHasher": "input 'X' is STRING",
    "GaussianProcessClassifier": "operator com.microsoft.Solve is not standard ONNX",  # nor is it onnxruntime's
    "ReplaceTransformer": "operand 'nan_name' holds 1 values that are NaN",
    "TfidfVectorizer": "input 'X' is STRING",
    "_ConstantPredictor": "does not depend on the input",
}
# Where the defaults have no file, or are ill-conditioned: components of what is rounding alone
GIVEN: dict[str, dict[str, Any]] = {
    "CastRegressor": {"estimator": linear.LinearRegression()},
    "ColumnTransformer": {"transformers": [("a", "passthrough", [0, 1])]},
    "DictVectorizer": {"sparse": False},
    "FeatureHasher": {"n_features": 4, "input_type": "string"},
    "FeatureUnion": {"transformer_list": [("a", REGISTRY["StandardScaler"]()), ("b", REGISTRY["MinMaxScaler"]())]},
    "GaussianProcessRegressor": {"alpha": 0.1},
    "GaussianRandomProjection": {"n_components": 2},
    "GridSearchCV": {"estimator": linear.LogisticRegression(), "param_grid": {"C": [1, 2]}},
    "KBinsDiscretizer": {"encode": "onehot-dense"},
    "KernelPCA": {"n_components": 2},
    "LocalOutlierFactor": {"novelty": True, "n_neighbors": 5},
    "NearestNeighbors": {"n_neighbors": 3, "radius": None},
    "OneHotEncoder": {"sparse_output": False},
    "Pipeline": {"steps": [("a", linear.LogisticRegression())]},
    "QuantileTransformer": {"n_quantiles": 20},
    "RadiusNeighborsClassifier": {"radius": 2.9},
    "RadiusNeighborsRegressor": {"radius": 2.9},
    "RandomTreesEmbedding": {"sparse_output": False, "n_estimators": 3},
    "SelectKBest": {"k": 2},
    "VotingClassifier": {"flatten_transform": False},
}
BINARY = {"GaussianProcessClassifier", "TargetEncoder", "TunedThresholdClassifierCV"}
WHOLE, LABELS = {"OneHotEncoder", "TargetEncoder"}, {"LabelBinarizer", "LabelEncoder"}
WORDS = {"CountVectorizer", "FeatureHasher", "TfidfVectorizer"}


def estimator(name: str) -> Any:
    """One of few parts, with the options above."""
    kind, options = REGISTRY[name], dict(GIVEN.get(name, {}))
    wanted = inspect.signature(kind.__init__).parameters
    regresses = "Regress" in name
    simple = linear.Ridge() if regresses else linear.LogisticRegression()
    if "estimators" in wanted and "estimators" not in options:
        other = importlib.import_module("sklearn.tree").DecisionTreeRegressor
        other = other if regresses else importlib.import_module("sklearn.tree").DecisionTreeClassifier
        options["estimators"] = [("a", simple), ("b", other(max_depth=2))]
    if "estimator" in wanted and wanted["estimator"].default is inspect.Parameter.empty:
        options.setdefault("estimator", simple)
    few = {"n_estimators": 3, "max_iter": 3 if name.startswith("HistGradient") else None}
    return kind(**{key: value for key, value in few.items() if value and key in wanted} | options)


def written(name: str, path: Path) -> np.ndarray:
    """Writes the file of a fitted estimator; returns what it is asked."""
    x, y = datasets.load_iris(return_X_y=True)
    x, y = (np.round(x * 2) / 2 + 0.01 * np.arange(4)).astype(np.float32), y > 0 if name in BINARY else y
    if name in WORDS | {"DictVectorizer"}:
        x = np.array([["good word"], ["bad word"]])
        of = types.StringTensorType([None, 1])
        if name == "DictVectorizer":
            of = types.DictionaryType(types.StringTensorType([1]), types.FloatTensorType([1]))
        fitted = estimator(name).fit([{"a": 1.0}] if name == "DictVectorizer" else x if "Hash" in name else x[:, 0])
        file = skl2onnx.to_onnx(fitted, initial_types=[("X", of)])
    elif name in LABELS:
        file = skl2onnx.to_onnx(estimator(name).fit(y), initial_types=[("X", types.Int64TensorType([None, 1]))])
        x = y[:, None]
    else:
        x = np.round(x).astype(np.int64) if name in WHOLE else x[:, :1] @ x[:, :1].T if name == "KernelCenterer" else x
        y = np.stack([y, (y + 1) % 3], 1) if "MultiOutput" in name or "MultiTask" in name else y
        y = y.astype(float) + 1 if "Regress" in name else y
        fitted = estimator(name)
        fitted = fitted.fit(x) if name == "CastTransformer" else fitted.fit(x, y)
        opset = {"": 21, "ai.onnx.ml": 3} if name == "IsolationForest" else None
        file = skl2onnx.to_onnx(fitted, x[:1], target_opset=opset)
    path.write_bytes(file.SerializeToString())
    return x


def results(path: Path, x: np.ndarray) -> list[np.ndarray]:
    """Outputs of onnxruntime, row by row: with more, files fail. Where they name nobody by -1 it refuses, and the onnx
    package's reference is asked."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    source, found = session.get_inputs()[0].name, []
    run = session.run if not path.stem.startswith("RadiusNeighbors") else ReferenceEvaluator(str(path)).run
    for row in x:
        parts = [
            [list(one.values()) for one in part] if isinstance(part, list) and isinstance(part[0], dict) else part
            for part in run(None, {source: row[None]})
        ]
        found.append([np.ravel(part) for part in parts if np.asarray(part).dtype.kind in "fiub"])
    return [np.array(rows, np.float64) for rows in zip(*found, strict=True)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_it_runs_or_is_refused_for_a_stated_reason(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.onnx"
    x = written(name, path)
    if name in REFUSED:
        with pytest.raises(ModelError, match=REFUSED[name]):
            load_model(path)
        return
    graph = load_model(path).graph
    asked = x[::3].astype(np.float32)[:, None]
    found = evaluate(graph, asked).reshape(len(asked), -1)
    program = compiled(graph, asked)
    run_reference(program, quantize_inputs(program, asked)[0])
    wanted = results(path, x[::3])
    wanted += [np.concatenate(wanted, axis=1)]
    same = [part for part in wanted if part.shape == found.shape]
    assert min(np.abs(part - found).max() / max(1.0, np.abs(part).max()) for part in same) < 1e-4


def test_the_page_names_those_that_are_refused() -> None:
    page = (Path(__file__).resolve().parent.parent / "docs/exporters.md").read_text()
    rows = [line for line in page.splitlines() if "| no: " in line]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("| no: ")[0])}
    assert named == REFUSED.keys() - {"ReplaceTransformer", "_ConstantPredictor"}  # no estimators of scikit-learn's
