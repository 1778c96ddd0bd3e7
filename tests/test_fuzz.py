"""Whatever is in a model file: it is read, or refused in one line. No traceback, no hang, no crash."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dsl_models import through_dsl, through_onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutants import dsl_mutant, limited, onnx_mutant, tflite_mutant
from onnx import TensorProto, helper
from onnx_models import compiled, graph, model, node, samples_for, simple
from scan_models import cell, classifier, scan

from tinyhil.errors import HilError
from tinyhil.frontend.listing import Model
from tinyhil.frontend.load import load_model
from tinyhil.language.graph import element_count
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import quantize_inputs, run_reference

FEW, MANY = 250, 10_000
MAX_RUN_ELEMENTS = 20_000  # of all values together: larger models are read, not run


def feed(content: bytes, suffix: str, folder: Path) -> bool:
    """Read `content`, run it if it is small, write it in the other language; whether it was accepted."""
    path = folder / f"m{suffix}"
    path.write_bytes(content)
    try:
        with limited():
            loaded = load_model(path)
            if sum(element_count(shape) for shape in loaded.graph.all_shapes().values()) <= MAX_RUN_ELEMENTS:
                use(loaded, folder, rewrites=suffix != ".tflite")
    except HilError as error:
        said = str(error)
    except Exception as error:
        culprit = folder / f"culprit{suffix}"
        culprit.write_bytes(content)
        raise AssertionError(f"{culprit}: {error!r}") from error
    else:
        return True
    assert "\n" not in said
    assert len(said) < 3000
    return False


def use(loaded: Model, folder: Path, rewrites: bool) -> None:
    """`rewrites`: whether other languages have all that its own has."""
    x = samples_for(loaded.graph.shapes[loaded.graph.inputs[0]], count=2)
    with np.errstate(all="ignore"):
        program = compiled(loaded.graph, x)
        run_reference(program, quantize_inputs(program, x)[0])
        if not rewrites:
            return
        again = through_onnx(through_dsl(loaded, folder), folder)
        np.testing.assert_allclose(evaluate(again.graph, x), evaluate(loaded.graph, x), rtol=1e-4, atol=1e-5)


def fuzz(make: Callable[[random.Random], bytes], suffix: str, count: int, folder: Path) -> int:
    """Hypothesis draws `count` seeds; returns how many mutants were accepted."""
    accepted = 0

    @settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.integers(min_value=0, max_value=1 << 60))
    def run(seed: int) -> None:
        nonlocal accepted
        accepted += feed(make(random.Random(seed)), suffix, folder)

    run()
    return accepted


def dsl_bytes(chance: random.Random) -> bytes:
    return dsl_mutant(chance).encode(errors="surrogatepass")


@pytest.mark.parametrize(("make", "suffix"), [(onnx_mutant, ".onnx"), (dsl_bytes, ".dsl")], ids=["onnx", "dsl"])
def test_mutants(make: Callable[[random.Random], bytes], suffix: str, tmp_path: Path) -> None:
    assert fuzz(make, suffix, FEW, tmp_path) > FEW // 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "suffix", "count"),
    [(onnx_mutant, ".onnx", MANY), (dsl_bytes, ".dsl", MANY), (tflite_mutant, ".tflite", 2 * MANY)],
    ids=["onnx", "dsl", "tflite"],
)
def test_many_mutants(make: Callable[[random.Random], bytes], suffix: str, count: int, tmp_path: Path) -> None:
    assert fuzz(make, suffix, count, tmp_path) > count // 50


# ---- bombs: small files that ask for much

X = {"x": (1, 4)}


def raw(nodes: list[onnx.NodeProto], constants: dict[str, Any] | None = None, shape: Any = (1, 4)) -> onnx.ModelProto:
    """Without shape inference, which would not survive."""
    return helper.make_model(
        graph(nodes, {"x": shape}, {"y": None}, constants), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )


def nested(levels: int) -> onnx.ModelProto:
    body = cell()
    for level in range(levels):
        inner = scan("h x", f"n{level}", body, f"s{level}")
        body = cell([inner, node("Tanh", f"n{level}", f"o{level}")], outputs=f"o{level}")
    return classifier([scan("h0 x", "h_n", body)])


def doubling(op: str, start: str) -> onnx.ModelProto:
    nodes = [node("Concat", f"{start} {start}", "v0", axis=0)]
    nodes += [node(op, f"v{i} v{i}", f"v{i + 1}", axis=0) for i in range(50)]
    return raw([*nodes, node("Add", "x v50", "y")], {"c": np.ones((1, 4))})


def endless(steps: int, levels: int) -> onnx.ModelProto:
    """Loops in loops."""
    level = [node("Tanh", "h0", "o0")]
    state = "h0"
    for number in range(levels):
        body = graph(
            [*level, node("Identity", f"c{number}", f"d{number}")],
            {f"h{number}": (1, 4)},
            {f"o{number}": (1, 4)},
            name=f"b{number}",
        )
        body.input.insert(0, helper.make_tensor_value_info(f"c{number}", TensorProto.BOOL, ()))
        body.input.insert(0, helper.make_tensor_value_info(f"i{number}", TensorProto.INT64, ()))
        body.output.insert(0, helper.make_tensor_value_info(f"d{number}", TensorProto.BOOL, ()))
        state = "x" if number == levels - 1 else f"h{number + 1}"
        out = "y" if number == levels - 1 else f"o{number + 1}"
        level = [helper.make_node("Loop", ["n", "", state], [out], name=f"loop{number}", body=body)]
    return raw(level, {"n": np.array(steps)})


def without_data(*dims: int) -> onnx.ModelProto:
    proto = simple([node("MatMul", "x w", "y")], X, {"w": np.ones((4, 2))})
    proto.graph.initializer[0].dims[:] = dims
    return proto


def same_name(count: int) -> onnx.ModelProto:
    return raw([node("Relu", "x" if i == 0 else f"v{i - 1}", f"v{i}") for i in range(count)] + [node("Neg", "v9", "y")])


BIG = 1 << 40
BOMBS: dict[str, Callable[[], onnx.ModelProto | bytes]] = {
    "nested loops": lambda: nested(12),
    "nested beyond protobuf": lambda: nested(30),
    "doubling constants": lambda: doubling("Concat", "c"),
    "doubling values": lambda: doubling("Concat", "x"),
    "constant of a huge shape": lambda: raw(
        [node("ConstantOfShape", "s", "c"), node("Add", "x c", "y")], {"s": [BIG, 4]}
    ),
    "expanded": lambda: raw([node("Expand", "x s", "y")], {"s": [BIG, 4]}),
    "expanded constant": lambda: raw([node("Expand", "c s", "e"), node("Add", "x e", "y")], {"c": 1.0, "s": [BIG, 4]}),
    "expanded beyond int64": lambda: raw([node("Expand", "x s", "y")], {"s": [BIG, BIG, BIG, BIG, 4]}),
    "padded": lambda: raw([node("Pad", "x s", "y")], {"s": [0, BIG, 0, BIG]}),
    "tiled": lambda: raw([node("Tile", "x s", "y")], {"s": [BIG, BIG]}),
    "range": lambda: raw([node("Range", "a b c", "r"), node("Add", "x r", "y")], {"a": 0, "b": BIG, "c": 1}),
    "range of no step": lambda: raw([node("Range", "a b c", "r"), node("Add", "x r", "y")], {"a": 0, "b": 9, "c": 0}),
    "resized": lambda: raw([node("Resize", "x e s", "y")], {"e": np.ones(0), "s": [1.0, 1.0, 1e9, 1e9]}, (1, 1, 4, 4)),
    "outer sum": lambda: raw(
        [node("Add", "a b", "c"), node("Add", "x c", "y")], {"a": np.ones((60000, 1)), "b": np.ones((1, 60000))}
    ),
    "outer sum at run time": lambda: raw([node("Add", "x b", "y")], {"b": np.ones((1, 60000))}, (60000, 1)),
    "huge window": lambda: raw([node("MaxPool", "x", "y", kernel_shape=[2000, 2000])], None, (1, 64, 4000, 4000)),
    "huge kernel": lambda: raw(
        [node("Conv", "x w", "y", pads=[500] * 4)], {"w": np.ones((1, 1, 900, 900))}, (1, 1, 900, 900)
    ),
    "huge dilation": lambda: raw(
        [node("Conv", "x w", "y", dilations=[BIG, BIG], pads=[BIG] * 4)], {"w": np.ones((1, 1, 3, 3))}, (1, 1, 9, 9)
    ),
    "huge input": lambda: raw([node("Relu", "x", "y")], None, (1, BIG, BIG)),
    "huge padding": lambda: raw([node("Conv", "x w", "y", pads=[BIG] * 4)], {"w": np.ones((1, 1, 3, 3))}, (1, 1, 9, 9)),
    "constant convolution": lambda: raw(
        [node("Conv", "c w", "d"), node("ReduceMax", "d", "m"), node("Add", "x m", "y")],
        {"c": np.ones((1, 1, 700, 700)), "w": np.ones((8, 1, 350, 350))},
    ),
    "long loop": lambda: endless(BIG, 1),
    "loops in loops": lambda: endless(1 << 15, 4),
    "no steps": lambda: endless(0, 1),
    "backward steps": lambda: endless(-5, 1),
    "weights without data": lambda: without_data(1 << 31, 1 << 31),
    "weights of negative size": lambda: without_data(-1, -8),
    "weights of overflowing size": lambda: without_data(1 << 32, 1 << 32, 0),
    "many axes": lambda: raw([node("Reshape", "x s", "y")], {"s": [1] * 300 + [4]}),
    "many nodes": lambda: same_name(20_000),
    "many parts": lambda: raw(
        [node("Split", "x", " ".join(f"p{i}" for i in range(5000)), axis=0), node("Neg", "p7", "y")], None, (5000, 4)
    ),
    "power of everything": lambda: raw([node("Pow", "x e", "y")], {"e": 1e30}),
    "a zip of nothing": lambda: b"PK\x03\x04" + bytes(100),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str, tmp_path: Path) -> None:
    made = BOMBS[name]()
    feed(made if isinstance(made, bytes) else made.SerializeToString(), ".onnx", tmp_path)


def test_a_model_of_model_size_is_no_bomb(tmp_path: Path) -> None:
    """The limits are far from what is used."""
    proto = model(graph([node("MatMul", "x w", "y")], {"x": (1, 3000)}, "y", {"w": np.ones((3000, 1000))}))
    assert feed(proto.SerializeToString(), ".onnx", tmp_path)


HEAD = "input x = (2, 3) in\n"
TEXT_BOMBS = {
    "parentheses": HEAD + "(" * 100_000,
    "brackets": HEAD + "[" * 100_000,
    "signs": HEAD + "-" * 100_000 + "x",
    "sums": HEAD + "$(i = [0:60000]) $(j = [0:60000]) x",
    "loops": HEAD + "loop (t = [0:2], h = x[0]) { " * 500 + "x[t]" + "}" * 500,
    "long loop": HEAD + "loop (t = [0:999999999999], h = x) { h + x }",
    "loops in loops": HEAD + "loop (t = [0:9999], h = x) { loop (u = [0:9999], h) { h + x } }",
    "lets": HEAD + "let x = x + 1.0 in " * 5000 + "x",
    "doubling": HEAD + "let x = Concat(x, x, axis=0) in " * 60 + "x",
    "conditions": HEAD + "x >= 0 ? " * 5000 + "x",
    "a huge input": "input x = (999999999, 999999999) in relu(x)",
    "a huge array": HEAD + "let w = (999999999, 999999999) in [0, 1] in x * w",
    "numbers": HEAD + "x + [" + ", ".join(["0.5"] * 30_000) + "]",
    "spaces": HEAD + " " * 900_000 + "x + x",
    "comments": HEAD + "//\n" * 300_000 + "x + x",
    "one long name": HEAD + "a" * 900_000,
    "integers": HEAD + "x[" + "9999999999 * " * 90 + "1]",
    "names": HEAD + "".join(f"let n{i} = relu(x) in " for i in range(5000)) + "n7",
    "huge pads": "input x = (1, 1, 4, 4) in maxpool(x, {k 2 2}, {p 1099511627776 1099511627776 9 9}, {s 1 1})",
    "huge shape": HEAD + "init([1048576, 1048576], 1.0) + x",
}


@pytest.mark.parametrize("name", TEXT_BOMBS)
def test_text_bombs(name: str, tmp_path: Path) -> None:
    feed(TEXT_BOMBS[name].encode(), ".dsl", tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x00" * 1000, b"\xff\xfe", bytes(range(256)) * 50, b"[" * 65_536])
@pytest.mark.parametrize("suffix", [".onnx", ".dsl"])
def test_no_model_at_all(content: bytes, suffix: str, tmp_path: Path) -> None:
    assert not feed(content, suffix, tmp_path)


def test_a_zip_bomb_beside_a_text(tmp_path: Path) -> None:
    """A few kilobytes of .npz that say they are gigabytes."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "m.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("w.npy", bytes(1 << 24))
    packed = (tmp_path / "m.npz").read_bytes()
    lying = packed.replace((1 << 24).to_bytes(4, "little"), (0xFFFFFF00).to_bytes(4, "little"))
    for content in (packed, lying):
        (tmp_path / "m.npz").write_bytes(content)
        assert not feed(b"input x = (2) in let w = (2) in [0, 1] in x + w", ".dsl", tmp_path)
