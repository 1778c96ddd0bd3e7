"""Networks and pictures that are not redistributable: from HIL_DATA (models/, large/); DataError where they are not.

A network of the user's runs the same way: put its file where `Network.file` says.
"""

from __future__ import annotations

import gzip
import io
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tinyhil import data
from tinyhil.data.cifar import MEAN, SPREAD
from tinyhil.errors import DataError
from tinyhil.frontend.listing import Model
from tinyhil.frontend.load import load_model

GREY = 114  # around letterboxed pictures, as YOLOv5 was trained
IMAGENET, COCO, CIFAR = "imagenet_sample1000_jpeg.npz", "coco256_jpeg.npz", "cifar10"
CALIBRATION = 16  # pictures at the end of a set, which are not tested on


@dataclass(frozen=True, slots=True)
class Network:
    """`side` of its pictures; `pixels` says how these are standardised: imagenet, signed (within -1..1) or unit (0..1).
    `first` of its outputs is the class 0."""

    name: str
    title: str
    file: str
    pictures: str
    side: int
    pixels: str
    first: int = 0

    @property
    def is_detector(self) -> bool:
        return self.pictures == COCO

    @property
    def is_there(self) -> bool:
        return "HIL_DATA" in os.environ and any(path.is_file() for path in _paths(self.file))


NETWORKS = (
    Network("resnet20", "ResNet-20", "resnet20_cifar10.onnx", CIFAR, 32, "imagenet"),
    Network("yolov5n", "YOLOv5n", "yolov5n_320.onnx", COCO, 320, "unit"),
    Network("squeezenet", "SqueezeNet 1.1", "squeezenet1_1.onnx", IMAGENET, 224, "imagenet"),
    Network("mobilenetv2", "MobileNetV2", "mobilenet_v2_1.0_224_dequantized.onnx", IMAGENET, 224, "signed", 1),
)
OF_THE_USER = (
    Network("resnet18", "ResNet-18", "resnet18.onnx", IMAGENET, 224, "imagenet"),
    Network("resnet50", "ResNet-50", "resnet50.onnx", IMAGENET, 224, "imagenet"),
    Network("yolov5s", "YOLOv5s", "yolov5s_320.onnx", COCO, 320, "unit"),
)


@dataclass(frozen=True, slots=True)
class Pictures:
    """`x` (samples, 3, side, side) as the network takes them; `y` classes, or (index, class, x, y, width, height) of
    boxes, relative to the picture of `sizes` (width, height) that lies letterboxed in `x`."""

    x: np.ndarray
    y: np.ndarray
    sizes: np.ndarray


def _folder() -> Path:
    setting = os.environ.get("HIL_DATA")
    if not setting:
        raise DataError("papers: HIL_DATA is not set; these networks and pictures can not be redistributed")
    return Path(setting).expanduser()


def _paths(file: str) -> tuple[Path, Path]:
    folder = _folder() / "models"
    return folder / file, folder / f"{file}.gz"


@cache
def network(name: str) -> Network:
    return next(one for one in (*NETWORKS, *OF_THE_USER) if one.name == name)


@cache
def path_of(name: str) -> Path:
    """The network's file, unpacked if it is packed."""
    plain, packed = _paths(network(name).file)
    if plain.is_file():
        return plain
    if not packed.is_file():
        raise DataError(f"papers: no {plain}; put the network there")
    target = Path(tempfile.mkdtemp(prefix="papers-")) / plain.name
    target.write_bytes(gzip.decompress(packed.read_bytes()))
    return target


@cache
def model(name: str) -> Model:
    return load_model(path_of(name))


def pictures_path(file: str) -> Path:
    """Where a set of pictures lies."""
    path = _folder() / "large" / file
    if not path.is_file():
        raise DataError(f"papers: no {path}; these pictures can not be redistributed")
    return path


@cache
def pictures_file(file: str) -> dict[str, np.ndarray]:
    """The arrays of a set of pictures: bytes of all, where each begins, and what is known of them."""
    with np.load(pictures_path(file), allow_pickle=False) as found:
        return dict(found)


def calibration(name: str) -> np.ndarray:
    """Pictures that are not tested on: the last of the set, of CIFAR-10 the training part."""
    chosen = network(name)
    if chosen.pictures == CIFAR:
        return data.load("cifar10").x_train[: 4 * CALIBRATION]
    count = len(pictures_file(chosen.pictures)["offsets"]) - 1
    return pictures(name, range(count - CALIBRATION, count)).x


def pictures(name: str, chosen: Sequence[int]) -> Pictures:
    """The test pictures of these indices."""
    of = network(name)
    if of.pictures == CIFAR:
        found = data.load("cifar10")
        assert found.y_test is not None
        part = slice(chosen[0], chosen[-1] + 1)
        return Pictures(found.x_test[part], found.y_test[part].astype(np.int64), np.zeros((0, 2)))
    arrays = pictures_file(of.pictures)
    decoded = [_decoded(arrays, index, of.side) for index in chosen]
    x = np.stack([_standardised(pixels, of.pixels) for pixels, _ in decoded])
    sizes = np.array([size for _, size in decoded])
    if not of.is_detector:
        return Pictures(x, arrays["y"][list(chosen)].astype(np.int64), sizes)
    rows = [_numbered(arrays["labels"], index, place) for place, index in enumerate(chosen)]
    return Pictures(x, np.concatenate(rows), sizes)


def _numbered(labels: np.ndarray, index: int, place: int) -> np.ndarray:
    """The boxes of picture `index`, under its place among the chosen."""
    rows = labels[labels[:, 0] == index].astype(np.float64)
    rows[:, 0] = place
    return rows


def _decoded(arrays: dict[str, np.ndarray], index: int, side: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Pixels (side, side, 3), scaled to fit and letterboxed, and the size within."""
    from PIL import Image

    start, end = arrays["offsets"][index : index + 2]
    picture = Image.open(io.BytesIO(arrays["jpeg"][start:end].tobytes())).convert("RGB")
    scale = side / max(picture.size)
    width, height = (round(scale * length) for length in picture.size)
    if (width, height) != picture.size:
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    canvas = Image.new("RGB", (side, side), (GREY,) * 3)
    canvas.paste(picture, ((side - width) // 2, (side - height) // 2))
    return np.asarray(canvas), (width, height)


def _standardised(pixels: np.ndarray, how: str) -> np.ndarray:
    planes = pixels.transpose(2, 0, 1).astype(np.float32)
    if how == "imagenet":
        return np.asarray((planes / 255 - MEAN) / SPREAD, np.float32)
    return planes / 255 if how == "unit" else (planes - 128) / 128
