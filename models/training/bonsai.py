"""Trains Bonsai: every sample takes all paths with soft weights at first, one path at the end. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from models.training.fit import Pruning, Scaling, Schedule, centred, fit, standard, start
from models.training.graphs import Bonsai, bonsai
from models.training.nets import moved
from models.training.publish import About, publish
from models.training.words import BONSAI
from tinyhil.data import load


@dataclass(frozen=True, slots=True)
class Recipe:
    """`classes` of 1 asks for the sign of one score. `density` is the share of the projection that stays.
    `shift`: pictures moved by up to so many pixels."""

    dimensions: int
    depth: int
    classes: int
    density: float = 1.0
    per_feature: bool = False
    hard_from: float = 0.6
    shift: int = 0
    schedule: Schedule = field(default_factory=Schedule)


class Network(nn.Module):
    """The float model on scaled inputs."""

    def __init__(self, features: int, recipe: Recipe) -> None:
        super().__init__()
        nodes, d, classes = 2 ** (recipe.depth + 1) - 1, recipe.dimensions, recipe.classes
        self.depth = recipe.depth
        self.projection = nn.Parameter(torch.randn(features, d) / features**0.5)
        self.bias = nn.Parameter(torch.zeros(d))
        self.score_w = nn.Parameter(torch.randn(nodes, d, classes) * 0.3)
        self.score_v = nn.Parameter(torch.randn(nodes, d, classes) * 0.3)
        self.branch = nn.Parameter(torch.randn(2**recipe.depth - 1, d) * 0.3)

    def forward(self, x: torch.Tensor, sharpness: float | None) -> torch.Tensor:
        """Scores (n, classes); `sharpness` None takes the hard path, which gives the branches no gradient."""
        z = x @ self.projection + self.bias
        side = z @ self.branch.T
        left = (side >= 0).float() if sharpness is None else torch.sigmoid(sharpness * side)
        shares = [torch.ones_like(x[:, 0])]
        for node in range(len(self.branch)):
            shares += [shares[node] * left[:, node], shares[node] * (1 - left[:, node])]
        term = torch.einsum("nd,kdc->nkc", z, self.score_w) * torch.tanh(torch.einsum("nd,kdc->nkc", z, self.score_v))
        return (torch.stack(shares, 1)[:, :, None] * term).sum(1)


def train(x: np.ndarray, y: np.ndarray, recipe: Recipe) -> Bonsai:
    """`x` (n, features) as the data set gives them; the scaling is folded into what is returned."""
    start(recipe.schedule.seed)
    scaling: Scaling = (standard if recipe.per_feature else centred)(x)
    model = Network(x.shape[1], recipe)
    smoothing = recipe.schedule.label_smoothing
    moves = torch.Generator().manual_seed(recipe.schedule.seed + 1)

    def loss(inputs: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        sharpness = None if progress >= recipe.hard_from else float(4.0 ** (4 * progress / recipe.hard_from))
        if recipe.shift:
            inputs = moved(inputs, recipe.shift, moves)
        scores = model(inputs, sharpness)
        if recipe.classes == 1:
            scores = torch.cat([-scores, scores], 1)
        return functional.cross_entropy(scores, labels, label_smoothing=smoothing)

    fit(model, (scaling(x), y), recipe.schedule, loss, Pruning(model.projection, recipe.density))
    projection, bias, score_w, score_v, branch = (
        p.detach().numpy().astype(np.float64)
        for p in (model.projection, model.bias, model.score_w, model.score_v, model.branch)
    )
    return Bonsai(
        projection=projection * scaling.gain[:, None],
        bias=bias + scaling.offset @ projection,
        score_w=score_w,
        score_v=score_v,
        branch=branch[:, :, None],
    )


def make(folder: Path, dataset: str, task: str, recipe: Recipe, verb: str = "Recognises") -> None:
    """Train on `dataset` and publish into `folder`; its card says that the model does `task`."""
    data = load(dataset)
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, recipe)
    about = About(
        title=f"{task[0].upper()}{task[1:]} with Bonsai ({max(2, recipe.classes)} classes)",
        dataset=dataset,
        summary=f"{verb} {task} with one small tree, every node of which gives scores.",
        family=BONSAI,
        facts={
            "Dimensions, depth": f"{recipe.dimensions}, {recipe.depth} (a path of {recipe.depth + 1} nodes)",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(folder, bonsai(folder.name, weights, (1, *data.x_train.shape[1:])), about)
