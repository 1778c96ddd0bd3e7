"""Trains a ProtoNN model: 26 capital letters. About a minute on one core.

    python models/protonn_letter26/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `letter`.
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
RECIPE = Recipe(
    dimensions=16,
    prototypes=45,
    classes=26,
    per_feature=True,
    schedule=Schedule(epochs=150, batch=200, learning_rate=2e-2, weight_decay=0.0, label_smoothing=0.0),
)


def main() -> None:
    data = load("letter")
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, RECIPE)
    about = About(
        title="26 capital letters with ProtoNN (26 classes)",
        dataset="letter",
        summary="Recognises 26 capital letters by their nearness to a few prototypes in a space of few dimensions.",
        family=PROTONN,
        facts={
            "Dimensions, prototypes": f"{RECIPE.dimensions}, {RECIPE.prototypes}",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(HERE, protonn(HERE.name, weights, (1, 16)), about)


if __name__ == "__main__":
    main()
