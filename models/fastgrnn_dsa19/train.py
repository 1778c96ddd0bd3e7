"""Trains a FastGRNN: 19 activities from five boxes of motion sensors. About five minutes on one core.

    python models/fastgrnn_dsa19/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `dsa19`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fastgrnn import Recipe, make
from models.training.fit import Schedule

RECIPE = Recipe(
    hidden=64,
    classes=19,
    rank_w=16,
    rank_u=20,
    input_exponents=(-5, -4, -3),
    shift=5,
    noise=0.2,
    schedule=Schedule(epochs=20, weight_decay=1e-2),
)

if __name__ == "__main__":
    make(Path(__file__).parent, "dsa19", "19 activities from five boxes of motion sensors", RECIPE)
