"""Ways of training: a teacher, entries of codebooks, learned scales, and files that are whole or not there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from onnx_models import load, onnxruntime_outputs, samples_for  # noqa: E402
from test_rows import Chain  # noqa: E402
from test_train import DIGITS, graph_of  # noqa: E402

from tinyhil.errors import ConfigError, DataError  # noqa: E402
from tinyhil.language.assignment import Assignment  # noqa: E402
from tinyhil.language.graph import Graph  # noqa: E402
from tinyhil.search.evaluator import NumpyExecutor  # noqa: E402
from tinyhil.train.checkpoint import Checkpoint, save_checkpoint  # noqa: E402
from tinyhil.train.clusters import clustered, share_gradients  # noqa: E402
from tinyhil.train.fit import train  # noqa: E402
from tinyhil.train.integers import Judge  # noqa: E402
from tinyhil.train.loss import loss_of  # noqa: E402
from tinyhil.train.network import network  # noqa: E402
from tinyhil.train.quantizers import quantizers  # noqa: E402
from tinyhil.train.samples import divide  # noqa: E402
from tinyhil.train.scales import ends_of, held, ranges_with, started  # noqa: E402
from tinyhil.train.schedule import Epoch, Job, Schedule  # noqa: E402
from tinyhil.train.stages import by_sensitivity, released, rounded_at  # noqa: E402

SAMPLES = divide(DIGITS.x_train[:300], DIGITS.y_train[:300], 0)  # type: ignore[index]


def job(fmt: str, samples=SAMPLES, **options: object) -> Job:  # type: ignore[no-untyped-def]
    judge = Judge(graph_of("digits_cnn"), Assignment(fmt), samples.calibration[:100], NumpyExecutor())
    return Job(judge, samples, Schedule(**{"batch": 60, **options}))  # type: ignore[arg-type]


def test_a_teacher_outweighs_labels_that_are_wrong() -> None:
    wrong = replace(SAMPLES, y=(SAMPLES.y + 3) % 10)
    taught, untaught = (
        train(job("fixed6", wrong, epochs=1, batch=16, rate=1e-1, teacher=share)).epochs[-1] for share in (1.0, 0.0)
    )
    assert taught.accuracy > 0.9
    assert untaught.accuracy < 0.5


def test_gradients_are_those_of_the_entries() -> None:
    """As autograd has them where entries are looked up by index."""
    weights = torch.tensor([[0.5, -1.0, 0.5], [2.0, -1.0, 0.5]]).requires_grad_()
    index = torch.tensor([1, 0, 1, 2, 0, 1])
    factors = torch.arange(6.0).reshape(2, 3) + 1
    (weights * factors).square().sum().backward()
    entries = torch.tensor([-1.0, 0.5, 2.0]).requires_grad_()
    (entries[index].reshape(2, 3) * factors).square().sum().backward()
    share_gradients({"w": weights}, {"w": index})
    assert weights.grad is not None
    assert entries.grad is not None
    counts = torch.tensor([2.0, 3.0, 1.0])
    assert torch.allclose(weights.grad.reshape(-1), (entries.grad / counts.sqrt())[index])
    assert float(weights.grad.norm()) == pytest.approx(float(entries.grad.norm()))


def test_weights_keep_their_entries_which_move() -> None:
    given = job("kmeans4", epochs=2, rate=1e-2, entries=True, teacher=0.5)
    graph, judge = given.judge.graph, given.judge
    net = network(graph)
    first = clustered(net.weights, quantizers(graph, judge.assignment, judge.ranges({})))
    before = {name: net.weights[name].detach().numpy().copy() for name in first}
    trained = train(given)
    assert trained.best.number > 0
    assert trained.best.accuracy > trained.epochs[0].accuracy
    for name, index in first.items():
        after = trained.constants[name].reshape(-1)
        assert (after != before[name].reshape(-1)).any()
        assert all(len(np.unique(after[index.numpy() == entry])) == 1 for entry in np.unique(index))


def test_steps_have_the_gradient_of_lsq() -> None:
    """Inside the rounding error, beyond the ends the end itself, in units of the step."""
    from tinyhil.train.scales import _Learned

    x = torch.tensor([0.3, -0.6, 5.0, -9.0, 1.1]).requires_grad_()
    step = torch.tensor(-1.2).requires_grad_()  # rounded to a half
    out = _Learned.apply(x, step, -8, 7)
    assert out.tolist() == [0.5, -0.5, 3.5, -4.0, 1.0]
    out.sum().backward()
    by_step = np.array([1 - 0.6, -1 + 1.2, 7, -8, 2 - 2.2])
    assert step.grad is not None
    assert float(step.grad) == pytest.approx(by_step.sum() * 0.5 * np.log(2) / np.sqrt(5 * 7), rel=1e-5)
    assert x.grad is not None
    assert x.grad.tolist() == [1, 1, 0, 0, 1]


def residual(folder: Path) -> Graph:
    """An addition, a maximum that is a part of a whole, a mean, and a view."""
    chain = Chain(2, 8).conv(6, 3, pad=1).add("Relu")
    begin = chain.last
    chain.conv(6, 3, pad=1).add("Add", begin).pool("MaxPool", 2, 2)
    part = chain.last
    chain.conv(6, 3, pad=1).add("Concat", part, axis=1).pool("AveragePool", 2, 2).add("Flatten")
    chain.constants["fc"] = np.random.default_rng(0).normal(size=(48, 5)).astype(np.float32) / 7
    return load(chain.add("MatMul", "fc").model(), folder)


@pytest.mark.parametrize("seed", range(4))
def test_the_program_has_the_exponents_that_were_learned(seed: int, tmp_path: Path) -> None:
    """Whatever each of them is; one that was moved by the assignment, too."""
    graph, random = residual(tmp_path), np.random.default_rng(seed)
    assignment = Assignment("fixed4", {}, {"v1": -1})
    judge = Judge(graph, assignment, samples_for(graph.shapes["x"]), NumpyExecutor())
    used = quantizers(graph, assignment, judge.ranges({}))
    begun = {name: float(step.detach()) for name, step in started(used, network(graph).weights).items()}
    moved = held(used, {name: torch.tensor(step + float(random.integers(-2, 3))) for name, step in begun.items()})
    again = quantizers(graph, assignment, ranges_with(judge.ranges({}), graph, ends_of(moved), assignment))
    values = {used.leaders[name] for name in used.values}
    assert values <= begun.keys()
    assert len(values) == 5  # of seven: what is joined has one scale with its parts
    assert {n: f.exponent for n, f in again.values.items()} == {n: f.exponent for n, f in moved.values.items()}


@pytest.mark.parametrize("way", ["scales", "progressive"])
def test_ways_of_training_resume_to_the_same_weights(way: str, tmp_path: Path) -> None:
    options = {"epochs": 3, "rate": 2e-2, way: True}
    whole = train(job("fixed2", **options))
    assert whole.best.number > 0
    assert whole.best.accuracy > whole.epochs[0].accuracy
    path = tmp_path / "run.checkpoint.npz"

    class Stop(Exception):
        pass

    def stop(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise Stop

    with pytest.raises(Stop):
        train(replace(job("fixed2", **options), checkpoint=path, tell=stop))
    resumed = train(replace(job("fixed2", **options), checkpoint=path))
    assert resumed.epochs[1:] == whole.epochs[1:]
    assert resumed.ranges.values == whole.ranges.values
    assert all(np.array_equal(resumed.constants[n], array) for n, array in whole.constants.items())


def test_the_coarsest_format_comes_in_first() -> None:
    given = job("fixed8")
    graph, x = given.judge.graph, torch.tensor(SAMPLES.x[:60]).reshape(60, 1, 1, 8, 8)
    formats = Assignment("fixed8", {"conv2_w": "fixed2"})
    used = quantizers(graph, formats, given.judge.ranges({}))
    net, y = network(graph), torch.tensor(SAMPLES.y[:60].astype(np.int64))
    found = by_sensitivity(net, used, formats, x, y)
    assert {name for name, _ in found} == {*used.values, *used.constants, *used.rows}
    assert found[0][0] == "conv2_w"
    assert found[0][1] == float(loss_of(net.forward(x, released(used, {"conv2_w"}), formats), y).detach())
    assert [loss for _, loss in found] == sorted((loss for _, loss in found), reverse=True)
    assert torch.equal(net.forward(x, released(used, ()), formats), net.forward(x))
    assert torch.equal(net.forward(x, released(used, {n for n, _ in found}), formats), net.forward(x, used, formats))


def test_all_formats_are_in_after_half_of_the_epochs() -> None:
    order = ("a", "b", "c", "d", "e")
    assert [len(rounded_at(order, epoch, 6)) for epoch in range(1, 7)] == [2, 4, 5, 5, 5, 5]
    assert rounded_at(order, 1, 6) == {"a", "b"}
    assert rounded_at(order, 1, 1) == {*order}


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.checkpoint.npz"
    state = Checkpoint("me", np.zeros((1, 3)), 1.0, np.ones(2), {}, {}, {}, {})
    save_checkpoint(path, state)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DataError, match=r"a\.checkpoint\.npz: .*No space left on device; make room"):
        save_checkpoint(path, state)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    with pytest.raises(DataError, match="No such file"):
        save_checkpoint(tmp_path / "gone" / "a.npz", state)


@pytest.mark.parametrize(
    ("options", "fmt", "what"),
    [
        ({"entries": True}, "fixed8", "no weights have a codebook"),
        ({"scales": True}, "posit8es0", "nothing is fixed point of at most 8 bits"),
        pytest.param(
            {"device": "cuda"},
            "fixed8",
            "torch has no GPU here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is one"),
        ),
    ],
)
def test_what_would_do_nothing_is_refused(options: dict[str, object], fmt: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        train(job(fmt, epochs=1, **options))


def test_normalisation_is_folded_into_the_layer_before_it() -> None:
    from models.training.nets import Conv, Dense, HardTanh, Norm, Pool, build, to_onnx

    torch.manual_seed(0)
    built = build((2, 6, 6), (Conv(3, 3, 1), Norm(), HardTanh(), Pool(), Dense(5), Norm(), HardTanh(), Dense(4)))
    x = torch.randn(40, 2, 6, 6) * 2 + 1
    for _ in range(20):
        built.network(x)  # moves the means and variances
    built.network.eval()
    proto = to_onnx("folded", built.network, (2, 6, 6))
    wanted = built.network(x).detach().numpy()
    assert np.abs(onnxruntime_outputs(proto, x.numpy()[:, None]) - wanted).max() < 1e-4
