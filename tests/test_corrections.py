"""What is done for a format without training: equalized layers, learned roundings, corrected biases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from hil_command import hil
from test_train import DIGITS, graph_of

from tinyhil.compiler.lower import lower
from tinyhil.harness.job.job import open_model
from tinyhil.language.assignment import Assignment
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference
from tinyhil.search.evaluator import Evaluator, NumpyExecutor, make_examples
from tinyhil.train.corrections import Corrections, corrected
from tinyhil.train.equalize import equalized, pairs
from tinyhil.train.integers import Judge
from tinyhil.train.network import with_constants
from tinyhil.train.rounding_up import Rounding

GRAPH = graph_of("digits_cnn")


def uneven(seed: int) -> dict[str, np.ndarray]:
    """Constants of `digits_cnn` with channels of very different sizes, the float model being the same."""
    scales = np.exp2(np.random.default_rng(seed).integers(-4, 5, 8)).astype(np.float32)
    constants = GRAPH.all_constants()
    return {
        "conv1_w": constants["conv1_w"] * scales[:, None, None, None],
        "conv1_b": constants["conv1_b"] * scales,
        "conv2_w": constants["conv2_w"] / scales[None, :, None, None],
    }


def agreeing(graph: object, assignment: Assignment, ranges: object) -> int:
    """Of 100 decisions those of the float model as it came."""
    examples = make_examples(GRAPH, DIGITS.x_test[:100], None)
    program = lower(graph, assignment, ranges)  # type: ignore[arg-type]
    return 100 - Evaluator(NumpyExecutor(), examples).score(program).disagreements


def test_channels_of_neighbours_come_to_be_of_one_size() -> None:
    """Through Relu, MaxPool and Flatten; the float model stays."""
    graph = with_constants(GRAPH, uneven(0))
    found = equalized(graph)
    assert [(pair.first.name, pair.second.name, pair.copies) for pair in pairs(graph)] == [
        ("conv1", "conv2", 1),
        ("conv2", "fc1", 4),
    ]
    front, behind = found["conv1_w"], found["conv2_w"]
    assert np.allclose(np.abs(front).max(axis=(1, 2, 3)), np.abs(behind).max(axis=(0, 2, 3)), rtol=0.01)
    rows = np.abs(found["fc1_w"]).reshape(16, 4, 10).max(axis=(1, 2))
    assert np.allclose(np.abs(behind).max(axis=(1, 2, 3)), rows, rtol=0.01)
    x = DIGITS.x_test[:20]
    assert np.allclose(evaluate(with_constants(graph, found), x), evaluate(graph, x), atol=1e-4)


def test_a_channel_of_its_bias_alone_stays_what_it_is() -> None:
    """Its weights vanish; made as large as others they would make its bias 10^8 times as large, too."""
    constants = GRAPH.all_constants()
    weights, bias = constants["conv1_w"].copy(), constants["conv1_b"]
    weights[3] *= 1e-16
    found = equalized(with_constants(GRAPH, {"conv1_w": weights}))
    assert found["conv1_b"][3] == bias[3]
    assert np.abs(found["conv1_b"]).max() < 100 * np.abs(bias).max()


@pytest.mark.parametrize(
    ("wanted", "more"),
    [
        (Corrections(equalize=True), 30),
        (Corrections(rounding=Rounding(steps=60)), 1),
        (Corrections(correct_bias=True), 1),
        (Corrections(True, Rounding(steps=60), True), 30),
    ],
    ids=["equalized", "rounding", "bias", "all"],
)
def test_corrections_keep_more_decisions(wanted: Corrections, more: int) -> None:
    graph = with_constants(GRAPH, uneven(0)) if wanted.equalize else GRAPH
    formats = Assignment("fixed4" if wanted.equalize else "fixed3")
    judge = Judge(graph, formats, DIGITS.x_train[:100], NumpyExecutor())
    found = corrected(judge, wanted)
    before = agreeing(graph, formats, judge.ranges({}))
    assert agreeing(with_constants(graph, found.constants), formats, found.ranges) >= before + more


def test_what_is_written_is_what_was_corrected(tmp_path: Path) -> None:
    np.savez(tmp_path / "train.npz", x=DIGITS.x_train[:100])
    options = ["digits_mlp", "--inputs", "train.npz", "--equalize", "--correct-bias"]
    done = hil("calibrate", *options, "--format", "fixed4", "--out", "m.onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    opened = open_model(str(tmp_path / "m.onnx"))
    program = lower(opened.model.graph, Assignment("fixed4"), opened.required_ranges(None))
    codes, _ = quantize_inputs(program, DIGITS.x_test)
    outputs = dequantize_outputs(program, run_reference(program, codes).outputs)
    given = open_model("digits_mlp")
    plain = lower(given.model.graph, Assignment("fixed4"), given.required_ranges(None))
    before = dequantize_outputs(plain, run_reference(plain, quantize_inputs(plain, DIGITS.x_test)[0]).outputs)
    right = [(found.argmax(1) == DIGITS.y_test).mean() for found in (outputs, before)]
    assert right[0] > right[1] + 0.1
    run = ("run", "--board", "host", "--model", "m.onnx", "--inputs", "train.npz", "--format", "fixed4", "--samples", 2)
    assert "made with the weights" not in hil(*run, cwd=tmp_path).stderr
    again = hil(*run, "--calibrate", "train.npz", cwd=tmp_path)
    said = "warning: calibrating on train.npz: m.ranges.json, made with the weights, does not count"
    assert said in again.stderr
    cut = hil(*run, "--calibrate-by", "mse", cwd=tmp_path).stderr
    assert "warning: 'mse' looks at values: m.ranges.json, made with the weights, does not count\n" in cut
    assert "no calibrated ranges" not in cut
    for fmt, more, said in (
        ("fixed4", [], "is an ONNX file"),
        ("fixed4", ["--out", "m.json"], "is an ONNX file"),
        ("fixed4pc", ["--out", "n.onnx", "--learn-rounding"], "no weights are in"),
    ):
        refused = hil("calibrate", *options, "--format", fmt, *more, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert said in refused.stderr


def test_a_search_corrects_its_answer(tmp_path: Path) -> None:
    """What is written decides as was said, better than the answer alone; the other way round, what can not be."""
    np.savez(tmp_path / "train.npz", x=DIGITS.x_train[:100], y=DIGITS.y_train[:100])
    np.savez(tmp_path / "test.npz", x=DIGITS.x_test[:200], y=DIGITS.y_test[:200])
    files = ["--inputs", "train.npz", "--held-out", "test.npz"]
    options = [
        "--model",
        "digits_mlp",
        *files,
        "--ram",
        400,
        "--formats",
        "fixed4",
        "--evaluations",
        2,
        "--out",
        "f.yaml",
    ]
    wanted = ["--equalize", "--learn-rounding", "--correct-bias", "--json"]
    done = hil("search", *options, *wanted, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    made = found["corrected"]
    opened = open_model(str(tmp_path / made["out"]))
    formats = opened.assignment(tmp_path / made["assignment_file"], "fixed16")
    program = lower(opened.model.graph, formats, opened.required_ranges(None))
    codes, _ = quantize_inputs(program, DIGITS.x_test[:200])
    outputs = dequantize_outputs(program, run_reference(program, codes).outputs)
    assert (outputs.argmax(1) == DIGITS.y_test[:200]).mean() == pytest.approx(made["accuracy"])
    assert made["accuracy"] > found["accuracy"] + 0.1
    assert made["disagreements"] < found["disagreements"]
    for more in (["--train", 1], ["--pareto", "ram,accuracy"], ["--board", "uno", "--each"]):
        refused = hil("search", *options, "--correct-bias", *more, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "exclude each other" in refused.stderr
    for more in (["--train", 1], ["--correct-bias"]):
        refused = hil("search", *options, "--assist", *more, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert "leave --train and corrections to the search it helps" in refused.stderr


def test_clipped_weights_are_not_clipped_again(tmp_path: Path) -> None:
    """Learned roundings are written as they are held: formats that clip would clip what is already clipped."""
    np.savez(tmp_path / "train.npz", x=DIGITS.x_train[:100])
    given = open_model("digits_mlp").model.graph
    weight = next(node.inputs[1] for node in given.nodes if node.op == "Gemm")
    (tmp_path / "f.yaml").write_text(f"default: fixed4\noffsets: {{{weight}: -1}}\n")
    options = ["digits_mlp", "--inputs", "train.npz", "--assignment", "f.yaml", "--out", "m.onnx"]
    refused = hil("calibrate", *options, "--learn-rounding", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"'{weight}' would clip these weights a second time" in refused.stderr
    assert hil("calibrate", *options, "--correct-bias", cwd=tmp_path).returncode == 0
