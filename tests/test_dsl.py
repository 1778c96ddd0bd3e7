"""The DSL: what every operator means, where every error is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dsl_models import from_text
from onnx_models import compiled, samples_for

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.errors import ModelError
from tinyhil.frontend.load import load_model
from tinyhil.language.assignment import Assignment
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
Function = Callable[[np.ndarray], np.ndarray]

W = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]], np.float32)
LET = "let W = [[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]] in let v = [0.5, -0.25] in "


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def conv(x: np.ndarray, w: np.ndarray, stride: int, pad: int) -> np.ndarray:
    """Plainly: (channels, height, width) by (outputs, channels, 3, 3)."""
    x = np.pad(x[0], [(0, 0), (pad, pad), (pad, pad)])
    size = [(n - 3) // stride + 1 for n in x.shape[1:]]
    out = np.empty((1, len(w), *size), np.float32)
    for row, column in np.ndindex(*size):
        patch = x[:, row * stride : row * stride + 3, column * stride : column * stride + 3]
        out[0, :, row, column] = (w * patch).sum(axis=(1, 2, 3))
    return out


KERNEL = np.arange(36, dtype=np.float32).reshape(2, 2, 3, 3) / 20 - 1
K = "let K = reshape([" + ", ".join(f"{v:.2f}" for v in KERNEL.reshape(-1)) + "], (2, 2, 3, 3)) in "

# name: (shape of the input, text behind it, what it means)
MEANINGS: dict[str, tuple[tuple[int, ...], str, Function]] = {
    "matrix product": ((1, 2), "x * W", lambda x: x @ W),
    "sparse product": ((3, 1), "W |*| x", lambda x: W @ x),
    "scalar times matrix": ((2, 3), "0.5 * x", lambda x: x * np.float32(0.5)),
    "matrix times scalar": ((2, 3), "x * 2", lambda x: x * 2),
    "element by element": ((2, 3), "x <*> W", lambda x: x * W),
    "sum and difference": ((2, 3), "x + W - 1", lambda x: x + W - 1),
    "product before sum": ((1, 2), "x * W + x * W", lambda x: 2 * (x @ W)),
    "left to right": ((2, 3), "x - W - W", lambda x: x - W - W),
    "parentheses": ((2, 3), "x - (W - W)", lambda x: x),
    "negative": ((2, 3), "-x + -1.5", lambda x: -x - 1.5),
    "negative of a negative": ((2, 3), "--x", lambda x: x),
    "plus along channels": ((1, 2, 2, 2), "x <+> v", lambda x: x + np.array([0.5, -0.25]).reshape(2, 1, 1)),
    "minus along channels": ((1, 2), "x <-> v", lambda x: x - np.array([0.5, -0.25])),
    "transposed": ((3, 2), "x^T + W", lambda x: x.T + W),
    "transposed product": ((3, 2), "x * W^T^T", lambda x: x @ W),
    "reshape": ((2, 3), "reshape(x, (3, 2)) * W", lambda x: x.reshape(3, 2) @ W),
    "reshape in another order": ((2, 3), "reshape(x, (3, 2), (2, 1))", lambda x: x.T),
    "reverse": ((2, 3), "reverse(x, 1)", lambda x: x[:, ::-1]),
    "slice": ((4, 5), "x[1:+2, 2:+3]", lambda x: x[1:3, 2:5]),
    "slice of a later axis": ((4, 5), "x[:, 2:+3]", lambda x: x[:, 2:5]),
    "slice of a slice": ((4, 5), "x[1:+2][:, 2:+3]", lambda x: x[1:3, 2:5]),
    "index": ((4, 5), "x[2]", lambda x: x[2]),
    "two indices": ((4, 5, 2), "x[2, 1]", lambda x: x[2, 1]),
    "index of a later axis": ((4, 5), "x[1:+2, 3]", lambda x: x[1:3, 3]),
    "computed index": ((4, 5), "let k = 1 in x[2 * k - 1:+2]", lambda x: x[1:3]),
    "slice assigned": (
        (4, 5),
        "let x[1:+2, 2:+2] = x[0:+2, 0:+2] in x",
        lambda x: np.block([[x[:1]], [np.hstack([x[1:3, :2], x[:2, :2], x[1:3, 4:]])], [x[3:]]]),
    ),
    "row assigned": ((3, 2), "let x[1] = v in x", lambda x: np.stack([x[0], [0.5, -0.25], x[2]])),
    "init": ((2, 3), "x + init([2, 3], 0.5)", lambda x: x + 0.5),
    "relu": ((2, 3), "relu(x)", lambda x: np.maximum(x, 0)),
    "relu6": ((2, 3), "relu6(10.0 * x)", lambda x: np.clip(10 * x, 0, 6)),
    "tanh": ((2, 3), "tanh(x)", np.tanh),
    "sigmoid": ((2, 3), "sigmoid(x)", sigmoid),
    "argmax": ((5, 1), "argmax(x)", lambda x: np.array([x.argmax()])),
    "maxpool": (
        (1, 1, 4, 4),
        "maxpool(x, {k 2 2}, {p 0 0 0 0}, {s 2 2})",
        lambda x: x.reshape(1, 1, 2, 2, 2, 2).max(axis=(3, 5)),
    ),
    "conv2d": ((1, 2, 5, 6), K + "conv2d(x, K)", lambda x: conv(x, KERNEL, 1, 0)),
    "conv2d strided": (
        (1, 2, 5, 6),
        K + "conv2d(x, K, {s 2 2}, {p 1 1 1 1}, {d 1 1}, {g 1})",
        lambda x: conv(x, KERNEL, 2, 1),
    ),
    "conv2d with a bias": (
        (1, 2, 5, 6),
        K + "conv2d(x, K, v, {s 1 1})",
        lambda x: conv(x, KERNEL, 1, 0) + np.array([0.5, -0.25]).reshape(2, 1, 1),
    ),
    "mbconv": (
        (1, 2, 4, 4),
        "let P = reshape([1.0, 0.5, -0.5, 2.0], (2, 2, 1, 1)) in let D = init([2, 1, 3, 3], 0.5) in "
        "let one = [1.0, 2.0] in mbconv(x, [P, one, v], [D, one, v], [P, one, v], {s 1 1}, {p 1 1 1 1})",
        lambda x: bottleneck(x),
    ),
    "sum": ((4, 2), "$(i = [0:4]) x[i]", lambda x: x.sum(axis=0)),
    "sum of products": (
        (4, 2),
        "$(i = [1:4]) (i * x[i] <*> x[i - 1])",
        lambda x: sum(i * x[i] * x[i - 1] for i in (1, 2, 3)),
    ),
    "conditional on the index": (
        (4, 2),
        "$(i = [0:4]) (i - 2 >= 0 ? x[i] : -x[i])",
        lambda x: x[2] + x[3] - x[0] - x[1],
    ),
    "loop over rows": ((5, 2), "let h = init([2], 0.0) in loop (t = [0:5], h) { tanh(h + x[t]) }", lambda x: folded(x)),
    "loop over some rows": (
        (9, 2),
        "let h = init([2], 0.0) in loop (t = [3:8], h) { tanh(h + x[t]) }",
        lambda x: folded(x[3:8]),
    ),
    "loop backward": (
        (5, 2),
        "let h = init([2], 0.0) in loop (t = [5:0], h) { tanh(h + x[t]) }",
        lambda x: folded(x[::-1]),
    ),
    "loop over columns": (
        (1, 5, 2),
        "loop (t = [0:5], h = init([1, 2], 0.0); c = x[:, t]) { tanh(h + c) }",
        lambda x: folded(x[0])[None],
    ),
    "loop over rows kept as an axis": (
        (5, 2),
        "loop (t = [0:5], h = init([1, 2], 0.0)) { tanh(h + x[t:+1]) }",
        lambda x: folded(x)[None],
    ),
    "loop of two states": (
        (5, 2),
        "let a, b = loop (t = [0:5], a = init([2], 0.0), b = v) { tanh(a + x[t]), 0.5 * b + x[t] } in a <*> b",
        lambda x: folded(x) * halved(x),
    ),
    "nested loops": (
        (3, 4, 2),
        "loop (i = [0:3], h = init([2], 0.0)) { let r = x[i] in loop (j = [0:4], h) { tanh(h + r[j]) } }",
        lambda x: folded(x.reshape(12, 2)),
    ),
    "loop without rows": ((1, 3), "loop (t = [0:7], h = x) { 0.5 * h + x }", lambda x: x * (2 - 0.5**7)),
    "loop over rows of a constant": (
        (1, 2),
        "let R = [[0.5, 1.0], [2.0, -1.0]] in loop (t = [0:2], h = x) { tanh(h + R[t]) }",
        lambda x: np.tanh(np.tanh(x + np.array([0.5, 1.0])) + np.array([2.0, -1.0])),
    ),
    "operator by its ONNX name": ((2, 3), "HardSigmoid(x, alpha=0.25, beta=0.5)", lambda x: np.clip(x / 4 + 0.5, 0, 1)),
    "several results": ((2, 4), "let a, b = Split(x, [1, 3], axis=1) in b <*> a", lambda x: x[:, 1:] * x[:, :1]),
    "one of several results": ((2, 4), "let _, b = Split(x, [1, 3], axis=1) in b", lambda x: x[:, 1:]),
    "an operand left out": ((2, 3), "Clip(x, _, 0.5)", lambda x: np.minimum(x, 0.5)),
    "names bound again": ((2, 3), "let x = x + 1.0 in let x = x <*> x in x", lambda x: (x + 1) ** 2),
}
MEANINGS |= {
    "quotient": ((2, 3), "x / W", lambda x: x / W),
    "exp": ((2, 3), "exp(x)", np.exp),
    "sign": ((2, 3), "sgn(x)", np.sign),
    "normalised": ((2, 3), "normaliseL2(x)", lambda x: x / np.sqrt((x**2).sum())),
    "conditional": ((2, 3), "x >= 0 ? x : 0.1 * x", lambda x: np.where(x >= 0, x, np.float32(0.1) * x)),
    "computed choice": ((2, 3), "let k = argmax(x[0]) in W[:, k]", lambda x: W[:, x[0].argmax()][:, None]),
    "conditional on equals": ((2, 3), "relu(x) == 0 ? W : x", lambda x: np.where(np.maximum(x, 0) == 0, W, x)),
}


def bottleneck(x: np.ndarray) -> np.ndarray:
    point = np.array([[1.0, 0.5], [-0.5, 2.0]]) * np.array([[1.0], [2.0]])
    shift = np.array([0.5, -0.25]).reshape(2, 1, 1)
    first = np.clip(np.tensordot(point, x[0], 1) + shift, 0, 6)
    padded = np.pad(first, [(0, 0), (1, 1), (1, 1)])
    windows = sum(padded[:, i : i + 4, j : j + 4] for i in range(3) for j in range(3))
    second = np.clip(windows * 0.5 * np.array([1.0, 2.0]).reshape(2, 1, 1) + shift, 0, 6)
    return (np.tensordot(point, second, 1) + shift)[None]


def folded(rows: np.ndarray) -> np.ndarray:
    h = np.zeros(rows.shape[1], np.float32)
    for row in rows:
        h = np.tanh(h + row)
    return h


def halved(rows: np.ndarray) -> np.ndarray:
    b = np.array([0.5, -0.25], np.float32)
    for row in rows:
        b = np.float32(0.5) * b + row
    return b


@pytest.mark.parametrize("name", MEANINGS)
def test_what_it_means(name: str, tmp_path: Path) -> None:
    shape, text, meaning = MEANINGS[name]
    model = from_text(f"input x = ({', '.join(map(str, shape))}) in\n{LET}{text}\n", tmp_path)
    x = samples_for(shape, 5)
    wanted = np.stack([np.asarray(meaning(sample), np.float32) for sample in x])
    np.testing.assert_allclose(evaluate(model.graph, x), wanted, rtol=1e-5, atol=1e-5)
    program = compiled(model.graph, x)
    run = run_reference(program, quantize_inputs(program, x)[0])
    error = np.abs(dequantize_outputs(program, run.outputs) - wanted.reshape(len(x), -1)).max()
    assert error < 5e-3 * max(1.0, float(np.abs(wanted).max()))


X = "input x = (2, 3) in\n"
# text: where the error is and what it says
ERRORS = {
    "": r"1:1: a value expected, not the end of the file",
    "x": r"1:1: 0 inputs; exactly one is supported",
    "input x = (2) in\ninput y = (2) in\nx": r"2:1: 2 inputs",
    "input x = (2) in [1.0, -1.0] in x": r"1:18: the range begins at 1, above its end -1",
    "input x = (0) in x": r"1:1: an input of shape \[0\]",
    "input x (2) in x": r"1:9: '=' expected behind the name of the input, not '\('",
    "input let = (2) in x": r"1:7: the name of the input expected, not 'let'",
    X + "y": r"2:1: 'y' is not defined",
    X + "let y = x in z": r"2:14: 'z' is not defined",
    X + "let y = x": r"2:10: 'in' expected behind the value, not the end of the file",
    X + "let y = x in\n\n  y ! x": r"4:5: '!' does not belong here",
    X + "x + ": r"2:5: a value expected",
    X + "x x": r"2:3: the end of the file expected, not 'x'",
    X + "(x": r"2:3: '\)' expected to close the parenthesis",
    X + "x * x": r"2:3: node 'result' \(MatMul\): inner dimensions of \[2, 3\] and \[2, 3\] differ",
    X + "let y = x + [1.0, 2.0] in y": r"2:11: node 'y' \(Add\): shapes \[2, 3\] and \[2\] do not broadcast",
    X + "x + [[1, 2], [3]]": r"2:5: rows of different shapes",
    X + "1.0": r"output 'result' does not depend on the input|output",
    X + "1" + "0" * 50: r"2:1: a number of 51 characters",
    X + "x + 99999999999999": r"2:5: 99999999999999 is beyond the limit",
    X + "x + 1e39": r"2:5: a number beyond the range of float32",
    X + "x + [1e999]": r"2:6: a number beyond the range of float32",
    X + "x * inf": r"2:3: node 'result' \(Mul\): operand .* holds 1 values that are NaN or infinite",
    X + "init([2, 3], 1e39) + x": r"2:1: a number beyond the range of float32",
    X + "x[inf]": r"2:3: ",
    X + "Softmax(x, axis=inf)": r"2:1: ",
    X + "init([inf], 1.0) + x": r"2:",
    X + "reshape(x, (inf))": r"2:",
    X + "maxpool(x, {k inf inf})": r"2:",
    X + "nosuch(x)": r"2:1: no function 'nosuch'; there are argmax, conv2d",
    X + "NoSuch(x)": r"2:1: node 'result': operator NoSuch is not supported",
    X + "Relu(x, alpha=1)": r"2:1: node 'result' \(Relu\): attribute 'alpha' is not supported",
    X + "Relu(alpha=1, x)": r"2:15: values come before options",
    X + "relu(x, x)": r"2:1: relu takes 1 values, not 2",
    X + "relu(x, {k 2})": r"2:1: relu has no group \{k ...\}",
    X + "relu(_)": r"2:1: relu needs all its values",
    X + "maxpool(x, {k 2})": r"2:1: \{k ...\} of maxpool takes 2 whole numbers, not 1",
    X + "maxpool(x)": r"2:1: \{k ...\} of maxpool takes 2 whole numbers, not 0",
    X + "conv2d(x, x, {k 1 1})": r"2:1: conv2d has no group \{k ...\}",
    X + "reshape(x, x)": r"2:1: reshape takes a shape such as",
    X + "reshape(x, (5))": r"2:1: node 'result' \(Reshape\): \[2, 3\] does not reshape to \[5\]",
    X + "reverse(x, 2)": r"2:1: axis 2 of a tensor with 2 axes",
    X + "init([2], x) + x": r"2:1: init takes a shape and a number",
    X + "init([99999, 99999], 1.0) + x": r"2:1: init of \[99999, 99999\]; give every axis .* 1048576 elements",
    X + "mbconv(x, [x, x], x, x)": r"2:1: group 1 of mbconv is not \[F, W, B\]",
    X + "let y = [x, x] in y": r"2:9: several values where one is needed",
    X + "x[2]": r"2:3: elements 2 to 3 of an axis of 2",
    X + "x[0, 0, 0]": r"2:9: 3 indices of a tensor with 2 axes",
    X + "x[]": r"2:4: an index expected",
    X + "x[0.5]": r"2:3: an index must be a whole number",
    X + "x[x]": r"2:3: an index must be a whole number",
    X + "x[0:+0]": r"2:3: elements 0 to 0",
    X + "let x[0] = x in x": r"2:1: a value of shape \[2, 3\] for a part of shape \[1, 3\]",
    X + "let a, b = x in a": r"2:1: one value for the 2 names a, b",
    X + "let a, b, c = Split(x, [1, 1], axis=0) in a": r"2:15: node 'a' \(Split\): parts",
    X + "x, x": r"2:1: a program has one result",
    X + "$(i = [3:3]) x": r"2:10: no steps from 3 to 3",
    X + "$(i = [0:3]) x[i]": r"2:16: elements 2 to 3 of an axis of 2",
    X + "$(i = [0:9999999]) x": r"2:1: more than 16384 operations",
    X + "loop (t = [0:2]) { x[t] }": r"2:1: a loop without state has no result",
    X + "loop (t = [0:3], h = x[0]) { h + x[t] }": r"2:1: steps 0 to 3 along axis 0 of 'x' \[2, 3\]",
    X + "loop (t = [0:2], h = x[0]) { h + t }": r"2:34: the step 't' is not a number",
    X + "loop (t = [0:2], h = x[0]) { h + x[t] + x[t + 1] }": r"2:43: the step 't' is not a number",
    X + "loop (t = [0:2], h = x[0]) { let y = x[t] in h + (x + x)[t] }": r"2:57: the loop can not read this by rows",
    X + "loop (t = [0:2], h = x[0]) { x[t], h }": r"2:30: 2 next states for 1 states",
    X + "loop (t = [0:2], h = x[0]) { x[t:+1] }": r"2:1: node 'result' \(Scan\): a state changes its shape",
    X + "loop (t = [0:2], h = x[0]; r = x[0]) { h + r }": r"2:33: a row expected, such as r = x\[t\]",
    X + "let a = loop (t = [0:2], h = x[0]) { x[t]; h } in a": r"2:9: node 'a' \(Scan\): takes 1 of 2 results",
    X + "x >= 0 ? x": r"2:11: ':' expected between the two values",
    X + "(" * 200 + "x" + ")" * 200: r"2:61: nested deeper than 60 levels",
    X + "-" * 5000 + "x": r"2:\d+: nested deeper than 60 levels",
    X + "x" + " + x" * 5000: r"2:403: more than 100 operators in a row",
    X + "x" + "^T" * 5000: r"2:202: more than 100 indices in a row",
    X + "let y = (2, 3) in [0.0, 1.0] in y": r"2:9: its values are in m.npz, which is missing",
    X + 'Clip(x, a="b': r"2:11: '\"' does not belong here",
}


@pytest.mark.parametrize("text", ERRORS, ids=[f"{i}: {text[-40:]!r}" for i, text in enumerate(ERRORS)])
def test_where_the_error_is(text: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        from_text(text, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    import re

    assert re.search(rf"^{re.escape(str(tmp_path))}/m\.dsl: ?(?:{ERRORS[text]})", message), message


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    for content, message in (
        (b"input x\xff", r"m.dsl: not UTF-8 at byte 7"),
        (b"/" * (1 << 21), r"m.dsl: 2097152 B, more than the 1048576 B"),
    ):
        (tmp_path / "m.dsl").write_bytes(content)
        with pytest.raises(ModelError, match=message):
            load_model(tmp_path / "m.dsl")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none.dsl: no such file"):
        load_model(tmp_path / "none.dsl")
    with pytest.raises(ModelError, match=r"m.txt: not a model file; known are .onnx, .dsl, .tflite"):
        load_model(tmp_path / "m.txt")


def test_loops_stay_loops(tmp_path: Path) -> None:
    model = from_text(X + "loop (t = [0:2], h = init([3], 0.0)) { tanh(h + x[t]) }", tmp_path)
    assert [node.op for node in model.graph.walk()] == ["Scan", "Add", "Tanh"]


def test_a_row_read_twice_is_one_row(tmp_path: Path) -> None:
    model = from_text(X + "loop (t = [0:2], h = init([3], 0.0)) { h + x[t] <*> x[t] }", tmp_path)
    (loop,) = model.graph.nodes
    assert len(loop.inputs) == 2


def test_comments_and_spaces(tmp_path: Path) -> None:
    text = "// a comment\r\n\tinput x = (2) in // (shape)\n\n  let y = x+x//sum\n in y // the end"
    assert from_text(text, tmp_path).graph.outputs == ("y",)


def test_a_declared_range_is_kept(tmp_path: Path) -> None:
    from tinyhil.harness.job.inputs import calibrated

    model = from_text("input x = (2) in [-4.0, 1.0] in x + x", tmp_path)
    ranges = calibrated(model, np.array([[0.5, 2.0], [-1.0, 0.0]]), {"name": "here"})
    assert ranges.values["x"] == (-4.0, 2.0)
    others = calibrated(model, np.array([[0.5, 2.0], [-1.0, 0.5]]), {"name": "here"})
    assert others.source["samples"] == 2
    assert others.source["sha256"] != ranges.source["sha256"]


# ---- the worked example of the paper's appendix B


def test_the_linear_classifier_of_the_paper() -> None:
    model = load_model(EXAMPLES / "linear_classifier.dsl")
    x = np.array([[[1.185109], [-2.206466]]], np.float32)
    wanted = -2.139562 * 1.185109 + 1.885351 * -2.206466 + 0.146048
    assert evaluate(model.graph, x).item() == pytest.approx(wanted, rel=1e-6)
    assert wanted == pytest.approx(-6.549199, abs=5e-4)  # the paper's t2


@pytest.mark.parametrize(
    ("widths", "ram_bytes"), [({}, 4), ({"t2": "fixed8"}, 3), ({"t1": "fixed8", "t2": "fixed8"}, 2)]
)
def test_the_memory_of_the_linear_classifier(widths: dict[str, str], ram_bytes: int) -> None:
    """All 16 bits need 4 B; within 3 B t1 keeps 16 bits and t2 has 8."""
    from tinyhil.memplan.arena.placement import place

    model = load_model(EXAMPLES / "linear_classifier.dsl")
    x = np.array([[[1.185109], [-2.206466]]], np.float32)
    program = lower(model.graph, Assignment("fixed16", widths), calibrate(model.graph, x, {}))
    placed = place(program, {"in-place", "gaps", "order"})
    assert placed.plan.peak_bytes == ram_bytes
    run = run_reference(program, quantize_inputs(program, x)[0])
    result = float(dequantize_outputs(program, run.outputs).item())
    assert result == pytest.approx(-6.549529, abs=0.07 if widths else 0.002)
    assert result < 0
