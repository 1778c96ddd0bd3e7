"""Trains ProtoNN: projection, prototypes and labels together, by cross-entropy. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from models.training.fit import Pruning, Scaling, Schedule, centred, fit, standard, start
from models.training.graphs import ProtoNn, protonn
from models.training.nets import moved
from models.training.publish import About, publish
from models.training.words import PROTONN
from tinyhil.data import load


@dataclass(frozen=True, slots=True)
class Recipe:
    """`density` is the share of the projection that stays; the rest is zero.

    `relative`: shares of the kernels instead of the kernels, exp(-d_j^2) / sum exp(-d_i^2). Decisions are the same, as
    every score has the one positive factor, but gradients are those of a softmax: a sample far from all prototypes
    still moves the nearest, where its kernels alone are nearly 0 and teach nothing. What formats then could not hold is
    kept away by `near`, a penalty on nearest distances beyond NEAR. `shift`: pictures moved by up to so many pixels."""

    dimensions: int
    prototypes: int
    classes: int
    density: float = 1.0
    per_feature: bool = False
    relative: bool = False
    near: float = 0.3
    shift: int = 0
    schedule: Schedule = field(default_factory=Schedule)


NEAR = 2.0  # of d^2: a kernel of 0.14


class Network(nn.Module):
    """The float model on scaled inputs. gamma is 1: the projection and the prototypes carry it."""

    def __init__(self, projection: torch.Tensor, prototypes: torch.Tensor, labels: torch.Tensor) -> None:
        super().__init__()
        self.projection = nn.Parameter(projection)
        self.prototypes = nn.Parameter(prototypes)
        self.labels = nn.Parameter(labels)

    def distances(self, x: torch.Tensor) -> torch.Tensor:
        """Squared, (n, prototypes)."""
        reduced = x @ self.projection
        return torch.cdist(reduced, self.prototypes, compute_mode="donot_use_mm_for_euclid_dist").square()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(-self.distances(x)) @ self.labels


def k_means(points: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Centres of Lloyd's algorithm from random points."""
    centres = points[random.choice(len(points), count, replace=False)]
    for _ in range(20):
        nearest = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
        centres = np.stack([points[nearest == k].mean(0) if (nearest == k).any() else centres[k] for k in range(count)])
    return centres


def initial(x: np.ndarray, y: np.ndarray, recipe: Recipe) -> Network:
    """Projection: the directions between the classes first, then those of largest variance. Prototypes: k-means."""
    random = np.random.default_rng(recipe.schedule.seed)
    within = np.concatenate([x[y == c] - x[y == c].mean(0) for c in range(recipe.classes)])
    between = np.stack([x[y == c].mean(0) for c in range(recipe.classes)])
    spread = within.T @ within / len(x) + 0.1 * np.eye(x.shape[1])
    _, _, contrasts = np.linalg.svd(np.linalg.solve(spread, (between - between.mean(0)).T).T, full_matrices=False)
    _, _, variance = np.linalg.svd(x[:4000] - x[:4000].mean(0), full_matrices=False)
    directions = np.concatenate([contrasts[: recipe.classes - 1], variance])[: recipe.dimensions]
    projection = (directions / np.linalg.norm(directions, axis=1, keepdims=True)).T
    z = x @ projection
    z_scale = 1 / z.std(0)
    projection, z = projection * z_scale, z * z_scale
    sizes = [len(part) for part in np.array_split(np.arange(recipe.prototypes), recipe.classes)]
    rows = [k_means(z[y == c][:1500], sizes[c], random) for c in range(recipe.classes)]
    prototypes = np.concatenate(rows)
    nearest = np.sqrt(((z[:1000, None] - prototypes) ** 2).sum(2)).min(1)
    gamma = 1 / np.median(nearest)
    labels = np.repeat(np.eye(recipe.classes), sizes, axis=0) * (8 if recipe.relative else 4)
    tensors = [torch.tensor(a.astype(np.float32)) for a in (projection * gamma, prototypes * gamma, labels)]
    return Network(*tensors)


def train(x: np.ndarray, y: np.ndarray, recipe: Recipe) -> ProtoNn:
    """`x` (n, features) as the data set gives them; the scaling is folded into what is returned."""
    start(recipe.schedule.seed)
    scaling: Scaling = (standard if recipe.per_feature else centred)(x)
    model = initial(scaling(x), y, recipe)
    smoothing = recipe.schedule.label_smoothing
    moves = torch.Generator().manual_seed(recipe.schedule.seed + 1)

    def loss(inputs: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        if not recipe.relative:
            return functional.cross_entropy(model(inputs), labels, label_smoothing=smoothing)
        distances = model.distances(moved(inputs, recipe.shift, moves) if recipe.shift else inputs)
        scores = torch.softmax(-distances, 1) @ model.labels
        far = functional.relu(distances.min(1).values - NEAR).mean()
        return functional.cross_entropy(scores, labels, label_smoothing=smoothing) + recipe.near * far

    fit(model, (scaling(x), y), recipe.schedule, loss, Pruning(model.projection, recipe.density))
    projection, prototypes, labels = (
        p.detach().numpy().astype(np.float64) for p in (model.projection, model.prototypes, model.labels)
    )
    # Projections of a few units use the bits of a format best, so gamma goes back into its own constant.
    gamma = 1 / np.abs(prototypes).max() * 4
    return ProtoNn(
        projection=projection * scaling.gain[:, None] / gamma,
        bias=scaling.offset @ projection / gamma,
        prototypes=prototypes / gamma,
        labels=labels,
        gamma_squared=float(gamma**2),
    )


def make(folder: Path, dataset: str, task: str, recipe: Recipe, verb: str = "Recognises") -> None:
    """Train on `dataset` and publish into `folder`; its card says that the model does `task`."""
    data = load(dataset)
    assert data.y_train is not None
    weights = train(data.x_train.reshape(len(data.x_train), -1), data.y_train, recipe)
    about = About(
        title=f"{task[0].upper()}{task[1:]} with ProtoNN ({recipe.classes} classes)",
        dataset=dataset,
        summary=f"{verb} {task} by their nearness to a few prototypes in a space of few dimensions.",
        family=PROTONN,
        facts={
            "Dimensions, prototypes": f"{recipe.dimensions}, {recipe.prototypes}",
            "Cost": f"{weights.cost:,} multiply-accumulates, zeros included",
        },
    )
    publish(folder, protonn(folder.name, weights, (1, *data.x_train.shape[1:])), about)
