"""Trains a FastGRNN: the ten digits of USPS, row by row. About a minute on one core.

    python models/fastgrnn_usps10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fastgrnn import Recipe, make
from models.training.fit import Schedule

RECIPE = Recipe(hidden=32, classes=10, input_exponents=(-7, -6), shift=1, noise=0.1, schedule=Schedule(epochs=60))

if __name__ == "__main__":
    make(Path(__file__).parent, "usps", "the ten digits of USPS, row by row", RECIPE)
