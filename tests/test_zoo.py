"""Every bundled model: a valid file in its canonical form, with the accuracy its manifest and card state.

The float reference runs all test samples and must find the stated accuracy; onnxruntime, the independent oracle, must
agree with it on samples spread over the test part (all of them in the slow suite).
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import yaml
from boards_under_test import EVERY, by_compiler
from given_data import SETS, needs_set
from hil_command import check_failure, hil, record_of
from onnx import numpy_helper

from models.training.graphs import Bonsai, FastGrnn, ProtoNn, bonsai, fastgrnn, protonn
from tinyhil.compiler.calibrate import load_ranges
from tinyhil.data import Dataset, load
from tinyhil.errors import EXIT_BUILD
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.zoo import find_model, zoo_names
from tinyhil.references.evaluate import evaluate

MODELS = Path(__file__).parent.parent / "models"
NAMES = [name for name in zoo_names() if name != "fastgrnn_har"]
# What the papers report in float32, per cent; at their sizes we must not be more than one point below.
PAPER_PERCENT = {
    "protonn_usps2": 94.27,
    "protonn_usps10": 92.53,
    "protonn_letter26": 84.02,
    "protonn_mnist10": 92.06,
    "bonsai_usps2": 94.62,
    "bonsai_usps10": 91.98,
    "bonsai_letter26": 64.88,
    "bonsai_mnist10": 93.38,
    "fastgrnn_usps10": 93.17,
    "fastgrnn_dsa19": 83.73,
    "fastgrnn_mnist10": 98.20,
}
ORACLE_SAMPLES = 60
TOO_LARGE = {
    ("lenet5_mnist", "uno", "fixed8"): "B of flash",
    ("lenet5_mnist", "uno", "fixed16"): "B of flash",
    ("transformer_fsdd", "uno", "fixed16"): "B of RAM",
}


def manifest_of(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((MODELS / name / "model.yaml").read_text())
    return loaded


@functools.lru_cache(maxsize=1)  # sets are large; models are in the order of their names, so few loads are in vain
def data_of(dataset: str) -> Dataset:
    return load(dataset, allow_download=False)


def measured_data(name: str) -> Dataset:
    """The very samples on which the stated accuracy was measured."""
    manifest = manifest_of(name)
    data = data_of(manifest["dataset"])
    assert data.sha256 == manifest["float_accuracy"]["data_sha256"]
    return data


NEEDS_ITS_SET = [pytest.param(name, marks=needs_set(manifest_of(name)["dataset"])) for name in NAMES]
OF_A_SET = {files: [name for name in NAMES if SETS[manifest_of(name)["dataset"]] == files] for files in SETS.values()}


def session_of(name: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(find_model(name).path, options, providers=["CPUExecutionProvider"])


def oracle(session: onnxruntime.InferenceSession, samples: np.ndarray) -> np.ndarray:
    """Logits of onnxruntime, one sample at a time as the board takes them."""
    shape = session.get_inputs()[0].shape
    rows = [session.run(None, {"x": x.reshape(shape)})[0].reshape(-1) for x in samples]
    return np.stack(rows)


def ours(name: str, samples: np.ndarray) -> np.ndarray:
    graph = load_model(find_model(name).path).graph
    parts = np.array_split(samples, max(1, len(samples) // 1000))
    return np.concatenate([evaluate(graph, part).reshape(len(part), -1) for part in parts])


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_valid_and_the_manifest_describes_it(name: str) -> None:
    manifest, path = manifest_of(name), find_model(name).path
    proto = onnx.load(path)
    onnx.checker.check_model(proto, full_check=True)
    assert proto.ir_version <= 10  # onnxruntime 1.18
    assert name == manifest["name"] == proto.graph.name == path.stem
    (source,), (sink,) = session_of(name).get_inputs(), session_of(name).get_outputs()
    assert (source.name, source.shape) == (manifest["input"]["name"], manifest["input"]["shape"])
    assert (sink.name, sink.shape[0]) == ("logits", 1)
    assert path.stat().st_size < 300_000


@pytest.mark.parametrize("name", NAMES)
def test_the_float_reference_is_onnxruntime_s(name: str) -> None:
    """On noise within the range of its inputs, which needs no data."""
    session, path = session_of(name), find_model(name).path
    ranges = load_ranges(MODELS / name / "ranges.json", hashlib.sha256(path.read_bytes()).hexdigest())
    low, high = ranges.values["x"]
    shape = (ORACLE_SAMPLES, *session.get_inputs()[0].shape[1:])
    x = np.random.default_rng(5).uniform(low, high, shape).astype(np.float32)
    expected = oracle(session, x)
    np.testing.assert_allclose(ours(name, x), expected, rtol=1e-3, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    "names", [pytest.param(OF_A_SET[files], marks=pytest.mark.data(*files)) for files in OF_A_SET if OF_A_SET[files]]
)
def test_accuracies_are_the_stated_ones(names: list[str]) -> None:
    """Of all models of the same files: they are read once, and skipped once."""
    for name in names:
        stated, data = manifest_of(name)["float_accuracy"], measured_data(name)
        logits = ours(name, data.x_test)
        correct = int((logits.argmax(1) == data.y_test).sum())
        assert (correct, len(data.x_test)) == (stated["correct"], stated["n"]), name
        assert stated["value"] == correct / len(data.x_test)
        chosen = np.linspace(0, len(data.x_test) - 1, ORACLE_SAMPLES).astype(int)
        expected = oracle(session_of(name), data.x_test[chosen])
        np.testing.assert_array_equal(logits[chosen].argmax(1), expected.argmax(1))


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS_ITS_SET)
def test_the_oracle_states_the_same_accuracy(name: str) -> None:
    data = measured_data(name)
    labels = oracle(session_of(name), data.x_test).argmax(1)
    assert int((labels == data.y_test).sum()) == manifest_of(name)["float_accuracy"]["correct"]


@pytest.mark.parametrize("name", PAPER_PERCENT)
def test_accuracy_is_that_of_the_papers(name: str) -> None:
    assert 100 * manifest_of(name)["float_accuracy"]["value"] >= PAPER_PERCENT[name] - 1


@pytest.mark.parametrize("name", NAMES)
def test_the_card_states_what_the_manifest_does(name: str) -> None:
    card, stated = (MODELS / name / "card.md").read_text(), manifest_of(name)["float_accuracy"]
    assert (
        f"**{100 * stated['correct'] / stated['n']:.2f} %** ({stated['correct']} of {stated['n']} test samples" in card
    )
    assert stated["data_sha256"][:16] in card
    assert f"models/{name}/train.py" in card
    assert (MODELS / name / "train.py").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_ranges_belong_to_the_file_and_cover_it(name: str) -> None:
    path = find_model(name).path
    ranges = load_ranges(MODELS / name / "ranges.json", hashlib.sha256(path.read_bytes()).hexdigest())
    graph = load_model(path).graph
    values = set(graph.all_shapes()) - set(graph.all_constants())
    assert values <= set(ranges.values)


# ---- the canonical forms against the papers' equations, in float64

RANDOM = np.random.default_rng(11)


def run(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return oracle(session, x)


def test_protonn_form() -> None:
    w = ProtoNn(RANDOM.normal(size=(20, 4)), RANDOM.normal(size=4), RANDOM.normal(size=(7, 4)), np.eye(7)[:, :3], 0.1)
    x = RANDOM.normal(size=(9, 4, 5)).astype(np.float32)
    z = x.reshape(9, 20) @ w.projection + w.bias
    distance = ((z[:, None] - w.prototypes) ** 2).sum(2)
    np.testing.assert_allclose(run(protonn("m", w, (1, 4, 5)), x), np.exp(-0.1 * distance) @ w.labels, atol=1e-4)
    operators = [node.op_type for node in protonn("m", w, (1, 20)).graph.node]
    assert operators == ["MatMul", "Add", "Sub", "Mul", "ReduceSum", "Mul", "Exp", "Unsqueeze", "MatMul"]


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize(("depth", "classes"), [(1, 1), (1, 3), (3, 1), (2, 4)])
def test_bonsai_form(depth: int, classes: int, hard: bool) -> None:
    nodes, d = 2 ** (depth + 1) - 1, 5
    w = Bonsai(
        RANDOM.normal(size=(12, d)),
        RANDOM.normal(size=d),
        RANDOM.normal(size=(nodes, d, classes)),
        RANDOM.normal(size=(nodes, d, classes)),
        RANDOM.normal(size=(2**depth - 1, d, 1)),
        hard,
    )
    assert w.depth == depth
    gate = (lambda v: np.clip(v, -1, 1)) if hard else np.tanh
    x = RANDOM.normal(size=(40, 12)).astype(np.float32)
    expected = []
    for z in x @ w.projection + w.bias:
        node, score = 0, np.zeros(classes)
        for level in range(depth + 1):
            score += (z @ w.score_w[node]) * gate(z @ w.score_v[node])
            if level < depth:
                node = 2 * node + (1 if z @ w.branch[node] >= 0 else 2)
        expected.append([-score[0], score[0]] if classes == 1 else score)
    np.testing.assert_allclose(run(bonsai("m", w, (1, 12)), x), expected, atol=1e-4)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize(("zeta", "nu"), [(1.0, 0.0), (0.7, 0.2)])
def test_fastgrnn_form(rank: int, zeta: float, nu: float) -> None:
    def factors(rows: int) -> tuple[np.ndarray, ...]:
        if rank == 0:
            return (RANDOM.normal(size=(rows, 6)),)
        return RANDOM.normal(size=(rows, rank)), RANDOM.normal(size=(rank, 6))

    w = FastGrnn(factors(3), factors(6), *RANDOM.normal(size=(2, 6)), RANDOM.normal(size=(6, 4)), np.ones(4), zeta, nu)
    x = RANDOM.normal(size=(5, 8, 3)).astype(np.float32)
    h = np.zeros((5, 6))
    for step in range(8):
        c = functools.reduce(np.matmul, w.w, x[:, step]) + functools.reduce(np.matmul, w.u, h)
        gate = 1 / (1 + np.exp(-(c + w.b_g)))
        h = gate * h + (zeta * (1 - gate) + nu) * np.tanh(c + w.b_h)
    np.testing.assert_allclose(run(fastgrnn("m", w, (1, 8, 3)), x), h @ w.classifier + 1, atol=1e-3)


def test_sparse_projections_have_the_zeros_their_cards_count() -> None:
    for name, share in (
        ("protonn_usps2", 0.2),
        ("protonn_usps10", 0.3),
        ("bonsai_usps2", 0.3),
        ("bonsai_mnist10", 0.2),
    ):
        weights = {t.name: numpy_helper.to_array(t) for t in onnx.load(find_model(name).path).graph.initializer}
        assert np.count_nonzero(weights["projection"]) <= (share + 0.001) * weights["projection"].size


# ---- the command


@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_digits_run_out_of_the_box(name: str, tmp_path: Path) -> None:
    """No data at hand, no network needed: true accuracy all the same."""
    done = hil("run", "--board", "host", "--model", name, "--json", cwd=tmp_path, HIL_DATA=None)
    record = record_of(done)
    assert record["bit_exact"] is True
    assert record["samples"] == 450
    assert record["accuracy"] >= manifest_of(name)["float_accuracy"]["value"] - 0.005


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["fixed8", "fixed16"])
@pytest.mark.parametrize("board", by_compiler(EVERY))
@pytest.mark.parametrize("name", NEEDS_ITS_SET)
def test_models_run_bit_exact(name: str, board: str, format_: str, tmp_path: Path) -> None:
    options = ("--board", board, "--model", name, "--format", format_, "--samples", 10, "--json")
    done = hil("run", *options, cwd=tmp_path)
    limit = TOO_LARGE.get((name, board, format_))
    if limit:
        check_failure(done, EXIT_BUILD, limit, logs=True)
    else:
        assert record_of(done)["bit_exact"] is True


def test_the_page_lists_every_model_with_its_figure() -> None:
    """docs/zoo.md, one row per bundled model in the order of their names; on failure the message holds the rows."""
    rows = []
    for name in zoo_names():
        manifest = manifest_of(name)
        stated = manifest["float_accuracy"]
        correct = round(stated["value"] * stated["n"])
        percent = f"{100 * correct / stated['n']:.2f} %"
        rows.append(f"| `{name}` | `{manifest['dataset']}` | {percent} | {stated['n']} |")
    table = "\n".join(rows)
    assert f"\n{table}\n\n" in (MODELS.parent / "docs" / "zoo.md").read_text(), table
