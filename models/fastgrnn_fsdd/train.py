"""Trains a FastGRNN: ten spoken digits. About five minutes on one core.

    python models/fastgrnn_fsdd/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `fsdd`.
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
    hidden=32, classes=10, rank_u=8, input_exponents=(-3,), shift=8, noise=0.1, schedule=Schedule(epochs=60)
)


def main() -> None:
    data = load("fsdd")
    assert data.y_train is not None
    weights = train(data.x_train, data.y_train, RECIPE)
    cost = 98 * weights.step_cost + weights.classifier.size
    about = About(
        title="Ten spoken digits with FastGRNN (98 steps of 32)",
        dataset="fsdd",
        summary="Recognises ten spoken digits.",
        family=FASTGRNN,
        facts={
            "Hidden, rank of W, rank of U": f"{RECIPE.hidden}, {RECIPE.rank_w or 'full'}, {RECIPE.rank_u or 'full'}",
            "Cost": f"{weights.step_cost:,} multiply-accumulates per step, {cost:,} per sample",
        },
    )
    publish(HERE, fastgrnn(HERE.name, weights, (1, 98, 32)), about)


if __name__ == "__main__":
    main()
