"""Trains a FastGRNN: ten spoken digits. About five minutes on one core.

    python models/fastgrnn_fsdd/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `fsdd`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fastgrnn import Recipe, make
from models.training.fit import Schedule

RECIPE = Recipe(
    hidden=32, classes=10, rank_u=8, input_exponents=(-3,), shift=8, noise=0.1, schedule=Schedule(epochs=60)
)

if __name__ == "__main__":
    make(Path(__file__).parent, "fsdd", "ten spoken digits", RECIPE)
