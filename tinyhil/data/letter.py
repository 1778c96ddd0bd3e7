"""Letter Recognition: 16 integer attributes of distorted capital letters; 16000 to train on, the last 4000 to test.

Slate, "Letter Recognition", UCI, 1991; CC BY 4.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.origin import Arrays, Origin, Remote, obtain

TRAIN = 16000
CLASSES = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
URL = "https://archive.ics.uci.edu/static/public/59/letter+recognition.zip"


def _parse(paths: Sequence[Path]) -> Arrays:
    with files.unpacking(paths[0]) as archive:
        lines = archive.read("letter-recognition.data").decode().split()
    fields = [line.split(",") for line in lines]
    return {
        "x": np.array([row[1:] for row in fields], np.uint8),
        "y": np.array([CLASSES.index(row[0]) for row in fields], np.uint8),
    }


ORIGIN = Origin(
    name="letter",
    files=("letter.npz",),
    keys=("x", "y"),
    sha256="995ccb68672af4fd3bfa393a81ca094669007f8a9d38027272e988f142ca8f3a",
    remotes=(Remote(URL, "letter+recognition.zip"),),
    parse=_parse,
    join=lambda parts: dict(parts[0]),
)


def load_letter(*, allow_download: bool = True) -> Dataset:
    """`x_*` (n, 16), attributes 0-15."""
    arrays, digest = obtain(ORIGIN, allow_download=allow_download)
    x, y = arrays["x"].astype(np.float32), arrays["y"]
    return Dataset("letter", "full", digest, x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], CLASSES)


LETTER = Loader("letter", load_letter)
