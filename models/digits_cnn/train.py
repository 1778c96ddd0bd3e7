"""Trains a small convolutional network for handwritten digits. Seconds on one core.

    python models/digits_cnn/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `digits`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.nets import Conv, Dense, Pool, Recipe, Relu, to_onnx, train
from models.training.publish import About, publish
from models.training.words import DIGITS_CNN
from tinyhil.data import load

HERE = Path(__file__).parent
RECIPE = Recipe((Conv(8, 3), Relu(), Conv(16, 3), Relu(), Pool(), Dense(10)), schedule=Schedule(epochs=60, batch=50))


def main() -> None:
    data = load("digits")
    assert data.y_train is not None
    built = train(data.x_train[:, None], data.y_train, RECIPE)
    about = About(
        title="Handwritten digits with a small convolutional network (8 x 8 pixels)",
        dataset="digits",
        summary="Recognises handwritten digits with a small convolutional network.",
        family=DIGITS_CNN,
        facts={"Cost": f"{built.cost:,} multiply-accumulates"},
    )
    publish(HERE, to_onnx(HERE.name, built.network, (1, 8, 8)), about)


if __name__ == "__main__":
    main()
