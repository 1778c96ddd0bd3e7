"""ONNX -> DSL -> graph -> ONNX -> graph: the same floats and the same integer program, whatever the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from dsl_models import from_text, through_dsl, through_onnx, without_names
from given_data import data_file
from onnx_models import compiled, graph, model, node, onnxruntime_outputs, samples_for, simple
from onnxruntime.quantization import QuantFormat
from quantized_models import quantized
from random_models import random_model
from scan_models import SCANS, WIDTH, cell, classifier, scan, weights
from test_ops_shapes import MODELS as SHAPES
from test_ops_windows import MODELS as WINDOWS

from tinyhil.errors import ModelError
from tinyhil.frontend.listing import Model
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.zoo import find_model, zoo_names
from tinyhil.harness.offline.convert import convert_model
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program
from tinyhil.references.evaluate import evaluate

SHARED = [
    pytest.param(path, marks=pytest.mark.data(path))
    for name in ("mlperftiny_kws_dscnn", "mlperftiny_ad_autoencoder", "resnet20_cifar10", "squeezenet1_1")
    for path in (f"models/{name}.onnx",)
]


def read(proto: onnx.ModelProto, folder: Path) -> Model:
    """The model as every command reads it: what is written is read back through all of the front end, too."""
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return load_model(path)


def odd_names() -> onnx.ModelProto:
    """Names as exporters write them, names that are keywords, and names that become the same word."""
    nodes = [node("MatMul", "/in/x:0 let", "/a/MatMul_output_0"), node("Relu", "/a/MatMul_output_0", "0")]
    nodes += [node("Add", "0 a.b", "a/b"), node("Sub", "a/b a_b", "loop"), node("Tanh", "loop", "in")]
    constants = {"let": weights(4, 2), "a.b": weights(1, 2), "a_b": weights(2)}
    return model(graph(nodes, {"/in/x:0": (1, 4)}, "in", constants))


def numbers() -> onnx.ModelProto:
    """Constants that must come back bit by bit: extreme, negative zero, used once and twice, with and without axes."""
    nodes = [node("Mul", "x third", "a"), node("Mul", "a third", "b"), node("Add", "b tiny", "c")]
    nodes += [node("Sub", "c many", "d"), node("Add", "d minus", "y")]
    third = np.array(1 / 3)
    tiny, many = np.array(-1.17e-38), np.nextafter(np.float32(1), np.float32(2), dtype=np.float32) * np.ones((3, 40))
    return simple(nodes, {"x": (3, 40)}, {"third": third, "tiny": tiny, "many": many, "minus": np.full(40, -0.0)})


def unequal_numbers() -> onnx.ModelProto:
    wide = np.random.default_rng(3).normal(size=(6, 7)).astype(np.float32) * np.float32(1e-3)
    return simple([node("MatMul", "x w", "a"), node("Add", "a b", "y")], {"x": (1, 6)}, {"w": wide, "b": wide[0, :7]})


O_IS_TANH = node("Tanh", "h_next", "o")


def collected() -> onnx.ModelProto:
    """The end of one state of two, and what the loop collects beside them."""
    body = cell(
        [node("MatMul", "x_t W", "xw"), node("Add", "h xw", "h_next"), node("Relu", "c", "c_next"), O_IS_TANH],
        {"h": (1, 4), "c": (1, 4), "x_t": (1, WIDTH)},
        "h_next c_next o",
    )
    loop = [scan("h0 h0 x", "h_n c_n all", body), node("ReduceMax", "all", "top", axes=[0], keepdims=0)]
    return classifier([*loop, node("Add", "top c_n", "end")], state="end")


# what only the DSL says: written as ONNX and back it must stay the same
TEXTS = {
    "repeat": "input x = (1, 3) in loop (t = [0:7], h = x) { 0.5 * h + x }",
    "repeat in a loop": "input x = (4, 3) in loop (i = [0:4], h = x[0]) { let r = x[i] in "
    "loop (j = [0:2], h) { tanh(0.5 * h + r) } }",
    "two repeated states": "input x = (1, 3) in "
    "let a, b = loop (t = [0:3], a = x, b = 0.5 * x) { b, a + b } in a <*> b",
    "a path in a tree": "input x = (1, 2) in let v = [[1.5, -1.0], [0.5, 2.0], [3.0, 1.0]] in "
    "let k = loop (t = [0:1], k = 0) { let right = Cast(Less(x[0, 1], 0.0), to=7) in 2 * k + 1 + right } in v[k]",
    "backward": "input x = (5, 2) in let h, all = loop (t = [5:0], h = x[0]) { tanh(h + x[t]); h } in all * h",
    "conditional": "input x = (1, 3) in let y = 2.0 * x in y >= 0.5 ? x : x <*> y",
    "states returned as they are": "input x = (3, 2) in let a, b = loop (t = [0:3], a = x[0], b = x[1]) { b, x[t] } "
    "in a + b",
    "condition kept": "input x = (3, 2) in let c = Greater(x, 0.0) in Where(Not(c), x, 0.5 * x)",
}
GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {
    **SCANS,
    **{made.__name__: made for made in (odd_names, numbers, unequal_numbers, collected)},
}


def inputs_of(loaded: Graph, count: int = 6) -> np.ndarray:
    return samples_for(loaded.shapes[loaded.inputs[0]], count)


def same(first: Model, second: Model, folder: Path) -> None:
    x = inputs_of(first.graph)
    np.testing.assert_array_equal(evaluate(first.graph, x), evaluate(second.graph, x))
    for default in ("fixed16", "fixed8"):
        assert program_of(first, x, default) == program_of(second, x, default)


def program_of(model: Model, x: np.ndarray, default: str) -> object:
    """The program without its names, or what the refusal says of it."""
    try:
        program: Program = compiled(model.graph, x, default)
    except ModelError as error:
        return str(error).partition("(")[2]  # the node has another name
    return without_names(program)


def round_trip(first: Model, folder: Path) -> None:
    second = through_dsl(first, folder, "second")
    same(first, second, folder)
    same(first, through_onnx(second, folder, "third"), folder)


@pytest.mark.parametrize("name", GRAPHS)
def test_loops_and_names(name: str, tmp_path: Path) -> None:
    round_trip(read(GRAPHS[name](), tmp_path), tmp_path)


@pytest.mark.parametrize("style", [QuantFormat.QDQ, QuantFormat.QOperator], ids=str)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_quantized_models(style: QuantFormat, kind: str, tmp_path: Path) -> None:
    """Their integers, scales and zero points come back in either language, and onnxruntime reads what is written."""
    proto = quantized(tmp_path, style, kind)
    first = read(proto, tmp_path)
    round_trip(first, tmp_path)
    again, x = onnx.load(tmp_path / "third.onnx"), inputs_of(first.graph)
    np.testing.assert_array_equal(*(onnxruntime_outputs(made, x, optimized=False) for made in (proto, again)))


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name: str, tmp_path: Path) -> None:
    first = from_text(TEXTS[name], tmp_path)
    round_trip(first, tmp_path)
    same(first, through_onnx(first, tmp_path), tmp_path)
    proto = onnx.load(tmp_path / "third.onnx")
    x = inputs_of(first.graph)
    floats = evaluate(first.graph, x).reshape(len(x), -1)
    np.testing.assert_allclose(floats, onnxruntime_outputs(proto, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_operators(name: str, tmp_path: Path) -> None:
    nodes, shape, constants = SHAPES[name]
    round_trip(read(simple(nodes, {"x": shape}, constants), tmp_path), tmp_path)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, tmp_path: Path) -> None:
    round_trip(read(WINDOWS[name](name)[0], tmp_path), tmp_path)


@pytest.mark.parametrize("name", zoo_names())
def test_the_zoo(name: str, tmp_path: Path) -> None:
    round_trip(load_model(find_model(name).path), tmp_path)


def random_round_trips(first: int, count: int, folder: Path) -> int:
    done = 0
    for seed in range(first, first + count):
        try:
            made = read(random_model(np.random.default_rng(seed)), folder)
        except ModelError:  # e.g. the output became constant
            continue
        round_trip(made, folder)
        done += 1
    return done


def test_random_models(tmp_path: Path) -> None:
    assert random_round_trips(1000, 40, tmp_path) > 20


@pytest.mark.parametrize("side", [3, 6])
@pytest.mark.parametrize("op", ["Add", "Where"])
def test_masks_of_minus_infinity(op: str, side: int, tmp_path: Path) -> None:
    """In the text, and, where they are larger, in the .npz."""
    upper = np.triu(np.full((side, side), -np.inf, np.float32), 1)
    if op == "Add":
        nodes, constants = [node("Add", "x mask", "inf")], {"mask": upper}
    else:
        nodes = [node("Cast", "shown", "kept", to=onnx.TensorProto.BOOL), node("Where", "kept x far", "inf")]
        constants = {"shown": (upper == 0).astype(np.float32), "far": np.full((side, side), -np.inf)}
    proto = simple([*nodes, node("Softmax", "inf", "y", axis=-1)], {"x": (1, side, side)}, constants)
    onnx.save(proto, tmp_path / "masked.onnx")
    first = load_model(tmp_path / "masked.onnx")
    convert_model(str(tmp_path / "masked.onnx"), tmp_path / "masked.dsl")
    second = load_model(tmp_path / "masked.dsl")
    x = inputs_of(first.graph, 2)
    np.testing.assert_array_equal(evaluate(first.graph, x), evaluate(second.graph, x))


@pytest.mark.slow
def test_many_random_models(tmp_path: Path) -> None:
    assert random_round_trips(2000, 1000, tmp_path) > 500


@pytest.mark.slow
@pytest.mark.parametrize("path", SHARED)
def test_models_of_others(path: str, tmp_path: Path) -> None:
    first = load_model(data_file(path))
    x = inputs_of(first.graph, 2)
    second = through_dsl(first, tmp_path)
    np.testing.assert_array_equal(evaluate(first.graph, x), evaluate(second.graph, x))
    third = through_onnx(second, tmp_path)
    np.testing.assert_array_equal(evaluate(first.graph, x), evaluate(third.graph, x))


def test_a_text_written_twice_is_the_same(tmp_path: Path) -> None:
    from tinyhil.frontend.dsl_writer import write_dsl

    first = load_model(find_model("fastgrnn_har").path)
    text, arrays = write_dsl(first.listing, "t")
    again, arrays_again = write_dsl(through_dsl(first, tmp_path).listing, "t")
    assert text == again
    assert list(arrays) == list(arrays_again)


def test_the_artefact_is_readable() -> None:
    from tinyhil.frontend.dsl_writer import write_dsl

    text, arrays = write_dsl(load_model(find_model("fastgrnn_har").path).listing, "fastgrnn_har")
    lines = text.splitlines()
    assert len(lines) < 40
    assert max(map(len, lines)) < 120
    assert "  loop (t = [0:128], h = h_0; x_t = x[:, t]) {" in lines
    assert [line for line in lines if line.strip().startswith("let z = sigmoid(c_z) in")]
    assert set(arrays) == {"W", "U1", "U2", "b_z", "b_h", "fc_w"}


def test_arrays_in_the_side_file_are_checked(tmp_path: Path) -> None:
    text = "input x = (1, 2) in\nlet W = (2, 3) in [-1, 1] in\nx * W\n"
    good = from_text(text, tmp_path, {"W": np.ones((2, 3))})
    assert good.graph.shapes[good.graph.outputs[0]] == (1, 3)
    for arrays, message in (
        ({"V": np.ones((2, 3))}, r"m.dsl:2:9: m.npz has no array 'W'; it holds V"),
        ({"W": np.ones((3, 2))}, r"2:9: 'W' is declared as \[2, 3\], its array has \[3, 2\]"),
        ({"W": np.full((2, 3), 1.5)}, r"2:9: 'W' is declared in \[-1, 1\], its array holds 1.5 to 1.5"),
        ({"W": np.full((2, 3), np.nan)}, "2:9: weights 'W' hold 6 values that are NaN"),
        ({"W": np.array([[0, np.nan, 0]] * 2)}, "2:9: weights 'W' hold 2 values that are NaN"),
        ({"W": np.full((2, 3), np.inf)}, r"2:9: 'W' is declared in \[-1, 1\], its array holds inf to inf"),
        ({"W": np.full((2, 3), "a")}, "2:9: weights 'W' hold <U1 values"),
        ({"W": np.full((2, 3), None)}, "2:9: m.npz: not a readable .npz"),
    ):
        with pytest.raises(ModelError, match=message):
            from_text(text, tmp_path, arrays)
    (tmp_path / "m.npz").write_bytes(b"PK\3\4 no")
    with pytest.raises(ModelError, match=r"2:9: m.npz: not a readable .npz"):
        from_text(text, tmp_path)
    (tmp_path / "m.npz").unlink()
    with pytest.raises(ModelError, match=r"2:9: its values are in m.npz, which is missing"):
        from_text(text, tmp_path)


def test_the_hash_covers_the_side_file(tmp_path: Path) -> None:
    text = "input x = (1, 2) in\nlet W = (2, 3) in [-1, 1] in\nx * W\n"
    hashes = {from_text(text, tmp_path, {"W": np.full((2, 3), v)}).sha256 for v in (0.5, 0.25, 0.5)}
    assert len(hashes) == 2
