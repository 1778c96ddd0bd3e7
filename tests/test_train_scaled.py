"""Training of models that begin with a Scaler, which is measured and not learnt; what can not be trained is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hil_command import hil

torch = pytest.importorskip("torch")
skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")

from sklearn.datasets import load_iris  # noqa: E402
from sklearn.neural_network import MLPClassifier, MLPRegressor  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler  # noqa: E402

from tinyhil.errors import ModelError  # noqa: E402
from tinyhil.frontend.load import load_model  # noqa: E402
from tinyhil.train.network import network, trainable  # noqa: E402


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler])
@pytest.mark.parametrize("estimator", [MLPClassifier, MLPRegressor])
def test_scaler_and_perceptron_train(scaler: type, estimator: type, tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    x = x.astype(np.float32)
    model = make_pipeline(scaler(), estimator(hidden_layer_sizes=(8,), max_iter=20, random_state=0)).fit(x, y)
    (tmp_path / "m.onnx").write_bytes(skl2onnx.to_onnx(model, x[:1]).SerializeToString())
    np.savez(tmp_path / "train.npz", x=x, y=y if estimator is MLPClassifier else y[:, None].astype(np.float32))
    graph = load_model(tmp_path / "m.onnx").graph
    learnt = trainable(graph)
    assert learnt
    assert not [name for name in learnt if graph.all_constants()[name].size == x.shape[1]]  # mean and scale stay
    options = ("--format", "fixed4", "--epochs", "1", "--out", "tuned.onnx")
    if estimator is MLPRegressor:
        net = network(graph)
        assert net.forward(torch.as_tensor(x)).requires_grad
        return
    done = hil("train", "--model", "m.onnx", "--data", "train.npz", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(onnx.load(tmp_path / "tuned.onnx"))


def test_what_has_no_gradient_is_named_with_its_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tinyhil.train import flow

    monkeypatch.delitem(flow.UFUNCS, "tanh")
    x, y = load_iris(return_X_y=True)
    model = MLPClassifier(hidden_layer_sizes=(3,), activation="tanh", max_iter=2, random_state=0).fit(
        x.astype(np.float32), y
    )
    (tmp_path / "m.onnx").write_bytes(skl2onnx.to_onnx(model, x[:1].astype(np.float32)).SerializeToString())
    net = network(load_model(tmp_path / "m.onnx").graph)
    with pytest.raises(ModelError, match=r"training: operation '\w+' \(Tanh\) computes by numpy's tanh, which has no"):
        net.forward(torch.as_tensor(x[:2]))
    with pytest.raises(ModelError, match=r"ndarray\.copy, which has no gradient"):
        flow.Flowing(torch.zeros(2)).copy()
