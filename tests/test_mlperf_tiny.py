"""MLPerf Tiny's networks from ONNX, in 8 bits: within a point of what TensorFlow Lite's own int8 files reach."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from given_data import SETS, data_file

from tinyhil.compiler.calibrate import Ranges, calibrate
from tinyhil.compiler.lower import lower
from tinyhil.frontend.load import load_model
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.references.evaluate import evaluate
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
PERSON, SMALLEST_AREA = 0, 0.005  # of the picture
CALIBRATION = 100


@dataclass(frozen=True)
class Case:
    """Inputs as the float network takes them (samples, channels, height, width), and labels."""

    model: str
    data: str
    read: Callable[[Path], tuple[np.ndarray, np.ndarray]]
    tflite: str


def words(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path) as data:
        x = (data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]
        return x.astype(np.float32).reshape(-1, 1, 49, 10), data["y"]


def pictures(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path) as data:
        return data["x"].astype(np.float32).transpose(0, 3, 1, 2), data["y"]


def people(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Photographs with a person that is not tiny, and others."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    with np.load(path) as data:
        jpeg, offsets, boxes = data["jpeg"], data["offsets"], data["labels"]
    files = (io.BytesIO(jpeg[a:b].tobytes()) for a, b in itertools.pairwise(offsets))
    x = np.stack([np.asarray(image.open(file).convert("RGB").resize((96, 96), image.BILINEAR)) for file in files])
    seen = boxes[(boxes[:, 1] == PERSON) & (boxes[:, 4] * boxes[:, 5] > SMALLEST_AREA), 0].astype(int)
    return x.astype(np.float32).transpose(0, 3, 1, 2) / 255, np.isin(np.arange(len(x)), seen).astype(int)


CASES = {
    "kws": Case("kws_dscnn", "small/kws12_mfcc_test.npz", words, "kws_dscnn_int8"),
    "ic": Case("ic_resnet8", "small/cifar10_test500.npz", pictures, "ic_resnet8_int8"),
    "vww": Case("vww_mobilenetv1_025_96", "large/coco256_jpeg.npz", people, "vww_mobilenetv1_025_96_int8"),
}


def tflite_outputs(path: Path, x: np.ndarray) -> np.ndarray:
    """What the interpreter computes from real inputs, channels last: (samples, outputs) real."""
    interpreter = litert.Interpreter(str(path))
    interpreter.allocate_tensors()
    source, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    (scale, zero), (output_scale, output_zero) = source["quantization"], result["quantization"]
    codes = np.clip(np.rint(x / scale + zero), -128, 127).astype(np.int8)
    outputs = []
    for sample in codes:
        interpreter.set_tensor(source["index"], sample.reshape(source["shape"]))
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(result["index"]).reshape(-1).astype(np.float32))
    return (np.stack(outputs) - output_zero) * output_scale


def our_outputs(graph: Graph, ranges: Ranges, fmt: str, x: np.ndarray) -> np.ndarray:
    program = lower(graph, Assignment(fmt), ranges)
    return dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)


def files_of(case: Case) -> list[str]:
    return [f"models/mlperftiny_{case.model}.onnx", f"models/mlperftiny_{case.tflite}.tflite", case.data]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.data(*files_of(case)), id=name) for name, case in CASES.items()]
)
def test_within_a_point_of_tensorflow_lite(case: Case) -> None:
    model, tflite, data = map(data_file, files_of(case))
    x, y = case.read(data)
    theirs = (tflite_outputs(tflite, x.transpose(0, 2, 3, 1)).argmax(1) == y).mean()
    graph = load_model(model).graph
    ranges = calibrate(graph, x[:CALIBRATION], {})
    for fmt in ("int8", "fixed16pc"):
        ours = (our_outputs(graph, ranges, fmt, x).argmax(1) == y).mean()
        print(f"{case.model} {fmt}: {ours:.4f}, TensorFlow Lite {theirs:.4f}")
        assert ours >= theirs - 0.01, fmt


def windows(clip: np.ndarray, random: np.random.Generator | None = None) -> np.ndarray:
    """Windows of five frames of 128 mel bands; with `random`, each has eight neighbouring bands 6 dB louder."""
    found = np.stack([clip[i : i + 5] for i in range(len(clip) - 4)]).astype(np.float32)
    if random is not None:
        for window, band in zip(found, random.integers(0, 120, len(found)), strict=True):
            window[:, band : band + 8] += 6
    return found.reshape(len(found), -1)


def errors(outputs: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.square(outputs.reshape(x.shape) - x).mean(axis=1)


def area(normal: np.ndarray, loud: np.ndarray) -> float:
    """Area under the curve of telling `loud` from `normal`."""
    above, equal = loud[:, None] > normal, loud[:, None] == normal
    return float(above.mean() + equal.mean() / 2)


AUTOENCODER = ("models/mlperftiny_ad_autoencoder.onnx", "models/mlperftiny_ad_autoencoder_int8.tflite", *SETS["ad01"])


@pytest.mark.slow
@pytest.mark.data(*AUTOENCODER)
def test_the_autoencoder_tells_what_tensorflow_lite_s_tells() -> None:
    """Public data has one normal clip, so the anomalies are made from it; and its reconstruction is no worse."""
    model, tflite, data = map(data_file, AUTOENCODER)
    with np.load(data) as file:
        normal, loud = windows(file["x"]), windows(file["x"], np.random.default_rng(0))
    graph = load_model(model).graph
    ranges = calibrate(graph, normal[:CALIBRATION], {})
    exact = errors(evaluate(graph, normal), normal)
    theirs = [errors(tflite_outputs(tflite, x), x) for x in (normal, loud)]
    for fmt in ("int8", "fixed16pc"):
        ours = [errors(our_outputs(graph, ranges, fmt, x), x) for x in (normal, loud)]
        print(f"ad {fmt}: {area(*ours):.4f}, error {ours[0].mean():.3f}; ", end="")
        print(f"TensorFlow Lite {area(*theirs):.4f}, {theirs[0].mean():.3f}; float {exact.mean():.3f}")
        assert area(*ours) >= area(*theirs) - 0.01, fmt
        assert abs(ours[0].mean() - exact.mean()) < abs(theirs[0].mean() - exact.mean()), fmt
