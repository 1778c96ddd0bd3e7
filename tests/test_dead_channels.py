"""Channels whose weights vanish beside their bias, as batch normalisation leaves them behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from given_data import SHIPPED
from onnx_models import load, node, simple

from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.frontend.onnx import load_onnx
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

CHANNELS = 6
X = np.random.default_rng(0).uniform(-1, 1, size=(20, 3, 5, 5)).astype(np.float32)
# The worst error in units of the largest output, with weights and values of so many bits
CLOSE = {"int8": 0.02, "int16x8": 0.01, "fixed8": 0.03, "fixed8pc": 0.03, "fixed16": 1e-3, "fixed16pc": 1e-3}
CLOSE |= {"fixed32": 1e-3, "float32": 1e-5, "bfloat16": 0.02, "float16": 0.01, "posit16es1": 0.01}


def scaled_rows(shape: tuple[int, ...], scales: tuple[float, ...]) -> np.ndarray:
    weights = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    return weights * np.resize(np.array(scales, np.float32), (len(weights), *[1] * (len(shape) - 1)))


def layers(kind: str, scales: tuple[float, ...]):  # type: ignore[no-untyped-def]
    """A layer whose output channels have weights of these scales, and a bias."""
    bias = np.linspace(-2, 1, 3 if kind == "depthwise" else CHANNELS).astype(np.float32)
    if kind == "dense":
        nodes = [node("Flatten", "x", "f"), node("Gemm", "f w b", "y", transB=1)]
        return simple(nodes, {"x": (1, 3, 5, 5)}, {"w": scaled_rows((CHANNELS, 75), scales), "b": bias})
    group, shape = (3, (3, 1, 3, 3)) if kind == "depthwise" else (1, (CHANNELS, 3, 3, 3))
    nodes = [node("Conv", "x w b", "y", pads=[1, 1, 1, 1], group=group)]
    return simple(nodes, {"x": (1, 3, 5, 5)}, {"w": scaled_rows(shape, scales), "b": bias})


@pytest.mark.every_cell
@pytest.mark.parametrize("scales", [(1.0, 0.0, 1e-30), (1e-30,), (0.0,), (1e-9, 1.0)], ids=str)
@pytest.mark.parametrize("kind", ["conv", "depthwise", "dense"])
@pytest.mark.parametrize("name", [*CLOSE, "fp8e4m3", "fp8e4m3pc", "posit8es2", "nf4"])
def test_a_scale_has_a_floor_at_which_the_bias_fits(
    name: str, kind: str, scales: tuple[float, ...], tmp_path: Path
) -> None:
    g = load(layers(kind, scales), tmp_path)
    program = lower(g, Assignment(name), calibrate(g, X, {}))
    found = dequantize_outputs(program, run_reference(program, quantize_inputs(program, X)[0]).outputs)
    expected = evaluate(g, X).reshape(len(X), -1)
    assert np.abs(found - expected).max() <= CLOSE.get(name, 0.25) * np.abs(expected).max()


# ---- constant channels are folded, and what only they feed


def separable(pads: int = 1, dead: tuple[int, ...] = (1, 4), bias: float = -0.5, behind: float = 0.0):  # type: ignore[no-untyped-def]
    """Pointwise, depthwise, pointwise, dense: channels `dead` of the first have weights of 1e-30 and this bias, and
    `behind` is added to the biases of the second."""
    w1, b1 = scaled_rows((CHANNELS, 3, 1, 1), (1.0,)), np.full(CHANNELS, 0.1, np.float32)
    w1[list(dead)] *= 1e-30
    b1[list(dead)] = bias
    constants = {"w1": w1, "b1": b1, "w2": scaled_rows((CHANNELS, 1, 3, 3), (1.0,))}
    b2 = np.linspace(-1, 2, CHANNELS)
    b2[list(dead)] += behind
    constants |= {"b2": b2, "w3": scaled_rows((5, CHANNELS, 1, 1), (1.0,))}
    size = 5 if pads else 3
    constants["w4"] = scaled_rows((5 * size * size, 2), (1.0,))
    nodes = [
        node("Conv", "x w1 b1", "c1"),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2 b2", "c2", group=CHANNELS, pads=[pads] * 4),
        node("Relu", "c2", "r2"),
        node("Conv", "r2 w3", "c3"),
        node("Clip", "c3 low high", "r3"),
        node("Flatten", "r3", "f"),
        node("MatMul", "f w4", "y"),
    ]
    return simple(nodes, {"x": (1, 3, 5, 5)}, {**constants, "low": np.float32(0), "high": np.float32(6)})


def folded(proto: onnx.ModelProto, folder: Path) -> tuple[Graph, Graph]:
    """The graph as written and as the compiler takes it; both compute the same."""
    written = load(proto, folder)
    taken = load_model(folder / "m.onnx").graph
    expected = evaluate(written, X)
    assert np.abs(evaluate(taken, X) - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())
    return written, taken


def channels_of(g: Graph, *names: str) -> list[int]:
    return [g.shapes[name][1] for name in names]


@pytest.mark.parametrize(
    ("pads", "bias", "behind", "left"),
    [
        (1, -0.5, 0.0, 4),  # Relu never opens; zeros of the border are zeros, too
        (0, -0.5, 0.0, 4),
        (0, 0.5, 0.0, 4),
        (1, 0.5, 9.0, 6),  # not constant: the depthwise layer sees its border
        (1, 0.5, -9.0, 4),  # and a Relu that opens nowhere makes one number of all it sees
    ],
)
def test_constant_channels_are_left_out(pads: int, bias: float, behind: float, left: int, tmp_path: Path) -> None:
    _, taken = folded(separable(pads, bias=bias, behind=behind), tmp_path)
    assert channels_of(taken, "c1", "r1", "c2", "r2") == [left] * 4
    assert channels_of(taken, "c3", "r3") == [5, 5]


def test_a_relu_that_never_opens_by_its_weights(tmp_path: Path) -> None:
    """Operands of a Relu are not negative: with weights and bias that are not positive nothing comes out."""
    w1, w2 = scaled_rows((4, 3, 1, 1), (1.0,)), scaled_rows((4, 4, 1, 1), (1.0,))
    w2[1] = -np.abs(w2[1])
    bias = np.array([1, -0.1, 1, 1], np.float32)
    nodes = [node("Conv", "x w1", "a"), node("Relu", "a", "b"), node("Conv", "b w2 c", "d"), node("Relu", "d", "e")]
    nodes += [node("GlobalAveragePool", "e", "g"), node("Flatten", "g", "f"), node("Gemm", "f w3", "y", transB=1)]
    constants = {"w1": w1, "w2": w2, "c": bias, "w3": scaled_rows((2, 4), (1.0,))}
    _, taken = folded(simple(nodes, {"x": (1, 3, 5, 5)}, constants), tmp_path)
    assert channels_of(taken, "b", "d", "e", "f") == [4, 3, 3, 3]


def test_channels_nobody_reads_are_left_out(tmp_path: Path) -> None:
    hidden, last = scaled_rows((75, 8), (1.0,)), scaled_rows((8, 3), (1.0,))
    last[[2, 5]] = 0
    nodes = [node("Flatten", "x", "f"), node("MatMul", "f h", "a"), node("Tanh", "a", "t"), node("MatMul", "t l", "y")]
    _, taken = folded(simple(nodes, {"x": (1, 3, 5, 5)}, {"h": hidden, "l": last}), tmp_path)
    assert channels_of(taken, "a", "t", "y") == [6, 6, 3]


def test_what_others_read_stays(tmp_path: Path) -> None:
    """A residual sum needs every channel, outputs are what they are, and weights that two layers share stay whole."""
    w, dead = scaled_rows((3, 3, 1, 1), (1.0,)), scaled_rows((3, 3, 1, 1), (1.0, 0.0))
    bias = np.ones(3, np.float32)
    residual = [node("Conv", "x d b", "a"), node("Add", "a x", "s"), node("Conv", "s w", "y")]
    outputs = [node("Conv", "x w", "a"), node("Conv", "a d b", "y")]
    shared = [node("Conv", "x d b", "a"), node("Relu", "a", "r"), node("Conv", "r d b", "y")]
    for nodes in (residual, outputs, shared):
        written, taken = folded(simple(nodes, {"x": (1, 3, 5, 5)}, {"w": w, "d": dead, "b": bias}), tmp_path)
        assert channels_of(taken, "a", "y") == channels_of(written, "a", "y")


@pytest.mark.parametrize("seed", range(6))
def test_random_chains_compute_the_same(seed: int, tmp_path: Path) -> None:
    """Layers of every kind with dead, constant and unread channels in random places."""
    random = np.random.default_rng(seed)
    nodes, constants, width, value = [], {}, 3, "x"
    for at in range(5):
        depthwise = at > 0 and random.random() < 0.4
        after = width if depthwise else int(random.integers(3, 9))
        size = int(random.choice([1, 3]))
        weights = random.normal(size=(after, 1 if depthwise else width, size, size)).astype(np.float32)
        weights *= random.choice([0.0, 1e-30, 1.0], size=(after, 1, 1, 1), p=[0.2, 0.2, 0.6]).astype(np.float32)
        weights *= (random.random(size=(1, weights.shape[1], 1, 1)) < 0.8).astype(np.float32)
        constants |= {f"w{at}": weights, f"b{at}": random.normal(size=after).astype(np.float32)}
        pads = [size // 2] * 4
        nodes.append(node("Conv", f"{value} w{at} b{at}", f"c{at}", group=width if depthwise else 1, pads=pads))
        nodes.append(node(str(random.choice(["Relu", "Tanh", "HardSwish", "AveragePool"])), f"c{at}", f"v{at}"))
        if nodes[-1].op_type == "AveragePool":
            nodes[-1] = node("AveragePool", f"c{at}", f"v{at}", kernel_shape=[3, 3], pads=[1] * 4)
        value, width = f"v{at}", after
    nodes += [node("Flatten", value, "f"), node("Gemm", "f wd", "y")]
    constants["wd"] = random.normal(size=(width * 25, 3)).astype(np.float32)
    written, taken = folded(simple(nodes, {"x": (1, 3, 5, 5)}, constants), tmp_path)
    sizes = [sum(array.size for array in g.constants.values()) for g in (written, taken)]
    assert sizes[1] < sizes[0]


def test_a_quantized_model_keeps_its_channels(tmp_path: Path) -> None:
    """Its constants are integers with scales of their own."""
    w = scaled_rows((4, 3, 1, 1), (1.0, 0.0))
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"), node("Conv", "d w b", "y")]
    proto = simple(nodes, {"x": (1, 3, 5, 5)}, {"w": w, "b": np.ones(4), "s": np.float32(0.01)})
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.int8(3), "z"))
    written = load(proto, tmp_path)
    assert load_model(tmp_path / "m.onnx").graph.shapes == written.shapes


# ---- MLPerf Tiny's visual wake words


VWW = SHIPPED / "models/mlperftiny_vww_mobilenetv1_025_96.onnx"


def test_wake_words_shrink_to_a_sixth() -> None:
    written, taken = load_onnx(VWW).graph, load_model(VWW).graph
    x = np.random.default_rng(0).uniform(size=(4, 3, 96, 96)).astype(np.float32)
    assert np.abs(evaluate(written, x) - evaluate(taken, x)).max() < 1e-6
    sizes = [sum(array.size for array in g.constants.values()) for g in (written, taken)]
    assert sizes[1] * 6 < sizes[0]


@pytest.mark.parametrize("name", ["int8", "fixed8pc", "fixed16pc"])
def test_wake_words_written_as_they_are_run(name: str) -> None:
    """Nothing is folded here: the scales alone make the network fit."""
    g = load_onnx(VWW).graph
    x = np.random.default_rng(0).uniform(size=(2, 3, 96, 96)).astype(np.float32)
    program = lower(g, Assignment(name), calibrate(g, x, {}))
    found = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
    assert np.abs(found - evaluate(g, x).reshape(2, -1)).max() < 0.1
