"""Trains a ProtoNN model: 26 capital letters. About a minute on one core.

    python models/protonn_letter26/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `letter`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.protonn import Recipe, make

RECIPE = Recipe(
    dimensions=16,
    prototypes=45,
    classes=26,
    per_feature=True,
    schedule=Schedule(epochs=150, batch=200, learning_rate=2e-2, weight_decay=0.0, label_smoothing=0.0),
)

if __name__ == "__main__":
    make(Path(__file__).parent, "letter", "26 capital letters", RECIPE)
