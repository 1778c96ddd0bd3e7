"""MNIST: 28 x 28 handwritten digits, 60000 to train on and 10000 to test.

LeCun, Cortes and Burges; CC BY-SA 3.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.origin import Arrays, Origin, Remote, obtain

CLASSES = tuple("0123456789")
SIZE, LARGEST_PIXEL = 28, 255
FOLDER = "https://ossci-datasets.s3.amazonaws.com/mnist"
IMAGE_HEADER_BYTES, LABEL_HEADER_BYTES = 16, 8
FILES = (
    ("train-images-idx3-ubyte.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    ("train-labels-idx1-ubyte.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432"),
    ("t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3"),
    ("t10k-labels-idx1-ubyte.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c"),
)


def _parse(paths: Sequence[Path]) -> Arrays:
    raw = [files.gunzipped(path) for path in paths]
    images = [np.frombuffer(data, np.uint8, offset=IMAGE_HEADER_BYTES).reshape(-1, SIZE, SIZE) for data in raw[::2]]
    labels = [np.frombuffer(data, np.uint8, offset=LABEL_HEADER_BYTES) for data in raw[1::2]]
    return {"x_train": images[0], "y_train": labels[0], "x_test": images[1], "y_test": labels[1]}


ORIGIN = Origin(
    name="mnist",
    files=("mnist.npz",),
    keys=("x_train", "y_train", "x_test", "y_test"),
    sha256="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    remotes=tuple(Remote(f"{FOLDER}/{file}", file, known) for file, known in FILES),
    parse=_parse,
    join=lambda parts: dict(parts[0]),
)


def load_mnist(*, allow_download: bool = True) -> Dataset:
    """`x_*` (n, 28, 28) in 0..1."""
    arrays, digest = obtain(ORIGIN, allow_download=allow_download)
    x_train, x_test = (arrays[key].astype(np.float32) / LARGEST_PIXEL for key in ("x_train", "x_test"))
    return Dataset("mnist", "full", digest, x_train, arrays["y_train"], x_test, arrays["y_test"], CLASSES)


MNIST = Loader("mnist", load_mnist)
