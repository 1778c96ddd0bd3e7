"""The paper's rows that no model of the zoo stands for: networks for the data in HIL_DATA, and how they are trained.

What they became is kept: `benchmarks/papers/minun/trained/`.
MinUn's own networks and splits are not public, so these are networks of ours for its data sets, small enough for its
limits. Where the papers do not say how classes were grouped, the grouping is ours: `DATA` says how. google-12,
google-30 and curet-61 need data that is not at hand: `ABSENT`.
"""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.errors import DataError

Labelled = tuple[np.ndarray, np.ndarray]
Parts = tuple[Labelled, Labelled]  # to train on, to test on

ABSENT = {
    "google-12": "Speech Commands is at hand with 300 recordings only",
    "google-30": "Speech Commands is at hand with 300 recordings only",
    "curet-61": "CUReT is not at hand",
    "ward-2": "WARD is not at hand",
}
VEHICLES = (0, 1, 8, 9)  # of CIFAR-10, against its animals
SIDE = 20  # pixels: 400 features, as in the papers
CIFAR_TRAINED = 20_000
CR_TRAINED = 4397  # of 6283, the papers' count
RANK_W = 5  # of HAR-2 in the FastGRNN paper
HAR_EXPONENTS = (-6, -5)  # of 8-bit inputs in training: -2..2 and -4..4, saturating
HAR_NOISE = 0.1
HAR_UP = (1, 3, 5)  # walking upstairs, sitting, laying: the grouping of the FastGRNN paper


def _file(name: str) -> Any:
    path = Path(os.environ.get("HIL_DATA", "")) / name
    if not path.is_file():
        raise DataError(f"set HIL_DATA to a folder with {name}")
    return np.load(path)


def _pictures(name: str, most: int) -> Labelled:
    """Grey pictures of SIDE x SIDE in 0..1, and whether they show a vehicle."""
    from PIL import Image

    data = _file(name)
    jpeg, labels = data["jpeg"], data["y"][:most]  # each look into the file reads all of it
    spans = itertools.islice(itertools.pairwise(data["offsets"]), most)
    pictures = (Image.open(io.BytesIO(jpeg[a:b].tobytes())).convert("L").resize((SIDE, SIDE)) for a, b in spans)
    x = np.stack([np.asarray(picture, np.float32) / 255 for picture in pictures])
    return x, np.isin(labels, VEHICLES).astype(np.int64)


@cache
def cifar2() -> Parts:
    """Vehicles against animals."""
    train = _pictures("large/cifar10_train50k_jpeg.npz", CIFAR_TRAINED)
    return train, _pictures("large/cifar10_test10k_jpeg.npz", 10_000)


@cache
def cr62() -> Parts:
    """Characters of street images, drawn by a fixed seed into the papers' counts."""
    data = _file("small/chars62.npz")
    order = np.random.default_rng(0).permutation(len(data["x"]))
    x, y = data["x"][order].astype(np.float32) / 255, data["y"][order].astype(np.int64)
    return (x[:CR_TRAINED], y[:CR_TRAINED]), (x[CR_TRAINED:], y[CR_TRAINED:])


def cr2() -> Parts:
    """The first 31 of the 62 characters against the others."""
    (x, y), (x_test, y_test) = cr62()
    return (x, (y >= 31).astype(np.int64)), (x_test, (y_test >= 31).astype(np.int64))


@cache
def mnist10() -> Parts:
    data = _file("large/mnist.npz")
    x, x_test = (data[name].astype(np.float32) / 255 for name in ("x_train", "x_test"))
    return (x, data["y_train"].astype(np.int64)), (x_test, data["y_test"].astype(np.int64))


def mnist2() -> Parts:
    """Digits 0 to 4 against 5 to 9."""
    (x, y), (x_test, y_test) = mnist10()
    return (x, (y >= 5).astype(np.int64)), (x_test, (y_test >= 5).astype(np.int64))


def letter26() -> Parts:
    data = _file("small/letter.npz")
    x, y = data["x"].astype(np.float32), data["y"].astype(np.int64)
    return (x[:16000], y[:16000]), (x[16000:], y[16000:])


def har2() -> Parts:
    """The subset of UCI HAR, its six classes in two groups."""
    data = _file("small/har6_subset.npz")
    parts = []
    for part in ("train", "test"):
        x = (data[f"x_{part}"] * data["scale"]).astype(np.float32)
        parts.append((x, np.isin(data[f"y_{part}"], HAR_UP).astype(np.int64)))
    return parts[0], parts[1]


@dataclass(frozen=True, slots=True)
class Row:
    """A network of ours for a row of the paper: its size and training.

    `width`: prototypes of ProtoNN, depth of Bonsai, rank of U of FastGRNN. `shift`: pixels that pictures are moved by.
    """

    data: Callable[[], Parts]
    dimensions: int
    classes: int
    width: int
    epochs: int
    rate: float = 1e-2
    decay: float = 1e-2
    smoothing: float = 0.05
    density: float = 0.3
    shift: int = 0


ROWS = {
    "protonn_cifar2": Row(cifar2, 15, 2, 30, 20, shift=1),
    "protonn_cr2": Row(cr2, 20, 2, 40, 60, shift=1),
    "protonn_cr62": Row(cr62, 30, 62, 74, 60, smoothing=0.1, shift=1),
    "protonn_mnist2": Row(mnist2, 10, 2, 28, 10),
    "protonn_letter26_small": Row(letter26, 16, 26, 38, 60, 2e-2, 0.0, 0.0, 1.0),
    "protonn_mnist10_small": Row(mnist10, 10, 10, 31, 12),
    "bonsai_cifar2": Row(cifar2, 20, 1, 3, 20, 2e-3),
    "bonsai_cr2": Row(cr2, 20, 1, 3, 60, 5e-3, shift=1),
    "bonsai_cr62": Row(cr62, 20, 62, 3, 60, 2e-3),
    "bonsai_mnist2": Row(mnist2, 14, 1, 3, 8, 2e-3),
    "fastgrnn_har2": Row(har2, 80, 2, 40, 45, decay=1e-4),
}


def network(name: str, row: Row, x: np.ndarray, y: np.ndarray) -> Any:
    """The ONNX model of a row, trained on samples and labels (needs torch)."""
    from models.training import bonsai, fastgrnn, graphs, protonn
    from models.training.fit import Schedule

    shape, flat = (1, *x.shape[1:]), x.reshape(len(x), -1)
    schedule = Schedule(row.epochs, 200 if len(x) > 10_000 else 100, row.rate, row.decay, row.smoothing)
    if name.startswith("protonn"):
        per_feature = row.data is letter26
        recipe = protonn.Recipe(
            row.dimensions, row.width, row.classes, row.density, per_feature, True, shift=row.shift, schedule=schedule
        )
        return graphs.protonn(name, protonn.train(flat, y, recipe), shape)
    if name.startswith("bonsai"):
        tree = bonsai.Recipe(row.dimensions, row.width, row.classes, row.density, shift=row.shift, schedule=schedule)
        return graphs.bonsai(name, bonsai.train(flat, y, tree), shape)
    cell = fastgrnn.Recipe(
        row.dimensions, row.classes, RANK_W, row.width, HAR_EXPONENTS, noise=HAR_NOISE, schedule=schedule
    )
    return graphs.fastgrnn(name, fastgrnn.train(x, y, cell), shape)
