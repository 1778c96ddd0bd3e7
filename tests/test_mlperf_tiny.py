"""MLPerf Tiny's networks from ONNX, in 8 bits: within a point of what TensorFlow Lite's own int8 files reach."""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tinyhil.assignment import Assignment
from tinyhil.calibrate import calibrate
from tinyhil.frontend.load import load_model
from tinyhil.lower import lower
from tinyhil.reference import dequantize_outputs, quantize_inputs, run_reference

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is not installed")
DATA = Path(os.environ.get("HIL_DATA", "/nowhere"))
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


def tflite_labels(path: Path, x: np.ndarray) -> np.ndarray:
    interpreter = litert.Interpreter(str(path))
    interpreter.allocate_tensors()
    source, result = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    scale, zero = source["quantization"]
    codes = np.clip(np.rint(x.transpose(0, 2, 3, 1) / scale + zero), -128, 127).astype(np.int8)
    labels = []
    for sample in codes:
        interpreter.set_tensor(source["index"], sample.reshape(source["shape"]))
        interpreter.invoke()
        labels.append(int(interpreter.get_tensor(result["index"]).argmax()))
    return np.array(labels)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_within_a_point_of_tensorflow_lite(name: str) -> None:
    case = CASES[name]
    models = [DATA / "models" / f"mlperftiny_{stem}" for stem in (f"{case.model}.onnx", f"{case.tflite}.tflite")]
    absent = [path.name for path in (*models, DATA / case.data) if not path.is_file()]
    if absent:
        pytest.skip(f"HIL_DATA has no {absent[0]}")
    x, y = case.read(DATA / case.data)
    theirs = (tflite_labels(models[1], x) == y).mean()
    graph = load_model(models[0]).graph
    ranges = calibrate(graph, x[:CALIBRATION], {})
    for fmt in ("int8", "fixed16pc"):
        program = lower(graph, Assignment(fmt), ranges)
        outputs = dequantize_outputs(program, run_reference(program, quantize_inputs(program, x)[0]).outputs)
        ours = (outputs.argmax(1) == y).mean()
        print(f"{name} {fmt}: {ours:.4f}, TensorFlow Lite {theirs:.4f}")
        assert ours >= theirs - 0.01, fmt
