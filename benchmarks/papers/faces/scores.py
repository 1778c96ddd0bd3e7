"""From the heads' numbers to boxes around faces and their average precision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from benchmarks.papers.detection import MOST, average_precision, unsuppressed
from benchmarks.papers.faces import anchors, photos
from benchmarks.papers.faces.photos import HEIGHT, WIDTH
from tinyhil.language.graph import Graph

LEAST_SCORE, OVERLAP, CANDIDATES = 0.02, 0.45, 400  # SSD's overlap
DECISION = -1.0  # a score above it (27 %) says that there is a face


def boxes(output: np.ndarray) -> np.ndarray:
    """(boxes, 4 corners + score + class 0) of a photo's numbers, best first."""
    said = anchors.by_anchor(output, HEIGHT, WIDTH)
    scores = 1 / (1 + np.exp(-said[:, 0]))
    best = np.argsort(-scores, kind="stable")[:CANDIDATES]
    best = best[scores[best] > LEAST_SCORE]
    corners = anchors.decode(said[best, 1:], anchors.anchors(HEIGHT, WIDTH)[best])
    strongest = unsuppressed(corners, np.zeros(len(corners)), OVERLAP)[:MOST]
    return np.column_stack([corners[strongest], scores[best[strongest]], np.zeros(len(strongest))])


def precision(outputs: np.ndarray, chosen: Sequence[int]) -> float:
    """Average precision, in per cent, at an overlap of one half, of the outputs for these photos."""
    truth = [
        np.column_stack([np.full(len(faces), place), np.zeros(len(faces)), faces])
        for place, faces in enumerate(map(photos.faces, chosen))
    ]
    found = [boxes(output) for output in outputs]
    return round(100 * average_precision(found, np.concatenate(truth)), 2)


@cache
def _places() -> np.ndarray:
    """Where the scores stand among the numbers of an output."""
    numbers = np.arange(len(anchors.anchors(HEIGHT, WIDTH)) * anchors.NUMBERS)
    return anchors.by_anchor(numbers, HEIGHT, WIDTH)[:, 0]


def decisions(_: Graph, outputs: np.ndarray) -> np.ndarray:
    """(samples, anchors): where there is a face. What integers and float may disagree about."""
    return np.asarray(outputs.reshape(len(outputs), -1)[:, _places()] > DECISION)
