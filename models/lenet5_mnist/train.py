"""Trains LeNet-5 for handwritten digits. About five minutes on one core.

    python models/lenet5_mnist/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `mnist`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fit import Schedule
from models.training.nets import Conv, Dense, Pool, Recipe, Relu, to_onnx, train
from models.training.publish import About, publish
from models.training.words import LENET5
from tinyhil.data import load

HERE = Path(__file__).parent
RECIPE = Recipe(
    (
        Conv(6, 5, 2),
        Relu(),
        Pool(),
        Conv(16, 5),
        Relu(),
        Pool(),
        Dense(120),
        Relu(),
        Dense(84),
        Relu(),
        Dense(10),
    ),
    shift=1,
    schedule=Schedule(epochs=8, batch=100, learning_rate=4e-3),
)


def main() -> None:
    data = load("mnist")
    assert data.y_train is not None
    built = train(data.x_train[:, None], data.y_train, RECIPE)
    about = About(
        title="Handwritten digits with LeNet-5 (28 x 28 pixels)",
        dataset="mnist",
        summary="Recognises handwritten digits with LeNet-5.",
        family=LENET5,
        facts={"Cost": f"{built.cost:,} multiply-accumulates"},
    )
    publish(HERE, to_onnx(HERE.name, built.network, (1, 28, 28)), about)


if __name__ == "__main__":
    main()
