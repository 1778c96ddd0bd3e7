"""USPS: handwritten digits of 16 x 16 pixels from American envelopes, official split of 7291 and 2007.

Le Cun et al., "Handwritten digit recognition with a back-propagation network", NIPS 1989, in the rendering of "The
Elements of Statistical Learning". Licence: none stated, research use; the data are not part of the project.
`usps2` asks whether the digit is 5 or more: the binary task of ProtoNN and Bonsai.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.origin import Arrays, Origin, Remote, obtain

SCALE = 1000  # the published values have three decimals
SIZE = 16
FOLDER = "https://hastie.su.domains/ElemStatLearn/datasets"
CLASSES = tuple("0123456789")


def _parse(paths: Sequence[Path]) -> Arrays:
    arrays: Arrays = {}
    for part, path in zip(("train", "test"), paths, strict=True):
        rows = np.loadtxt(io.BytesIO(files.gunzipped(path)), dtype=np.float64)
        arrays[f"x_{part}"] = np.round(rows[:, 1:] * SCALE).astype(np.int16).reshape(-1, SIZE, SIZE)
        arrays[f"y_{part}"] = rows[:, 0].astype(np.uint8)
    return arrays


ORIGIN = Origin(
    name="usps",
    files=("usps.npz",),
    keys=("x_train", "y_train", "x_test", "y_test"),
    sha256="a83ae3680b687e10a3b37c8549a4640a30252160fed8e8c85b73d3a8523398e7",
    remotes=tuple(Remote(f"{FOLDER}/zip.{part}.gz", f"zip.{part}.gz") for part in ("train", "test")),
    parse=_parse,
    join=lambda parts: dict(parts[0]),
)


def load_usps(*, allow_download: bool = True) -> Dataset:
    """`x_*` (n, 16, 16), -1 is paper and 1 is ink."""
    arrays, digest = obtain(ORIGIN, allow_download=allow_download)
    x_train, x_test = (arrays[key].astype(np.float32) / SCALE for key in ("x_train", "x_test"))
    return Dataset("usps", "full", digest, x_train, arrays["y_train"], x_test, arrays["y_test"], CLASSES)


def load_usps2(*, allow_download: bool = True) -> Dataset:
    """USPS with two classes: 0-4 and 5-9."""
    ten = load_usps(allow_download=allow_download)
    assert ten.y_train is not None
    assert ten.y_test is not None
    y_train, y_test = ((y >= 5).astype(np.uint8) for y in (ten.y_train, ten.y_test))
    return Dataset("usps2", "full", ten.sha256, ten.x_train, y_train, ten.x_test, y_test, ("0-4", "5-9"))


USPS = Loader("usps", load_usps)
USPS2 = Loader("usps2", load_usps2)
