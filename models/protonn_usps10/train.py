"""Trains a ProtoNN model: ten handwritten digits. About a minute on one core.

    python models/protonn_usps10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.protonn import Recipe, make

RECIPE = Recipe(dimensions=25, prototypes=55, classes=10, density=0.3, schedule=Schedule(epochs=60))

if __name__ == "__main__":
    make(Path(__file__).parent, "usps", "ten handwritten digits", RECIPE)
