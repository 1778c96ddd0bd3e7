"""Trains a Bonsai model: 26 capital letters. About a minute on one core.

    python models/bonsai_letter26/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `letter`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.bonsai import Recipe, make
from models.training.fit import Schedule

RECIPE = Recipe(dimensions=16, depth=2, classes=26, per_feature=True, schedule=Schedule(epochs=60))

if __name__ == "__main__":
    make(Path(__file__).parent, "letter", "26 capital letters", RECIPE)
