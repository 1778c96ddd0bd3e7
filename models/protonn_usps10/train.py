"""Trains a ProtoNN model: ten handwritten digits. About a minute on one core.

    python models/protonn_usps10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps`.
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
RECIPE = Recipe(dimensions=25, prototypes=55, classes=10, density=0.3, schedule=Schedule(epochs=60))


def main() -> None:
    data = load("usps")
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, RECIPE)
    about = About(
        title="Ten handwritten digits with ProtoNN (10 classes)",
        dataset="usps",
        summary="Recognises ten handwritten digits by their nearness to a few prototypes in a space of few dimensions.",
        family=PROTONN,
        facts={
            "Dimensions, prototypes": f"{RECIPE.dimensions}, {RECIPE.prototypes}",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(HERE, protonn(HERE.name, weights, (1, 16, 16)), about)


if __name__ == "__main__":
    main()
