"""Keyword spotting of MLPerf Tiny: its 1000 evaluation inputs, 49 frames of 10 MFCC, 12 classes.

Warden, "Speech Commands", CC BY 4.0; features by MLCommons and EEMBC. The published inputs are a test set: every fifth
of them serves as the calibration part here, the other 800 as the test part.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.origin import Arrays, Origin, Remote, obtain

FRAMES, COEFFICIENTS = 49, 10
SCALE, ZERO_POINT = np.float32(0.5847029), 83  # input quantization of the published int8 model
CALIBRATION_STRIDE = 5
CLASSES = ("Down", "Go", "Left", "No", "Off", "On", "Right", "Stop", "Up", "Yes", "Silence", "Unknown")
COMMIT = "cf7c2f2634608a7c0ea7458ab7cb3379f2863424"
URL = f"https://github.com/eembc/energyrunner/archive/{COMMIT}.zip"
FOLDER = f"energyrunner-{COMMIT}/datasets/kws01"


def _parse(paths: Sequence[Path]) -> Arrays:
    """`y_labels.csv` lists file, number of classes and label."""
    with files.unpacking(paths[0]) as archive:
        rows = [line.split(",") for line in archive.read(f"{FOLDER}/y_labels.csv").decode().split()]
        raw = [archive.read(f"{FOLDER}/{row[0]}") for row in rows]
    shape = (-1, FRAMES, COEFFICIENTS, 1)
    return {
        "x": np.frombuffer(b"".join(raw), np.int8).reshape(shape),
        "y": np.array([int(row[2]) for row in rows], np.uint8),
    }


ORIGIN = Origin(
    name="kws12",
    files=("kws12_mfcc_test.npz",),
    keys=("x", "y"),
    sha256="662871bf0416a3d22a65d7890c1772a98e402b32ad3cd40aa7862801b1fe33ff",
    remotes=(Remote(URL, "energyrunner.zip"),),
    parse=_parse,
    join=lambda parts: dict(parts[0]),
)


def load_kws12(*, allow_download: bool = True) -> Dataset:
    """`x_train` (200, 49, 10), `x_test` (800, 49, 10): real MFCC values."""
    arrays, digest = obtain(ORIGIN, allow_download=allow_download)
    x, y = (arrays["x"][..., 0].astype(np.float32) - ZERO_POINT) * SCALE, arrays["y"]
    held = np.arange(len(x)) % CALIBRATION_STRIDE == 0
    return Dataset("kws12", "full", digest, x[held], y[held], x[~held], y[~held], CLASSES)


KWS12 = Loader("kws12", load_kws12)
