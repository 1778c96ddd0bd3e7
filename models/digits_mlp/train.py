"""Trains a multilayer perceptron for handwritten digits. Seconds on one core.

    python models/digits_mlp/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `digits`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.nets import Dense, Recipe, Relu, to_onnx, train
from models.training.publish import About, publish
from models.training.words import DIGITS_MLP
from tinyhil.data import load

HERE = Path(__file__).parent
RECIPE = Recipe((Dense(32), Relu(), Dense(10)), schedule=Schedule(epochs=100, batch=50))


def main() -> None:
    data = load("digits")
    assert data.y_train is not None
    built = train(data.x_train[:, None], data.y_train, RECIPE)
    about = About(
        title="Handwritten digits with a multilayer perceptron (8 x 8 pixels)",
        dataset="digits",
        summary="Recognises handwritten digits with a multilayer perceptron.",
        family=DIGITS_MLP,
        facts={"Cost": f"{built.cost:,} multiply-accumulates"},
    )
    publish(HERE, to_onnx(HERE.name, built.network, (1, 8, 8)), about)


if __name__ == "__main__":
    main()
