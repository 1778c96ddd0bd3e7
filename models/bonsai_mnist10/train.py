"""Trains a Bonsai model: ten handwritten digits. About a minute on one core.

    python models/bonsai_mnist10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `mnist`.
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
RECIPE = Recipe(dimensions=12, depth=2, classes=10, density=0.2, schedule=Schedule(epochs=15, batch=200))


def main() -> None:
    data = load("mnist")
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, RECIPE)
    about = About(
        title="Ten handwritten digits with Bonsai (10 classes)",
        dataset="mnist",
        summary="Recognises ten handwritten digits with one small tree, every node of which gives scores.",
        family=BONSAI,
        facts={
            "Dimensions, depth": f"{RECIPE.dimensions}, {RECIPE.depth} (a path of {RECIPE.depth + 1} nodes)",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(HERE, bonsai(HERE.name, weights, (1, 28, 28)), about)


if __name__ == "__main__":
    main()
