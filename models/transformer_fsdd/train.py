"""Trains a transformer: ten spoken digits. About a minute on one core.

    python models/transformer_fsdd/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `fsdd`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.frame_transformer import Recipe, make

RECIPE = Recipe(
    classes=10,
    together=7,
    moved=6,
    noise=0.1,
    schedule=Schedule(epochs=30, batch=64, learning_rate=1e-2, weight_decay=1e-3),
)

if __name__ == "__main__":
    make(Path(__file__).parent, "fsdd", "ten spoken digits", RECIPE)
