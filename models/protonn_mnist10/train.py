"""Trains a ProtoNN model: ten handwritten digits. About a minute on one core.

    python models/protonn_mnist10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `mnist`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.protonn import Recipe, make

RECIPE = Recipe(dimensions=10, prototypes=40, classes=10, density=0.2, schedule=Schedule(epochs=15, batch=200))

if __name__ == "__main__":
    make(Path(__file__).parent, "mnist", "ten handwritten digits", RECIPE)
