"""Trains a ProtoNN model: digits 0-4 from digits 5-9. About a minute on one core.

    python models/protonn_usps2/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps2`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.protonn import Recipe, make

RECIPE = Recipe(dimensions=10, prototypes=20, classes=2, density=0.2, schedule=Schedule(epochs=60))

if __name__ == "__main__":
    make(Path(__file__).parent, "usps2", "digits 0-4 from digits 5-9", RECIPE, verb="Tells")
