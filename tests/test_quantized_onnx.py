"""Quantized ONNX models keep their own scales: float reference against onnxruntime, integers against both, boards."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from kernel_cases import Case, first_difference, run_natively, run_on_board
from onnx import TensorProto, helper
from onnx_models import load, node, onnxruntime_outputs
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic
from quantized_models import inputs, own, quantized, written
from test_ops_fuzz import mutate, survives

from tinyhil.codegen.kernel_calls import name_of
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import lower
from tinyhil.data.digits import load_digits
from tinyhil.errors import ModelError
from tinyhil.formats import named
from tinyhil.formats.affine import Affine
from tinyhil.harness.settings.config import load_boards
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Role
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

FLOAT, INT8, UINT8 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8
SAMPLES = 24
MLP = Path(__file__).resolve().parent.parent / "models/digits_mlp/digits_mlp.onnx"
MODELS = [
    (QuantFormat.QDQ, "int8"),
    (QuantFormat.QDQ, "uint8"),
    (QuantFormat.QDQ, "int16"),
    (QuantFormat.QOperator, "int8"),
    (QuantFormat.QOperator, "uint8"),
]
NAMES = [f"{style.name}-{kind}" for style, kind in MODELS]


def case(name: str, graph: Graph, x: np.ndarray, default: str = "fixed16") -> Case:
    program = lower(graph, Assignment(default), calibrate(graph, x, {}))
    return Case(name, program, quantize_inputs(program, x)[0])


def real(made: Case) -> np.ndarray:
    return dequantize_outputs(made.program, run_reference(made.program, made.inputs).outputs)


def unit(made: Case) -> float:
    fmt = made.program.tensors[made.program.output].format
    assert isinstance(fmt, Affine)
    return fmt.scale


@pytest.mark.parametrize(("style", "kind"), MODELS, ids=NAMES)
def test_networks_of_the_quantizer(style: QuantFormat, kind: str, tmp_path: Path) -> None:
    """The float reference is onnxruntime's fake quantization but for ties that float32 sums of another order miss; the
    integers, which round each layer twice as TensorFlow Lite does, end at most two units away and mostly none."""
    proto, x = quantized(tmp_path, style, kind), inputs(SAMPLES)
    graph = load(proto, tmp_path)
    made = case("network", graph, x)
    wanted = onnxruntime_outputs(proto, x, optimized=False)  # as the file says, not fused
    floats = evaluate(graph, x).reshape(wanted.shape)
    assert np.abs(floats - wanted).max() < 1.01 * unit(made)
    assert (np.abs(floats - wanted) < 0.01 * unit(made)).mean() > 0.98
    difference = np.abs(real(made) - wanted) / unit(made)
    assert difference.max() < (2.01 if kind != "int16" else 4.01)
    if kind != "int16":
        assert (difference < 0.5).mean() > 0.85


@pytest.mark.parametrize(("style", "kind"), MODELS[:2] + MODELS[3:], ids=NAMES[:2] + NAMES[3:])
def test_everything_is_asymmetric_whatever_the_assignment_says(style: QuantFormat, kind: str, tmp_path: Path) -> None:
    x = inputs(SAMPLES)
    graph = load(quantized(tmp_path, style, kind), tmp_path)
    programs = [case(name, graph, x, name).program for name in ("fixed16", "int8", "posit16es1")]
    assert len({str(program.body) for program in programs}) == 1
    tensors = [t for t in programs[0].tensors.values() if t.role in (Role.ARENA, Role.INPUT) and ".patch" not in t.name]
    assert all(isinstance(tensor.format, Affine) and tensor.format.bits == 8 for tensor in tensors)
    kernels = {name_of(op.kernel).removesuffix("_clip") for op in programs[0].body}
    asymmetric = {"average_pool_affine", "conv_affine", "dense_affine", "max_pool_codes", "sum_affine", "place_codes"}
    assert kernels - asymmetric <= {"place_more"}  # a part of the concatenation has another scale


@pytest.mark.parametrize("board", ["host-native", "due", pytest.param("uno", marks=pytest.mark.slow)])
def test_the_same_integers_on_boards(board: str, tmp_path: Path) -> None:
    x = inputs(6)
    chosen = MODELS if board == "host-native" else MODELS[1:2] if board == "uno" else MODELS[1:3]
    cases = [case(f"{style} {kind}", load(quantized(tmp_path, style, kind), tmp_path), x) for style, kind in chosen]
    if board == "host-native":
        assert first_difference(cases, run_natively(cases, tmp_path)) == ""
    else:
        assert first_difference(cases, run_on_board(cases, load_boards().board(board), tmp_path)) == ""


def test_weights_keep_their_integers(tmp_path: Path) -> None:
    """Of any size: -128 too, and what an unsigned type leaves beside its zero point."""
    draws = np.random.default_rng(0)
    for kind, zero in (("int8", 0), ("uint8", 100)):
        ends = np.iinfo(kind)
        codes = draws.integers(ends.min, ends.max + 1, (7, 3)).astype(kind)
        codes[0, 0] = ends.min
        constants = {
            "xs": np.float32(0.02), "xz": np.uint8(131), "w": codes, "ws": np.float32([0.01, 0.03, 0.002]),
            "wz": np.full(3, zero, kind), "ys": np.float32(0.25), "yz": np.uint8(123),
        }  # fmt: skip
        nodes = [
            node("QuantizeLinear", "x xs xz", "q"),
            node("QLinearMatMul", "q xs xz w ws wz ys yz", "p"),
            node("DequantizeLinear", "p ys yz", "y"),
        ]
        x = draws.normal(size=(SAMPLES, 2, 7)).astype(np.float32)
        made = case(kind, load(written(nodes, constants, ((2, 7), (2, 3))), tmp_path), x)
        stored = made.program.constants[made.program.body[0].inputs[0]]
        assert np.array_equal(stored.reshape(3, 7).T, codes.astype(np.int64) - zero)
        wanted = onnxruntime_outputs(written(nodes, constants, ((2, 7), (2, 3))), x)
        assert np.abs(real(made) - wanted).max() < 1.01 * 0.25


@pytest.mark.parametrize(("kind", "tensor"), [("int8", INT8), ("uint8", UINT8)])
def test_integers_go_in_and_out(kind: str, tensor: int, tmp_path: Path) -> None:
    """Codes in, moved as codes, dequantized by the same numbers; codes out."""
    constants = {
        "s": np.float32(0.5), "z": np.array(7, kind), "t": np.float32(0.25), "u": np.array(11, kind),
        "K": np.float32(np.random.default_rng(1).normal(size=(2, 3, 1, 1))),
    }  # fmt: skip
    nodes = [
        node("Transpose", "x", "q", perm=[0, 3, 1, 2]),
        node("MaxPool", "q", "m", kernel_shape=[2, 2]),
        node("DequantizeLinear", "m s z", "r"),
        node("Relu", "r", "v"),
        node("QuantizeLinear", "v t u", "w"),
        node("Flatten", "w", "y"),
    ]
    proto = written(nodes, constants, ((1, 4, 5, 3), (1, 36)), (tensor, tensor))
    ends = np.iinfo(kind)
    x = np.random.default_rng(2).integers(ends.min, ends.max + 1, (SAMPLES, 1, 4, 5, 3)).astype(kind)
    graph = load(proto, tmp_path)
    wanted = onnxruntime_outputs(proto, x)
    floats = x.astype(np.float32)
    assert np.array_equal(evaluate(graph, floats).reshape(wanted.shape), wanted)
    made = case(kind, graph, floats)
    assert np.array_equal(real(made), wanted)
    assert first_difference([made], run_natively([made], tmp_path)) == ""


@pytest.mark.parametrize("default", ["fixed16", "fixed8", "posit16es1", "float32", "int8"])
def test_islands_of_floats_use_the_assignment(default: str, tmp_path: Path) -> None:
    """A quantized layer, a softmax in between that is not, a quantized layer behind it."""
    draws = np.random.default_rng(4)
    constants = {
        "s": np.float32(0.03), "z": np.uint8(128), "w": draws.integers(-127, 128, (6, 6)).astype(np.int8),
        "ws": np.float32(0.01), "p": np.float32(1 / 256), "n": np.uint8(0), "wz": np.int8(0),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "r"),
        node("DequantizeLinear", "w ws wz", "W"),
        node("MatMul", "r W", "m"),
        node("Tanh", "m", "t"),
        node("Softmax", "t", "f", axis=-1),
        node("QuantizeLinear", "f p n", "g"),
        node("DequantizeLinear", "g p n", "h"),
        node("MatMul", "h W", "y"),
    ]
    proto, x = written(nodes, constants, ((1, 6), (1, 6))), draws.normal(size=(SAMPLES, 1, 6)).astype(np.float32)
    graph = load(proto, tmp_path)
    assert np.abs(evaluate(graph, x).reshape(SAMPLES, 6) - onnxruntime_outputs(proto, x)).max() < 1e-5
    made = case(default, graph, x, default)
    assert made.program.tensors["t"].format.domain == named(default).fit(1.0).domain
    assert np.abs(real(made) - onnxruntime_outputs(proto, x)).max() < (0.06 if "8" in default else 0.02)
    assert first_difference([made], run_natively([made], tmp_path)) == ""


OWN = [
    (own("QLinearAdd", "q s z q s z t u", "p"), 1),
    (own("QLinearMul", "q s z q s z t u", "p"), 1),
    (own("QLinearSigmoid", "q s z t u", "p"), 1),
    (own("QLinearLeakyRelu", "q s z t u", "p", alpha=0.1), 1),
    (own("QLinearAveragePool", "q s z t u", "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), 1),
    (own("QLinearGlobalAveragePool", "q s z t u", "p"), 1),
    (own("QLinearConcat", "t u q s z q s z", "p", axis=1), 1),
    (own("QLinearSoftmax", "q s z t u", "p", axis=3, opset=13), 1),
]


@pytest.mark.parametrize(("between", "units"), OWN, ids=lambda v: getattr(v, "op_type", ""))
def test_operators_of_onnxruntime(between: object, units: float, tmp_path: Path) -> None:
    constants = {"s": np.float32(0.03), "z": np.uint8(120), "t": np.float32(0.05), "u": np.uint8(100)}
    nodes = [node("QuantizeLinear", "x s z", "q"), between, node("DequantizeLinear", "p t u", "y")]
    proto = written(nodes, constants, ((1, 3, 4, 4), (1, None, None, None)))
    x = np.random.default_rng(6).normal(size=(SAMPLES, 1, 3, 4, 4)).astype(np.float32)
    graph = load(proto, tmp_path)
    wanted = onnxruntime_outputs(proto, x)
    assert np.abs(evaluate(graph, x).reshape(wanted.shape) - wanted).max() < (units + 0.01) * 0.05
    made = case("own", graph, x)
    assert np.abs(real(made) - wanted).max() < (units + 0.01) * 0.05
    assert first_difference([made], run_natively([made], tmp_path)) == ""


BY_ELEMENTS: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "dynamic": ([node("DynamicQuantizeLinear", "x", "q s z"), node("DequantizeLinear", "q s z", "y")], {}),
    "channels": (
        [node("QuantizeLinear", "x s z", "q", axis=1), node("DequantizeLinear", "q s z", "y", axis=1)],
        {"s": np.float32([0.5, 0.25, 0.02, 1]), "z": np.int8([0, 3, -100, 7])},
    ),
    "blocks": (
        [node("QuantizeLinear", "x s", "q", axis=1, block_size=2, output_dtype=INT8),
         node("DequantizeLinear", "q s", "y", axis=1, block_size=2)],
        {"s": np.float32([[0.5, 0.125], [0.25, 0.5]])},
    ),
    "largest": (
        [node("Abs", "x", "a"), node("ReduceMax", "a", "m", keepdims=0), node("Mul", "m k", "s"),
         node("QuantizeLinear", "x s", "q", output_dtype=INT8), node("DequantizeLinear", "q s", "y")],
        {"k": np.float32(1 / 127)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_ELEMENTS)
def test_scales_of_a_run_or_of_an_element(name: str, tmp_path: Path) -> None:
    """Codes are numbers of their own there: rounded as onnxruntime's, and in integers at most one away."""
    nodes, constants = BY_ELEMENTS[name]
    proto = written(nodes, constants, ((2, 4), (2, 4)), opset=23)
    x = np.random.default_rng(5).normal(size=(SAMPLES, 2, 4)).astype(np.float32)
    graph, wanted = load(proto, tmp_path), onnxruntime_outputs(proto, x)
    np.testing.assert_allclose(evaluate(graph, x).reshape(wanted.shape), wanted, atol=2e-6)
    made = case(name, graph, x)
    unit_of_x = np.max(constants.get("s", np.float32(2 * np.abs(x).max() / 127)))
    assert np.abs(real(made).reshape(wanted.shape) - wanted).max() < 1.01 * unit_of_x
    assert first_difference([made], run_natively([made], tmp_path)) == ""


@pytest.mark.parametrize("is_optimized", [False, True], ids=["plain", "optimized"])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_networks_of_the_dynamic_quantizer(kind: QuantType, is_optimized: bool, tmp_path: Path) -> None:
    """And what the optimizer joins of them. One sample is nothing but 0, of which no scale can be told."""
    quantize_dynamic(MLP, tmp_path / "q.onnx", weight_type=kind)
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "o.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(tmp_path / "q.onnx", options)
    proto = onnx.load(tmp_path / ("o.onnx" if is_optimized else "q.onnx"))
    wanted_ops = {"DynamicQuantizeMatMul"} if is_optimized else {"DynamicQuantizeLinear", "MatMulInteger"}
    assert wanted_ops <= {one.op_type for one in proto.graph.node}
    graph = load(proto, tmp_path)
    x = load_digits().x_test[:SAMPLES].reshape(SAMPLES, *graph.shapes[graph.inputs[0]])
    x[0] = 0
    wanted, made = onnxruntime_outputs(proto, x), case("dynamic", graph, x)
    largest = np.abs(wanted).max()
    np.testing.assert_allclose(evaluate(graph, x).reshape(wanted.shape), wanted, atol=1e-5 * largest)
    assert np.abs(real(made).reshape(wanted.shape) - wanted).max() < 0.01 * largest
    assert first_difference([made], run_natively([made], tmp_path)) == ""


def test_constants_quantized_to_four_bits_stay_within_them(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    nodes = [node("QuantizeLinear", "w s", "q", output_dtype=TensorProto.INT4), node("DequantizeLinear", "q s", "r")]
    constants = {"w": draws.normal(size=(4, 3)).astype(np.float32) * 2, "s": np.float32(0.25)}
    assert np.abs(constants["w"]).max() > 9 * 0.25
    proto = written([*nodes, node("MatMul", "x r", "y")], constants, ((2, 4), (2, 3)), opset=21)
    x = draws.normal(size=(SAMPLES, 2, 4)).astype(np.float32)
    wanted = onnxruntime_outputs(proto, x, optimized=False)
    np.testing.assert_allclose(evaluate(load(proto, tmp_path), x).reshape(wanted.shape), wanted, atol=1e-6)


def test_codes_with_a_scale_of_the_run(tmp_path: Path) -> None:
    """What the optimizer makes where one DynamicQuantizeLinear is read by several products."""
    draws = np.random.default_rng(3)
    fused = helper.make_node("MatMulIntegerToFloat", ["q", "w", "s", "t", "z", "u", "b"], ["y"], domain="com.microsoft")
    constants = {
        "w": draws.integers(0, 255, (4, 3)).astype(np.uint8), "t": np.float32([0.02, 0.01, 0.03]),
        "u": np.uint8([120, 130, 128]), "b": np.float32([0.5, -1, 2]),
    }  # fmt: skip
    proto = written([node("DynamicQuantizeLinear", "x", "q s z"), fused], constants, ((2, 4), (2, 3)), opset=17)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    x = draws.normal(size=(SAMPLES, 2, 4)).astype(np.float32)
    graph, wanted = load(proto, tmp_path), onnxruntime_outputs(proto, x)
    np.testing.assert_allclose(evaluate(graph, x).reshape(wanted.shape), wanted, atol=1e-5)


REFUSED = [
    (
        [node("QuantizeLinear", "x s", "q", output_dtype=TensorProto.FLOAT8E8M0), node("Cast", "q", "y", to=FLOAT)],
        {"s": np.float32(1)},
        "to float8e8m0; int8, uint8, int16, uint16 are supported",
    ),
    (
        [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", "y")],
        {"s": np.float32(-1)},
        "not positive",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants", "says"), REFUSED, ids=[says[:24] for _, _, says in REFUSED])
def test_refusals_are_precise(nodes: list, constants: dict, says: str, tmp_path: Path) -> None:  # type: ignore[type-arg]
    with pytest.raises(ModelError, match=r"node '\w+' \(\w+\): .*" + re.escape(says)):
        load(written(nodes, constants, ((2, 4), (2, 4)), opset=23), tmp_path)


BETWEEN: dict[str, tuple[onnx.NodeProto, Sequence[int]]] = {
    "transposed": (node("ConvTranspose", "r w", "v", strides=[2, 2]), (1, 4, 5, 5)),
    "slopes": (node("PRelu", "r slopes", "v"), (1, 4, 5, 5)),
    "normalized": (node("LayerNormalization", "r scale", "v", axis=-1), (3, 8)),
    "batches": (node("MatMul", "r matrices", "v"), (2, 3, 8)),
    "resized": (helper.make_node("Resize", ["r", "", "sizes"], ["v"], name="resize", mode="linear"), (1, 1, 4, 4)),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_operators_without_integers_of_their_own(name: str, tmp_path: Path) -> None:
    """What they read and make keeps the model's scales; between, they compute in single precision."""
    made, shape = BETWEEN[name]
    draws = np.random.default_rng(4)
    constants = {
        "s": np.float32(0.03), "z": np.int8(5), "t": np.float32(0.08), "u": np.int8(-3),
        "w": draws.normal(size=(4, 3, 3, 3)).astype(np.float32) * np.float32(0.2), "slopes": np.float32(0.3),
        "scale": np.float32(draws.uniform(0.5, 2.0, 8)), "sizes": np.float32([1, 1, 2, 2]),
        "matrices": draws.normal(size=(2, 8, 4)).astype(np.float32) * np.float32(0.5),
    }  # fmt: skip
    used = {key: constants[key] for key in ("s", "z", "t", "u", *made.input) if key in constants}
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "r"), made]
    nodes += [node("QuantizeLinear", "v t u", "p"), node("DequantizeLinear", "p t u", "y")]
    x = draws.normal(size=(SAMPLES, *shape)).astype(np.float32)
    proto = written(nodes, used, (shape, (None,) * len(shape)))
    wanted = onnxruntime_outputs(proto, x)
    for default in ("fixed16", "posit16es1"):
        found = case(default, load(proto, tmp_path), x, default)
        assert isinstance(found.program.tensors[found.program.output].format, Affine)
        assert isinstance(found.program.tensors[found.program.input].format, Affine)
        difference = np.abs(real(found) - wanted)
        assert difference.max() < 1.01 * 0.08
        assert (difference < 0.04).mean() > 0.95
        assert first_difference([found], run_natively([found], tmp_path)) == ""


@pytest.mark.parametrize(
    ("op", "default"),
    [
        ("Conv", "fixed8"),
        ("Conv", "fixed16"),
        ("Conv", "bfloat16"),
        ("MatMul", "fixed16"),
        ("ConvTranspose", "fixed16"),
    ],
)
def test_float_weights_of_a_quantized_value(op: str, default: str, tmp_path: Path) -> None:
    """They become int8 where there is such a layer; the result, which nobody quantizes, has the assignment's format."""
    draws = np.random.default_rng(8)
    shape = (1, 4, 5, 5)
    constants = {"s": np.float32(0.03), "z": np.uint8(128), "w": draws.normal(size=(4, 4, 3, 3)).astype(np.float32)}
    if op == "MatMul":
        shape, constants["w"] = (3, 6), draws.normal(size=(6, 6)).astype(np.float32)
    layer = node(op, "r w", "y")
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "r"), layer]
    proto = written(nodes, constants, (shape, (None,) * len(shape)))
    x = draws.normal(size=(SAMPLES, *shape)).astype(np.float32)
    made = case(default, load(proto, tmp_path), x, default)
    wanted = onnxruntime_outputs(proto, x)
    assert np.abs(real(made) - wanted).max() < (0.03 if default == "fixed8" else 0.015) * np.abs(wanted).max()
    assert first_difference([made], run_natively([made], tmp_path)) == ""


def test_damaged_models_are_refused_in_one_line(tmp_path: Path) -> None:
    originals = [quantized(tmp_path, style, "uint8") for style in (QuantFormat.QDQ, QuantFormat.QOperator)]
    ran = 0
    for seed in range(200):
        chance, model = random.Random(seed), onnx.ModelProto()
        model.CopyFrom(originals[seed % 2])
        with suppress(OverflowError):  # a factor that the integers of a tensor can not hold
            mutate(model, chance)
        ran += survives(model, seed)
    assert 20 < ran < 180
