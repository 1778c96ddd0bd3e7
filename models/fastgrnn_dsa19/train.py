"""Trains a FastGRNN: 19 activities from five boxes of motion sensors. About five minutes on one core.

    python models/fastgrnn_dsa19/train.py

Needs the extra `train` (torch, onnxruntime) and the data set `dsa19`.
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
    classes=19,
    rank_w=16,
    rank_u=20,
    input_exponents=(-5, -4, -3),
    shift=5,
    noise=0.2,
    schedule=Schedule(epochs=20, weight_decay=1e-2),
)


def main() -> None:
    data = load("dsa19")
    assert data.y_train is not None
    weights = train(data.x_train, data.y_train, RECIPE)
    cost = 125 * weights.step_cost + weights.classifier.size
    about = About(
        title="19 activities from five boxes of motion sensors with FastGRNN (125 steps of 45)",
        dataset="dsa19",
        summary="Recognises 19 activities from five boxes of motion sensors.",
        family=FASTGRNN,
        facts={
            "Hidden, rank of W, rank of U": f"{RECIPE.hidden}, {RECIPE.rank_w or 'full'}, {RECIPE.rank_u or 'full'}",
            "Cost": f"{weights.step_cost:,} multiply-accumulates per step, {cost:,} per sample",
        },
    )
    publish(HERE, fastgrnn(HERE.name, weights, (1, 125, 45)), about)


if __name__ == "__main__":
    main()
