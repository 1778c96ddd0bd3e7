"""Daily and Sports Activities: 19 activities, 8 persons, 5 s segments of 45 channels at 25 Hz.

Altun, Barshan and Tuncel, Pattern Recognition 43, 2010; UCI, CC BY 4.0. Persons 1-4 train, persons 5-8 test, 4560
segments each. Values are rounded to 0.1 m/s^2, 0.015 rad/s and 0.006 (magnetometer, normalised).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.origin import Arrays, Origin, Remote, obtain

STEPS, CHANNELS, ACTIVITIES, SEGMENTS = 125, 45, 19, 60
UNITS = (0.1,) * 3 + (0.015,) * 3 + (0.006,) * 3  # acceleration, gyroscope, magnetometer of one sensor box
STANDARD_GRAVITY = 9.80665
SCALE = np.array(((UNITS[0] / STANDARD_GRAVITY,) * 3 + UNITS[3:]) * 5, np.float32)
URL = "https://archive.ics.uci.edu/static/public/256/daily+and+sports+activities.zip"
CLASSES = (
    "sitting",
    "standing",
    "lying on back",
    "lying on side",
    "ascending stairs",
    "descending stairs",
    "standing in lift",
    "moving in lift",
    "walking",
    "treadmill flat",
    "treadmill inclined",
    "running",
    "stepper",
    "cross trainer",
    "cycling horizontal",
    "cycling vertical",
    "rowing",
    "jumping",
    "basketball",
)


def _parse(paths: Sequence[Path]) -> Arrays:
    """Segments ordered by activity, person and number; (n, channel, time) integers in units of UNITS."""
    arrays: Arrays = {}
    with files.unpacking(paths[0]) as archive:
        for part, persons in (("train", range(1, 5)), ("test", range(5, 9))):
            segments, labels, groups = [], [], []
            for activity in range(ACTIVITIES):
                for person in persons:
                    for number in range(1, SEGMENTS + 1):
                        text = archive.read(f"data/a{activity + 1:02d}/p{person}/s{number:02d}.txt")
                        rows = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.float64)
                        segments.append(np.round(rows / np.array(UNITS * 5)).astype(np.int16).T)
                        labels.append(activity)
                        groups.append(person)
            arrays[f"x_{part}"], arrays[f"y_{part}"] = np.stack(segments), np.array(labels, np.uint8)
            arrays[f"person_{part}"] = np.array(groups, np.uint8)
    return arrays


def _join(parts: Sequence[Arrays]) -> Arrays:
    arrays: Arrays = {}
    for part, given in zip(("train", "test"), parts, strict=True):
        arrays |= {f"x_{part}": given["x"], f"y_{part}": given["y"], f"person_{part}": given["person"]}
    return arrays


ORIGIN = Origin(
    name="dsa19",
    files=("dsa19_p1-4.npz", "dsa19_p5-8.npz"),
    keys=("x_train", "y_train", "person_train", "x_test", "y_test", "person_test"),
    sha256=None,  # rounding to units may differ in single elements from file to file
    remotes=(Remote(URL, "daily+and+sports+activities.zip"),),
    parse=_parse,
    join=_join,
)


def load_dsa19(*, allow_download: bool = True) -> Dataset:
    """`x_*` (4560, 125, 45) in g, rad/s and magnetic units: channels of like size, which a common scale suits."""
    arrays, digest = obtain(ORIGIN, allow_download=allow_download)
    x_train, x_test = (
        np.ascontiguousarray(arrays[key].transpose(0, 2, 1)).astype(np.float32) * SCALE for key in ("x_train", "x_test")
    )
    return Dataset(
        name="dsa19",
        source="full",
        sha256=digest,
        x_train=x_train,
        y_train=arrays["y_train"],
        x_test=x_test,
        y_test=arrays["y_test"],
        classes=CLASSES,
        groups_train=arrays["person_train"],
    )


DSA19 = Loader("dsa19", load_dsa19)
