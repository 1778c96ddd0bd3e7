"""SSD's boxes: anchors over three grids, and between boxes and what the heads say of them (Liu et al., ECCV 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

ASPECT = 1.12  # height over width of a face
CENTRE_SPREAD, SIZE_SPREAD = 0.1, 0.2  # SSD's variances
NUMBERS = 5  # of an anchor: score, centre x and y, width and height


@dataclass(frozen=True, slots=True)
class Grid:
    """A head: cells every `stride` pixels, the first around pixel 0, an anchor of each of these widths in every one."""

    stride: int
    widths: tuple[float, ...]

    def cells(self, height: int, width: int) -> tuple[int, int]:
        return -(-height // self.stride), -(-width // self.stride)


GRIDS = (Grid(8, (8.0, 16.0)), Grid(16, (28.0, 44.0)), Grid(32, (72.0, 120.0)))


@cache
def anchors(height: int, width: int) -> np.ndarray:
    """(anchors, centre x + centre y + width + height) in the order of the heads' numbers: grid, kind, row, column."""
    made = []
    for grid in GRIDS:
        rows, columns = grid.cells(height, width)
        y, x = np.meshgrid(np.arange(rows) * grid.stride, np.arange(columns) * grid.stride, indexing="ij")
        for size in grid.widths:
            sides = (np.full(x.size, size), np.full(x.size, size * ASPECT))
            made.append(np.column_stack([x.ravel(), y.ravel(), *sides]))
    return np.concatenate(made).astype(np.float64)


def encode(boxes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Of boxes (n, corners), each for its anchor (n, 4): what the heads shall say."""
    centre, size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    moved = (centre - at[:, :2]) / at[:, 2:] / CENTRE_SPREAD
    return np.concatenate([moved, np.log(np.maximum(size, 1.0) / at[:, 2:]) / SIZE_SPREAD], axis=1)


def decode(said: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The boxes (n, corners) that the heads mean: the inverse of `encode`."""
    centre = at[:, :2] + said[:, :2] * CENTRE_SPREAD * at[:, 2:]
    half = np.exp(np.clip(said[:, 2:] * SIZE_SPREAD, -4, 4)) * at[:, 2:] / 2
    return np.concatenate([centre - half, centre + half], axis=1)


def by_anchor(output: np.ndarray, height: int, width: int) -> np.ndarray:
    """(anchors, NUMBERS) of a network's output: for each grid, each kind of anchor, planes (NUMBERS, rows, columns)."""
    parts, at = [], 0
    for grid in GRIDS:
        rows, columns = grid.cells(height, width)
        count = len(grid.widths) * NUMBERS * rows * columns
        planes = output.reshape(-1)[at : at + count].reshape(len(grid.widths), NUMBERS, rows * columns)
        parts.append(planes.transpose(0, 2, 1).reshape(-1, NUMBERS))
        at += count
    return np.concatenate(parts)
