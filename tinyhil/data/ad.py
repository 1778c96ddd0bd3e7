"""Anomaly detection of MLPerf Tiny: one normal clip of a toy car, 196 windows of 5 log-mel frames of 128 bands.

Koizumi et al., "ToyADMOS", 2019; a calibration sample of github.com/mlcommons/tiny (Apache-2.0). There are no labels: a
clip is judged by its mean reconstruction error. Every second window is for calibration, the others for testing.
"""

from __future__ import annotations

import numpy as np

from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.origin import Origin, obtain

WINDOW_FRAMES = 5

ORIGIN = Origin(
    name="ad01",
    files=("ad01_normal_sample.npz",),
    keys=("x",),
    sha256="31bc130d27e3732e1c09db946ccc7bfa130f98739bcd90cfa39d590f61f4d6fa",
    remotes=(),
    parse=None,
    join=lambda parts: dict(parts[0]),
)


def load_ad01(*, allow_download: bool = True) -> Dataset:
    """`x_train`, `x_test` (98, 640), unlabelled; from HIL_DATA only: the clip has no address of its own."""
    arrays, digest = obtain(ORIGIN, allow_download=False)
    frames = arrays["x"].astype(np.float32)
    windows = np.stack([frames[i : i + WINDOW_FRAMES].reshape(-1) for i in range(len(frames) - WINDOW_FRAMES + 1)])
    message = "ad01: one normal clip, no labels; accuracy is not available"
    return Dataset("ad01", "subset", digest, windows[::2], None, windows[1::2], None, (), message)


AD01 = Loader("ad01", load_ad01)
