"""Trains a Bonsai model: digits 0-4 from digits 5-9. About a minute on one core.

    python models/bonsai_usps2/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps2`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.bonsai import Recipe, make
from models.training.fit import Schedule

RECIPE = Recipe(dimensions=20, depth=3, classes=1, density=0.3, schedule=Schedule(epochs=60))

if __name__ == "__main__":
    make(Path(__file__).parent, "usps2", "digits 0-4 from digits 5-9", RECIPE, verb="Tells")
