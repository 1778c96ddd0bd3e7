"""Trains a ProtoNN model: ten handwritten digits. About a minute on one core.

    python models/protonn_mnist10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `mnist`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.graphs import protonn
from models.training.protonn import Recipe, train
from models.training.publish import About, publish
from models.training.words import PROTONN
from tinyhil.data import load

HERE = Path(__file__).parent
RECIPE = Recipe(dimensions=10, prototypes=40, classes=10, density=0.2, schedule=Schedule(epochs=15, batch=200))


def main() -> None:
    data = load("mnist")
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, RECIPE)
    about = About(
        title="Ten handwritten digits with ProtoNN (10 classes)",
        dataset="mnist",
        summary="Recognises ten handwritten digits by their nearness to a few prototypes in a space of few dimensions.",
        family=PROTONN,
        facts={
            "Dimensions, prototypes": f"{RECIPE.dimensions}, {RECIPE.prototypes}",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(HERE, protonn(HERE.name, weights, (1, 28, 28)), about)


if __name__ == "__main__":
    main()
