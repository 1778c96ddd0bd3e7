"""Trains a Bonsai model: digits 0-4 from digits 5-9. About a minute on one core.

    python models/bonsai_usps2/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps2`.
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
RECIPE = Recipe(dimensions=20, depth=3, classes=1, density=0.3, schedule=Schedule(epochs=60))


def main() -> None:
    data = load("usps2")
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, RECIPE)
    about = About(
        title="Digits 0-4 from digits 5-9 with Bonsai (2 classes)",
        dataset="usps2",
        summary="Tells digits 0-4 from digits 5-9 with one small tree, every node of which gives scores.",
        family=BONSAI,
        facts={
            "Dimensions, depth": f"{RECIPE.dimensions}, {RECIPE.depth} (a path of {RECIPE.depth + 1} nodes)",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(HERE, bonsai(HERE.name, weights, (1, 16, 16)), about)


if __name__ == "__main__":
    main()
