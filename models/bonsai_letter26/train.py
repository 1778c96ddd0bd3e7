"""Trains a Bonsai model: 26 capital letters. About a minute on one core.

    python models/bonsai_letter26/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `letter`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.bonsai import Recipe, train
from models.training.fit import Schedule
from models.training.graphs import bonsai
from models.training.publish import About, publish
from models.training.words import BONSAI
from tinyhil.data import load

HERE = Path(__file__).parent
RECIPE = Recipe(dimensions=16, depth=2, classes=26, per_feature=True, schedule=Schedule(epochs=60))


def main() -> None:
    data = load("letter")
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, RECIPE)
    about = About(
        title="26 capital letters with Bonsai (26 classes)",
        dataset="letter",
        summary="Recognises 26 capital letters with one small tree, every node of which gives scores.",
        family=BONSAI,
        facts={
            "Dimensions, depth": f"{RECIPE.dimensions}, {RECIPE.depth} (a path of {RECIPE.depth + 1} nodes)",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(HERE, bonsai(HERE.name, weights, (1, 16)), about)


if __name__ == "__main__":
    main()
