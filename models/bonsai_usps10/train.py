"""Trains a Bonsai model: ten handwritten digits. About a minute on one core.

    python models/bonsai_usps10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.bonsai import Recipe, make
from models.training.fit import Schedule

RECIPE = Recipe(dimensions=10, depth=2, classes=10, density=0.3, schedule=Schedule(epochs=60))

if __name__ == "__main__":
    make(Path(__file__).parent, "usps", "ten handwritten digits", RECIPE)
