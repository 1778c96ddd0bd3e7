"""DSL files on the command line, and the page that describes them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from dsl_models import from_text
from hil_command import check_failure, hil, record_of
from onnx_models import node
from quantized_models import written

from tinyhil.frontend.functions import FUNCTIONS
from tinyhil.frontend.load import load_model
from tinyhil.frontend.parser import parse
from tinyhil.frontend.tokens import KEYWORDS
from tinyhil.references.classes import class_count, classes_of

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "linear_classifier.dsl"
PAGE = (ROOT / "docs" / "dsl.md").read_text()


def test_every_example_is_a_program() -> None:
    for path in sorted((ROOT / "examples").glob("*.dsl")):
        load_model(path)


def test_the_program_on_the_page(tmp_path: Path) -> None:
    (text,) = re.findall(r"```dsl\n(.*?)```", PAGE, re.DOTALL)
    model = from_text(text, tmp_path, {"W": np.linspace(-3.0, 3.0, 36).reshape(9, 4)})
    assert model.graph.shapes[model.graph.outputs[0]] == (1,)
    assert model.declared == {"x": (-40.0, 40.0)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_on_the_page(name: str) -> None:
    assert f"`{name}(" in PAGE


def test_every_mark_is_in_the_grammar() -> None:
    (grammar,) = re.findall(r"```ebnf\n(.*?)```", PAGE, re.DOTALL)
    for word in (*KEYWORDS, "^T", "<*>", "<+>", "<->", "|*|", ":+", ">=", "$", "?", ";"):
        assert f'"{word}"' in grammar, word
    rules = set(re.findall(r"^(\w+) +=", grammar, re.MULTILINE))
    used = set(re.findall(r"\b[a-z]+\b", re.sub(r'"[^"]*"|\(\*.*?\*\)', "", grammar)))
    assert used == rules


def test_lines_on_the_page_about_operators_parse() -> None:
    cells = [cell for line in PAGE.splitlines() if line.startswith("| `") for cell in line.split(" | ")[:1]]
    pieces = [piece.replace("\\|", "|") for cell in cells for piece in re.findall(r"`(.*?)`", cell)]
    assert len(pieces) > 25
    for piece in pieces:
        parse(f"input x = (2) in {piece} {'x' if piece.endswith(' in') else ''}")


def test_convert_there_and_back(tmp_path: Path) -> None:
    done = hil("convert", "fastgrnn_har", "f.dsl", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["f.dsl", "f.npz"])
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert hil("convert", "fastgrnn_har", "f.dsl", cwd=tmp_path).returncode == 0
    assert first == {path.name: path.read_bytes() for path in tmp_path.iterdir()}  # the same bytes every time
    done = hil("convert", "f.dsl", "new/f.onnx", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["new/f.onnx"])
    done = hil("inspect", "f.dsl", cwd=tmp_path)
    assert "input x [1, 128, 9]" in done.stdout


def test_convert_refuses(tmp_path: Path) -> None:
    (tmp_path / "m.dsl").write_text("input x = (2) in relu(x)")
    (tmp_path / "bad.dsl").write_text("input x = (2) in\nrelu(y)")
    codes = written(
        [node("DequantizeLinear", "x s", "y")],
        {"s": np.float32(0.5)},
        ((2,), (2,)),
        (onnx.TensorProto.INT8, onnx.TensorProto.FLOAT),
    )
    onnx.save(codes, tmp_path / "q.onnx")
    for arguments, words in (
        (("m.dsl", "m.txt"), ("m.txt: the languages are .onnx, .dsl",)),
        (("m.dsl", "./m.dsl"), ("would replace the model itself",)),
        (("bad.dsl", "m.onnx"), ("bad.dsl:2:6: 'y' is not defined",)),
        (("nosuch", "m.onnx"), ("no model 'nosuch'", "path to an .onnx, .dsl or .tflite file")),
        (("q.onnx", "q.dsl"), ("input 'x' is of integers", "begin with a QuantizeLinear")),
    ):
        check_failure(hil("convert", *arguments, cwd=tmp_path), 2, *words)
    assert not (tmp_path / "m.onnx").exists()


def test_run_without_labels_says_how_far_it_is_from_float32(tmp_path: Path) -> None:
    """The agreement, and in one line what the ranges come from."""
    x = np.random.default_rng(0).uniform(-2.5, 2.5, (60, 2, 1)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    np.savez(tmp_path / "train.npz", features=x[:10])
    done = hil("run", "--board", "host", "--model", EXAMPLE, "--inputs", "x.npz", "--json", cwd=tmp_path)
    record = record_of(done)
    assert record["bit_exact"]
    assert record["accuracy"] is None
    assert record["disagreements"] == 0
    assert 0 < record["largest_output_error"] < 1e-3
    assert done.stderr.count("calibrating on the first 30 of 60 inputs") == 1
    assert record["input_saturations"] == 0  # the text declares the range of its input
    np.savez(
        tmp_path / "labelled.npz", x=x, y=(x[:, 0, 0] * -2.139562 + x[:, 1, 0] * 1.885351 + 0.146048 > 0).astype(int)
    )
    done = hil("run", "--board", "host", "--model", EXAMPLE, "--inputs", "labelled.npz", "--json", cwd=tmp_path)
    assert record_of(done)["accuracy"] == 1.0  # of one output alone the sign decides
    more = ("--calibrate", "train.npz", "--json")
    done = hil("run", "--board", "host", "--model", EXAMPLE, "--inputs", "x.npz", *more, cwd=tmp_path)
    record = record_of(done)
    assert "calibrating" not in done.stderr
    assert record["data"]["calibration"]["name"] == "train.npz"


CLASSES = {
    "several": ("x", [[1.0, 3.0], [2.0, -1.0]], [1, 0], 2),
    "one": ("x * [[1.0], [1.0]]", [[-0.5], [0.25]], [0, 1], 2),
    "argmax": ("argmax(x)", [[1.0], [0.0]], [1, 0], None),
    "argmax and a view": ("reshape(argmax(x), (1, 1))", [[1.0], [0.0]], [1, 0], None),
    "loop": ("loop (t = [0:2], h = 0.0) { h + 1.0 } + x * [[1.0], [1.0]]", [[-2.0], [7.0]], [0, 1], 2),
}


@pytest.mark.parametrize("name", CLASSES)
def test_which_class_the_outputs_name(name: str, tmp_path: Path) -> None:
    text, outputs, classes, count = CLASSES[name]
    graph = from_text(f"input x = (1, 2) in {text}", tmp_path).graph
    assert classes_of(graph, np.array(outputs)).tolist() == classes
    assert class_count(graph, len(outputs[0])) == count


def test_a_zoo_model_may_be_a_text(tmp_path: Path) -> None:
    from tinyhil.errors import ModelError
    from tinyhil.harness.job.zoo import _model_file

    with pytest.raises(ModelError, match=r"model.yaml: names no model file; add onnx: NAME.onnx or dsl: NAME.dsl"):
        _model_file(tmp_path, {})
    assert _model_file(tmp_path, {"dsl": "a.dsl"}) == tmp_path / "a.dsl"
    assert _model_file(tmp_path, {"onnx": "a.onnx"}) == tmp_path / "a.onnx"
    (tmp_path / "model.dsl").touch()
    assert _model_file(tmp_path, {}) == tmp_path / "model.dsl"
