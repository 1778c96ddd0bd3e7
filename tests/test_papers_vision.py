"""Fake quantisation and detection scores of the papers' experiments, against other people's libraries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
import pytest
from given_data import SETS, data_file
from vision_models import RESNETS, resnet, yolov5s

from benchmarks.papers import detection, networks
from benchmarks.papers.fp8 import in_place, scores
from benchmarks.papers.fp8.fake_quantize import (
    FORMATS,
    INT8,
    LITERAL,
    WHOLE_REACH,
    Reach,
    Scheme,
    fake_quantized,
    numbers,
    operands,
    reach,
    reaches,
    schemes,
)
from benchmarks.shape_graphs import Shapes
from tinyhil.formats import named
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.frontend.load import load_model
from tinyhil.harness.job.zoo import find_model
from tinyhil.language.graph import Graph

RANDOM = np.random.default_rng(0)
VALUES = np.concatenate([size * RANDOM.normal(size=20_000) for size in (1e-4, 1e-2, 1, 10, 300, 1e5)])
VALUES = np.append(VALUES, [0.0, -0.0, 448, 464, 465, 2**-9, 2**-10, 3 * 2**-11, 15.5, 31, 1e30]).astype(np.float32)
THEIRS = {"E4M3": ml_dtypes.float8_e4m3fn, "E5M2": ml_dtypes.float8_e5m2, "E3M4": ml_dtypes.float8_e3m4}


@pytest.mark.parametrize("name", THEIRS)
def test_rounding_is_that_of_ml_dtypes(name: str) -> None:
    """E3M4 within theirs, which ends at 15.5 where ours has one binade more."""
    limit = 15.5 if name == "E3M4" else numbers(name).largest
    given = np.clip(VALUES, -limit, limit)
    expected = given.astype(THEIRS[name]).astype(np.float32)
    assert np.array_equal(numbers(name).rounded(given), expected)


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {INT8}))
def test_rounding_is_that_of_the_format(name: str) -> None:
    fmt = named(FORMATS[name]).fit(0.0)
    expected = dequantize(quantize(VALUES, fmt)[0], fmt)
    assert np.array_equal(numbers(name).rounded(VALUES), expected)


def test_scales_by_hand() -> None:
    of = Reach(largest=7.0, percentile=3.5, as_printed=4.0)
    found = {rule: Scheme("E5M2", rule).scale(of) for rule in ("0.2", "max", "percentile", "paper-literal")}
    assert found == pytest.approx(
        {"0.2": 0.2, "max": 7 / 57344, "percentile": 3.5 / 57344, "paper-literal": 4.0 / 114688}
    )
    literal = Scheme("E4M3", "paper-literal")
    assert literal.held(np.float32([7.0]), literal.scale(of)) == pytest.approx(2.0)  # half of 4, where codes end
    assert literal.held(np.float32([2.6, 17.3]), 1.0).tolist() == [3.0, 16.0]  # 17, a tie; 17.3 would be 18
    assert WHOLE_REACH.held(np.float32([7.0, 3.9]), WHOLE_REACH.scale(of)) == pytest.approx([4.0, 3.9], rel=0.05)
    weights = np.float32([[-4.48, 1.0], [0.448, 0.1]])
    held = Scheme("E4M3", "paper-literal", True).weights(weights, 0)
    assert held == pytest.approx(np.float32([[-4.48, 0.96], [0.448, 0.096]]), abs=0.05)
    assert Scheme("E4M3", "power of two").scale(of) == 2**-6  # 448 / 64 = 7


def test_weights_by_channel_reach_as_far_as_their_channel() -> None:
    weights = np.float32([[0.001, 0.0007], [5.0, 3.0]])
    held = {by: Scheme(INT8, "max", by).weights(weights, 0) for by in (False, True)}
    assert held[False][0].tolist() == [0.0, 0.0]
    assert held[True] == pytest.approx(weights, rel=0.01)
    assert len({(one.format, one.rule, one.by_channel) for one in schemes()}) == len(schemes()) == 40


@pytest.mark.parametrize("rule", ["max", LITERAL])
@pytest.mark.parametrize("name", ["E4M3", "E5M2"])
def test_a_network_is_that_of_onnxruntime_with_its_own_fp8(name: str, rule: str, tmp_path: Path) -> None:
    """Casts to FP8 and back before every layer; sums in another order may cross a tie."""
    path = find_model("lenet5_mnist").path
    graph, x = load_model(path).graph, RANDOM.normal(size=(8, 1, 28, 28)).astype(np.float32)
    scheme, known = Scheme(name, rule, rule == LITERAL), reaches(graph, x)
    ours = fake_quantized(graph, scheme, known, x)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )  # it fuses what it can not run
    session = onnxruntime.InferenceSession(_with_casts(path, graph, scheme, known).SerializeToString(), options)
    given = session.get_inputs()[0].name
    theirs = np.concatenate([session.run(None, {given: one[None]})[0].reshape(1, -1) for one in x])
    assert np.abs(ours - fake_quantized(graph, None, {}, x)).max() > 1e-2
    assert np.median(np.abs(ours - theirs)) < 1e-4 * np.abs(theirs).max()
    assert (ours.argmax(axis=1) == theirs.argmax(axis=1)).all()


def _scales(scheme: Scheme, operand: str, graph: Graph, known: Mapping[str, Reach]) -> np.ndarray:
    """Of weights as printed: the largest of each channel over 448, which is also what E5M2 is cut at."""
    read = operands(graph)
    if operand in read.values:
        return np.float32(scheme.scale(known[operand]))
    weights = np.moveaxis(graph.constants[operand], read.weights[operand], 0)
    if scheme.rule != LITERAL:
        return np.float32(scheme.scale(reach(weights)))
    largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
    return np.float32(largest / 448).reshape([-1 if n == read.weights[operand] else 1 for n in range(weights.ndim)])


def _with_casts(path: Path, graph: Graph, scheme: Scheme, known: Mapping[str, Reach]) -> onnx.ModelProto:
    kind = {"E4M3": onnx.TensorProto.FLOAT8E4M3FN, "E5M2": onnx.TensorProto.FLOAT8E5M2}[scheme.format]
    proto, nodes, make = onnx.load(str(path)), [], onnx.helper.make_node
    for node in proto.graph.node:
        for index, operand in enumerate(node.input[:2] if node.op_type in ("Conv", "Gemm", "MatMul") else ()):
            stem = f"{node.name or node.output[0]}.{index}"
            scale = onnx.numpy_helper.from_array(_scales(scheme, operand, graph, known), f"{stem}.scale")
            proto.graph.initializer.append(scale)
            first = "Round" if scheme.rule == LITERAL else "Identity"
            nodes += [
                make("Div", [operand, scale.name], [f"{stem}.shares"]),
                make(first, [f"{stem}.shares"], [f"{stem}.numbers"]),
                make("Cast", [f"{stem}.numbers"], [f"{stem}.codes"], to=kind, saturate=1),
                make("Cast", [f"{stem}.codes"], [f"{stem}.held"], to=onnx.TensorProto.FLOAT),
                make("Mul", [f"{stem}.held", scale.name], [f"{stem}.x"]),
            ]
            node.input[index] = f"{stem}.x"
        nodes.append(node)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return onnx.version_converter.convert_version(proto, 19) if proto.opset_import[0].version < 19 else proto


def test_boxes_that_overlap_are_one_class_by_class() -> None:
    """Two of one class over each other, one of another class there, one elsewhere."""
    rows = [
        (50, 50, 20, 20, 0.9, 1, 0),
        (52, 50, 20, 20, 0.8, 1, 0),
        (50, 50, 20, 20, 0.7, 0, 1),
        (90, 90, 9, 9, 0.6, 1, 0),
    ]
    found = detection.boxes(np.float64(rows))
    assert found[:, 4].tolist() == [0.9, 0.7, 0.6]
    assert found[0, :4].tolist() == [40, 40, 60, 60]


def test_average_precision_by_hand() -> None:
    """The second of three boxes is wrong: precision 1 up to a recall of 1/2, 2/3 behind; 51 and 50 of 101 points."""
    truth = np.float64([(0, 3, 10, 10, 30, 30), (1, 3, 50, 50, 90, 90)])
    found = [np.float64([(10, 10, 30, 31, 0.9, 3), (60, 0, 80, 20, 0.8, 3)]), np.float64([(52, 50, 90, 90, 0.7, 3)])]
    assert detection.average_precision(found, truth) == pytest.approx((51 + 50 * 2 / 3) / 101, abs=1e-6)
    assert detection.average_precision([np.zeros((0, 6))] * 2, truth) == 0.0


@pytest.mark.slow
@pytest.mark.data(
    *("models/yolov5n_320.onnx", "large/imagenet_sample1000_jpeg.npz", "large/coco256_jpeg.npz"),
    *SETS["cifar10"],
)
@pytest.mark.parametrize("one", networks.OF_THE_USER, ids=lambda one: one.name)
def test_networks_of_the_user_run_the_same_way(
    one: networks.Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of the published shapes, put where the page says; a picture in float, in fake FP8 and on the engine."""
    given = data_file("large").parent
    (tmp_path / "models").mkdir()
    for name in ("large", "small"):
        (tmp_path / name).symlink_to(given / name)
    model = resnet(one.name) if one.name in RESNETS else yolov5s(given / "models" / "yolov5n_320.onnx")
    onnx.save(model, tmp_path / "models" / one.file)
    assert one.name not in {cell.key.split("/")[1] for cell in scores.cells()}
    monkeypatch.setenv("HIL_DATA", str(tmp_path))
    monkeypatch.setattr(networks, "CALIBRATION", 2)
    keys = {cell.key for cell in scores.cells()}
    assert {f"float/{one.name}/0", f"fake/{one.name}/E4M3/max/tensor/0", f"engine/{one.name}/E4M3/1.0"} <= keys
    first, scheme = range(1), Scheme("E4M3", "power of two")
    assert scores.float_row(one.name, first)["apart"] < 1e-4
    assert scores.fake_row(one.name, scheme, first)["pictures"] == 1
    engine = scores.engine_row(one.name, scheme, first)
    assert engine["pictures"] == 1
    assert engine["apart"] < 0.1
    shapes = in_place.SHAPES[one.title](Shapes())
    weights = [array.size for array in shapes.constants.values()]
    convolutions = [np.prod(t.dims) for t in model.graph.initializer if len(t.dims) == 4]
    assert sorted(weights) == sorted(convolutions)
