"""Trains a FastGRNN: the ten digits of MNIST, row by row. About ten minutes on one core.

    python models/fastgrnn_mnist10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `mnist`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fastgrnn import Recipe, make
from models.training.fit import Schedule

RECIPE = Recipe(
    hidden=64,
    classes=10,
    rank_w=16,
    rank_u=16,
    input_exponents=(-7, -6),
    shift=1,
    schedule=Schedule(epochs=20, batch=200),
)

if __name__ == "__main__":
    make(Path(__file__).parent, "mnist", "the ten digits of MNIST, row by row", RECIPE)
