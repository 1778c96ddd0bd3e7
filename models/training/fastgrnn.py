"""Trains FastGRNN with zeta = 1 and nu = 0, some batches in simulated 8-bit arithmetic. Needs torch.

Rescaling h makes zeta = 1 for any FastGRNN (U and the classifier absorb the factor); with nu = 0 |h| < 1 holds by
construction, so that the state can not overflow and uses all bits of its format.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from models.training.fit import Schedule, fit, start
from models.training.graphs import FastGrnn, fastgrnn
from models.training.publish import About, publish
from models.training.words import FASTGRNN
from tinyhil.data import load
from tinyhil.formats.fixed import Fixed
from tinyhil.train.quantizers import in_format

# 8-bit formats that training has in mind: exponents of gates and states, of the sums they are made from, of U1 h.
GATE_EXPONENT, SUM_EXPONENT, LOW_EXPONENT = -7, -5, -6
# What sums and low-rank products may reach before they are penalised: a little below the ends of these formats.
SUM_LIMIT, LOW_LIMIT = 3.8, 1.9


@dataclass(frozen=True, slots=True)
class Recipe:
    """Ranks of 0 mean a full matrix. `input_exponents`: formats 2^exponent * int8 of the input in simulated batches.

    Those that can not hold the largest inputs saturate them, as a search may choose to.
    """

    hidden: int
    classes: int
    rank_w: int = 0
    rank_u: int = 0
    input_exponents: tuple[int, ...] = (-7,)
    quantized_share: float = 0.3
    quantized_from: float = 0.3
    shift: int = 0
    noise: float = 0.0
    schedule: Schedule = field(default_factory=Schedule)


def fake_quantize(values: torch.Tensor, exponent: int) -> torch.Tensor:
    """8-bit fixed point; the gradient passes straight through, where values saturate, too."""
    return values + (in_format(values.detach(), Fixed(8, exponent))[0] - values.detach())


def fitting_exponent(values: torch.Tensor) -> int:
    return math.frexp(float(values.detach().abs().max()))[1] - 7


def beyond(values: torch.Tensor, limit: float) -> torch.Tensor:
    """Penalty of what exceeds `limit`."""
    return torch.relu(values.abs() - limit).square().sum(-1).mean()


class Network(nn.Module):
    """The float cell on inputs as they are, or with an input exponent the same cell in simulated 8-bit arithmetic.

    `mean` and `gain` of each channel are part of the first matrix and of the biases, as in the file.
    """

    product_limit = SUM_LIMIT  # of x W alone

    def __init__(self, steps: int, mean: np.ndarray, gain: np.ndarray, recipe: Recipe) -> None:
        super().__init__()
        hidden, channels = recipe.hidden, len(mean)
        self.mean = torch.tensor(mean.astype(np.float32))
        self.gain = torch.tensor(gain.astype(np.float32))
        self.w = self._factors(channels, hidden, recipe.rank_w, 0.3 * math.sqrt(9 / max(9, channels)))
        self.u = self._factors(hidden, hidden, recipe.rank_u, 0.8 / math.sqrt(hidden))
        # Memories of 1 to `steps` steps (Tallec and Ollivier, "Can recurrent neural networks warp time?", ICLR 2018).
        self.b_g = nn.Parameter(torch.log(1 + torch.rand(hidden) * (steps - 2)))
        self.b_h = nn.Parameter(torch.zeros(hidden))
        self.classifier = nn.Parameter(torch.randn(hidden, recipe.classes) * 0.3)
        self.bias = nn.Parameter(torch.zeros(recipe.classes))

    def folded(self) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]:
        """(x - mean) gain w = x (gain w) - (mean gain) w: the factors of gain w, and both biases."""
        w = [self.w[0] * self.gain[:, None], *self.w[1:]]
        shift = self.mean
        for factor in w:
            shift = shift @ factor
        return w, self.b_g - shift, self.b_h - shift

    @staticmethod
    def _factors(rows: int, columns: int, rank: int, size: float) -> nn.ParameterList:
        if rank == 0:
            return nn.ParameterList([torch.randn(rows, columns) * size])
        second = torch.randn(rank, columns) * 0.8 / math.sqrt(rank)
        return nn.ParameterList([torch.randn(rows, rank) * size, second])

    def forward(self, x: torch.Tensor, input_exponent: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and the range penalty."""

        def q(values: torch.Tensor, exponent: int | None = None) -> torch.Tensor:
            if input_exponent is None:
                return values
            return fake_quantize(values, fitting_exponent(values) if exponent is None else exponent)

        folded, b_g, b_h = self.folded()
        w, u, classifier = [q(m) for m in folded], [q(m) for m in self.u], q(self.classifier)
        wx = q(x, input_exponent)
        for factor in w[:-1]:
            wx = q(wx @ factor)
        wx = wx @ w[-1]
        penalty = beyond(wx, self.product_limit)
        wx = q(wx, SUM_EXPONENT)
        h = torch.zeros(len(x), b_g.numel())
        sums, lows = [], []
        for step in range(x.shape[1]):
            uh = h
            for factor in u[:-1]:
                uh = q(uh @ factor, LOW_EXPONENT)
                lows.append(uh)
            c = wx[:, step] + q(uh @ u[-1], SUM_EXPONENT)
            sums.append(c)
            c = q(c, SUM_EXPONENT)
            gate = q(torch.sigmoid(q(c + b_g, SUM_EXPONENT)), GATE_EXPONENT)
            h_tilde = q(torch.tanh(q(c + b_h, SUM_EXPONENT)), GATE_EXPONENT)
            update = q(q(1 - gate, GATE_EXPONENT) * h_tilde, GATE_EXPONENT)
            h = q(q(gate * h, GATE_EXPONENT) + update, GATE_EXPONENT)
        c = torch.stack(sums, 1)
        for values in (c, c + b_g, c + b_h):
            penalty = penalty + beyond(values, SUM_LIMIT)
        if lows:
            penalty = penalty + beyond(torch.stack(lows, 1), LOW_LIMIT)
        return h @ classifier + self.bias, penalty


def moved(x: torch.Tensor, recipe: Recipe, gain: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Each sequence some steps earlier or later, and some noise in parts of each channel's spread."""
    if recipe.shift:
        offset = torch.randint(-recipe.shift, recipe.shift + 1, (len(x), 1), generator=random)
        steps = torch.clamp(torch.arange(x.shape[1])[None] + offset, 0, x.shape[1] - 1)
        x = x.gather(1, steps[:, :, None].expand(-1, -1, x.shape[2]))
    if recipe.noise:
        x = x + recipe.noise / gain * torch.randn(x.shape, generator=random)
    return x


def train(x: np.ndarray, y: np.ndarray, recipe: Recipe) -> FastGrnn:
    """`x` (n, steps, channels) as the data set gives them: scaling is part of the weights."""
    start(recipe.schedule.seed)
    random = torch.Generator().manual_seed(recipe.schedule.seed + 1)
    mean = x.mean(axis=(0, 1), dtype=np.float64)
    gain = 1 / np.maximum(x.std(axis=(0, 1), dtype=np.float64), 1e-6)
    model = Network(x.shape[1], mean, gain, recipe)
    smoothing = recipe.schedule.label_smoothing

    def loss(inputs: torch.Tensor, labels: torch.Tensor, progress: float) -> torch.Tensor:
        drawn = float(torch.rand(1, generator=random))
        choice = int(torch.randint(len(recipe.input_exponents), (1,), generator=random))
        narrow = progress >= recipe.quantized_from and drawn < recipe.quantized_share
        inputs = moved(inputs, recipe, model.gain, random)
        logits, penalty = model(inputs, recipe.input_exponents[choice] if narrow else None)
        return functional.cross_entropy(logits, labels, label_smoothing=smoothing) + 0.3 * penalty

    fit(model, (x, y), recipe.schedule, loss)
    return written(model)


@torch.no_grad()
def written(model: Network) -> FastGrnn:
    w, b_g, b_h = model.folded()
    return FastGrnn(
        w=tuple(factor.numpy() for factor in w),
        u=tuple(factor.detach().numpy() for factor in model.u),
        b_g=b_g.numpy(),
        b_h=b_h.numpy(),
        classifier=model.classifier.detach().numpy(),
        classifier_bias=model.bias.detach().numpy(),
    )


def make(folder: Path, dataset: str, task: str, recipe: Recipe, verb: str = "Recognises") -> None:
    """Train on `dataset` and publish into `folder`; its card says that the model does `task`."""
    data = load(dataset)
    assert data.y_train is not None
    weights = train(data.x_train, data.y_train, recipe)
    steps, channels = data.x_train.shape[1:]
    cost = steps * weights.step_cost + weights.classifier.size
    about = About(
        title=f"{task[0].upper()}{task[1:]} with FastGRNN ({steps} steps of {channels})",
        dataset=dataset,
        summary=f"{verb} {task}.",
        family=FASTGRNN,
        facts={
            "Hidden, rank of W, rank of U": f"{recipe.hidden}, {recipe.rank_w or 'full'}, {recipe.rank_u or 'full'}",
            "Cost": f"{weights.step_cost:,} multiply-accumulates per step, {cost:,} per sample",
        },
    )
    publish(folder, fastgrnn(folder.name, weights, (1, steps, channels)), about)
