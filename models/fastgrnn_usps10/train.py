"""Trains a FastGRNN: the ten digits of USPS, row by row. About a minute on one core.

    python models/fastgrnn_usps10/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `usps`.
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
RECIPE = Recipe(hidden=32, classes=10, input_exponents=(-7, -6), shift=1, noise=0.1, schedule=Schedule(epochs=60))


def main() -> None:
    data = load("usps")
    assert data.y_train is not None
    weights = train(data.x_train, data.y_train, RECIPE)
    cost = 16 * weights.step_cost + weights.classifier.size
    about = About(
        title="The ten digits of USPS, row by row with FastGRNN (16 steps of 16)",
        dataset="usps",
        summary="Recognises the ten digits of USPS, row by row.",
        family=FASTGRNN,
        facts={
            "Hidden, rank of W, rank of U": f"{RECIPE.hidden}, {RECIPE.rank_w or 'full'}, {RECIPE.rank_u or 'full'}",
            "Cost": f"{weights.step_cost:,} multiply-accumulates per step, {cost:,} per sample",
        },
    )
    publish(HERE, fastgrnn(HERE.name, weights, (1, 16, 16)), about)


if __name__ == "__main__":
    main()
