"""Trains a FastGRNN: the ten digits of MNIST, row by row. About ten minutes on one core.

    python models/fastgrnn_mnist10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `mnist`.
"""

from __future__ import annotations

from pathlib import Path

from models.training.fastgrnn import Recipe, train
from models.training.fit import Schedule
from models.training.graphs import fastgrnn
from models.training.publish import About, publish
from models.training.words import FASTGRNN
from tinyhil.data import load

HERE = Path(__file__).parent
RECIPE = Recipe(
    hidden=64,
    classes=10,
    rank_w=16,
    rank_u=16,
    input_exponents=(-7, -6),
    shift=1,
    schedule=Schedule(epochs=20, batch=200),
)


def main() -> None:
    data = load("mnist")
    assert data.y_train is not None
    weights = train(data.x_train, data.y_train, RECIPE)
    cost = 28 * weights.step_cost + weights.classifier.size
    about = About(
        title="The ten digits of MNIST, row by row with FastGRNN (28 steps of 28)",
        dataset="mnist",
        summary="Recognises the ten digits of MNIST, row by row.",
        family=FASTGRNN,
        facts={
            "Hidden, rank of W, rank of U": f"{RECIPE.hidden}, {RECIPE.rank_w or 'full'}, {RECIPE.rank_u or 'full'}",
            "Cost": f"{weights.step_cost:,} multiply-accumulates per step, {cost:,} per sample",
        },
    )
    publish(HERE, fastgrnn(HERE.name, weights, (1, 28, 28)), about)


if __name__ == "__main__":
    main()
