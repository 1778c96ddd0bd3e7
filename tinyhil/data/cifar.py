"""CIFAR-10: 32 x 32 colour photos of ten classes. 10000 to test, and the first 500 of the training part to calibrate.

Krizhevsky, "Learning multiple layers of features from tiny images", 2009; no licence stated, research use.
HIL_DATA may hold the pictures recompressed as JPEG (quality 75): other pixels, about ten points less accuracy for a
network trained on the originals. The loader says which it found. Pixels are standardised with the mean and the
spread of ImageNet's channels, as networks of this size commonly take them.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.origin import Arrays, Origin, Remote, obtain
from tinyhil.errors import DataError

SIZE, CHANNELS, LARGEST_PIXEL = 32, 3, 255
CALIBRATION = 500
MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
SPREAD = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
RECORD_BYTES = 1 + CHANNELS * SIZE * SIZE
RECORDS = 10_000  # of each part
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FILE = "cifar-10-binary.tar.gz"
URL = f"https://www.cs.toronto.edu/~kriz/{FILE}"
MD5 = "md5:c32a1d4ab5d03f1284b67883e8d87530"


def _parse(paths: Sequence[Path]) -> Arrays:
    """Records of one label and 3072 pixels, channel first; the test part comes last."""
    with tarfile.open(paths[0]) as archive:
        members = ("data_batch_1", "test_batch")
        found = [archive.extractfile(f"cifar-10-batches-bin/{name}.bin") for name in members]
        content = [file.read(RECORDS * RECORD_BYTES) if file else b"" for file in found]
        train, test = (np.frombuffer(one, np.uint8).reshape(-1, RECORD_BYTES) for one in content)
    return _arrays(train[:CALIBRATION], test, lossy=False)


def _arrays(train: np.ndarray, test: np.ndarray, lossy: bool) -> Arrays:
    shape = (-1, CHANNELS, SIZE, SIZE)
    return {
        "x_train": train[:, 1:].reshape(shape),
        "y_train": train[:, 0],
        "x_test": test[:, 1:].reshape(shape),
        "y_test": test[:, 0],
        "lossy": np.array(lossy),
    }


def _join(parts: Sequence[Arrays]) -> Arrays:
    """Two files of concatenated JPEG pictures: image i is jpeg[offsets[i] : offsets[i + 1]]."""
    train, test = (_decode(part, limit) for part, limit in zip(parts, (CALIBRATION, None), strict=True))
    return _arrays(train, test, lossy=True)


def _decode(part: Arrays, limit: int | None) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError:
        raise DataError("cifar10: HIL_DATA holds JPEG pictures, which need Pillow; pip install pillow") from None
    labels, offsets = part["y"][:limit], part["offsets"]
    records = np.empty((len(labels), RECORD_BYTES), np.uint8)
    records[:, 0] = labels
    for index in range(len(labels)):
        data = part["jpeg"][offsets[index] : offsets[index + 1]].tobytes()
        pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        records[index, 1:] = pixels.transpose(2, 0, 1).reshape(-1)
    return records


ORIGIN = Origin(
    name="cifar10",
    files=("cifar10_train50k_jpeg.npz", "cifar10_test10k_jpeg.npz"),
    keys=("x_train", "y_train", "x_test", "y_test", "lossy"),
    sha256=None,  # two renderings, and JPEG decoders differ in the last bit
    remotes=(Remote(URL, FILE, MD5),),
    parse=_parse,
    join=_join,
)


def load_cifar10(*, allow_download: bool = True) -> Dataset:
    """`x_train` (500, 3, 32, 32), `x_test` (10000, 3, 32, 32), standardised."""
    arrays, digest = obtain(ORIGIN, allow_download=allow_download)
    lossy = bool(arrays["lossy"])
    x_train, x_test = (
        (arrays[key].astype(np.float32) / LARGEST_PIXEL - MEAN) / SPREAD for key in ("x_train", "x_test")
    )
    return Dataset(
        name="cifar10",
        source="subset",
        sha256=digest,
        x_train=x_train,
        y_train=arrays["y_train"],
        x_test=x_test,
        y_test=arrays["y_test"],
        classes=CLASSES,
        message="cifar10: pictures recompressed as JPEG, not the originals; accuracy suffers" if lossy else None,
    )


CIFAR10 = Loader("cifar10", load_cifar10)
