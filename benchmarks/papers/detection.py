"""From a detector's numbers to mean average precision: boxes, non-maximum suppression, and pycocotools as the judge."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

LEAST_SCORE, OVERLAP, MOST = 0.001, 0.6, 100  # YOLOv5's own figures for its tables; COCO counts 100 boxes a picture
CANDIDATES = 1000


def boxes(output: np.ndarray) -> np.ndarray:
    """(boxes, 4 corners + score + class) of one picture's (anchors, centre + size + objectness + classes), best first:
    non-maximum suppression class by class."""
    scores = output[:, 4:5] * output[:, 5:]
    anchor, kind = np.nonzero(scores > LEAST_SCORE)
    best = np.argsort(-scores[anchor, kind], kind="stable")[:CANDIDATES]
    anchor, kind = anchor[best], kind[best]
    centre, half = output[anchor, :2], output[anchor, 2:4] / 2
    corners = np.concatenate([centre - half, centre + half], axis=1)
    strongest = unsuppressed(corners, kind)[:MOST]
    return np.column_stack([corners[strongest], scores[anchor[strongest], kind[strongest]], kind[strongest]])


def unsuppressed(corners: np.ndarray, kind: np.ndarray, limit: float = OVERLAP) -> np.ndarray:
    """Places of boxes, best first, that no better one of their class overlaps by more than `limit`."""
    overlap = (overlaps(corners, corners) > limit) & (kind[:, None] == kind)
    alive = np.ones(len(corners), bool)
    for place in range(len(corners)):
        if alive[place]:
            alive[place + 1 :] &= ~overlap[place, place + 1 :]
    return np.flatnonzero(alive)


def overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union (len(a), len(b)) of corners."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    area_a, area_b = ((box[:, 2:] - box[:, :2]).prod(axis=1) for box in (a, b))
    return np.asarray(shared / np.maximum(area_a[:, None] + area_b - shared, 1e-12))


def true_boxes(labels: np.ndarray, sizes: np.ndarray, side: int) -> np.ndarray:
    """(boxes, picture + class + 4 corners) in the pixels of letterboxed pictures, of (picture, class, centre, size)
    relative to the pictures within."""
    size = sizes[labels[:, 0].astype(int)]
    centre, half = labels[:, 2:4] * size + (side - size) // 2, labels[:, 4:6] * size / 2
    return np.column_stack([labels[:, :2], centre - half, centre + half])


def average_precision(found: list[np.ndarray], truth: np.ndarray, overlap: float = 0.5) -> float:
    """Mean over the classes there are, by pycocotools' 101-point interpolation: COCO's AP50."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        whole = COCO()
        whole.dataset = _ground_truth(len(found), truth)
        whole.createIndex()
        given = [_entry(picture, *row) for picture, rows in enumerate(found) for row in rows.tolist()]
        if not given:
            return 0.0
        judge = COCOeval(whole, whole.loadRes(given), "bbox")
        judge.params.iouThrs = np.array([overlap])
        judge.params.maxDets = [MOST]
        judge.params.areaRng, judge.params.areaRngLbl = [[0, 1e10]], ["all"]
        judge.evaluate()
        judge.accumulate()
    precision = judge.eval["precision"]
    return float(precision[precision > -1].mean())


def _ground_truth(pictures: int, truth: np.ndarray) -> dict[str, Any]:
    annotations = []
    for number, (picture, kind, *corners) in enumerate(truth.tolist(), 1):
        box = _box(corners)
        entry = {"id": number, "image_id": int(picture), "category_id": int(kind), "bbox": box}
        annotations.append({**entry, "area": box[2] * box[3], "iscrowd": 0})
    kinds = sorted({int(kind) for kind in truth[:, 1]})
    images = [{"id": picture} for picture in range(pictures)]
    return {"info": {}, "images": images, "annotations": annotations, "categories": [{"id": kind} for kind in kinds]}


def _entry(picture: int, *row: float) -> dict[str, Any]:
    *corners, score, kind = row
    return {"image_id": picture, "category_id": int(kind), "bbox": _box(corners), "score": score}


def _box(corners: list[float]) -> list[float]:
    left, top, right, bottom = corners
    return [left, top, right - left, bottom - top]
