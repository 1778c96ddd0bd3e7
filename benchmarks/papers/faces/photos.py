"""Photos with boxes around faces: `large/faces_qvga_jpeg.npz` of HIL_DATA. Every fifth photo is for testing alone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache

import numpy as np

from benchmarks.papers.networks import pictures_file

FILE = "faces_qvga_jpeg.npz"
HEIGHT, WIDTH = 240, 320
EVERY = 5
GREY, GAIN = 128, 128  # pixels become (x - GREY) / GAIN, within -1..1


@cache
def _arrays() -> dict[str, np.ndarray]:
    return pictures_file(FILE)


def held_out() -> list[int]:
    """Indices of the photos for testing."""
    return list(range(0, _count(), EVERY))


def to_train() -> list[int]:
    return [index for index in range(_count()) if index % EVERY]


def _count() -> int:
    return len(_arrays()["offsets"]) - 1


def pixels(index: int) -> np.ndarray:
    """(240, 320) grey levels of a photo."""
    from PIL import Image

    start, end = _arrays()["offsets"][index : index + 2]
    return np.asarray(Image.open(io.BytesIO(_arrays()["jpeg"][start:end].tobytes())).convert("L"))


def inputs(chosen: Sequence[int]) -> np.ndarray:
    """(photos, 240, 320) as the network takes them: below 1, so that 8 bits hold every grey but the darkest."""
    stacked = np.stack([np.maximum(pixels(index), 1) for index in chosen]).astype(np.float32)
    return np.asarray((stacked - GREY) / GAIN, np.float32)


def faces(index: int) -> np.ndarray:
    """(faces, left + top + right + bottom) in pixels."""
    boxes = _arrays()["boxes"]
    return boxes[boxes[:, 0] == index, 1:5].astype(np.float64)


def about() -> dict[str, float]:
    """Photos and faces, how wide half of these are at most, and how many of both are for testing."""
    known = {index: faces(index) for index in range(_count())}
    widths = np.concatenate([boxes[:, 2] - boxes[:, 0] for boxes in known.values()])
    tested = held_out()
    counts = {"photos": len(known), "faces": len(widths), "median_width": round(float(np.median(widths)), 1)}
    return {**counts, "tested": len(tested), "tested_faces": sum(len(known[index]) for index in tested)}
