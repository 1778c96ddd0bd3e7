"""Trains a ProtoNN model: digits 0-4 from digits 5-9. About a minute on one core.

    python models/protonn_usps2/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps2`.
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
RECIPE = Recipe(dimensions=10, prototypes=20, classes=2, density=0.2, schedule=Schedule(epochs=60))


def main() -> None:
    data = load("usps2")
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, RECIPE)
    about = About(
        title="Digits 0-4 from digits 5-9 with ProtoNN (2 classes)",
        dataset="usps2",
        summary="Tells digits 0-4 from digits 5-9 by their nearness to a few prototypes in a space of few dimensions.",
        family=PROTONN,
        facts={
            "Dimensions, prototypes": f"{RECIPE.dimensions}, {RECIPE.prototypes}",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(HERE, protonn(HERE.name, weights, (1, 16, 16)), about)


if __name__ == "__main__":
    main()
