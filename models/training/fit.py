"""What training the families shares: batches, one-cycle AdamW, pruning with a fixed mask. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from tinyhil.train.prune import mask


@dataclass(frozen=True, slots=True)
class Schedule:
    """A fixed number of epochs: nothing is selected on the way, so no data need be held back."""

    epochs: int = 60
    batch: int = 100
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    label_smoothing: float = 0.05
    seed: int = 0


Loss = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]


def start(seed: int) -> None:
    """The order of float sums, hence the result, must not depend on the machine's cores."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)


def batches(count: int, size: int, random: torch.Generator) -> Iterator[torch.Tensor]:
    order = torch.randperm(count, generator=random)
    for begin in range(0, count - size + 1, size):
        yield order[begin : begin + size]


def fit(
    model: nn.Module,
    samples: tuple[np.ndarray, np.ndarray],
    schedule: Schedule,
    loss: Loss,
    after_step: Callable[[float], None] = lambda progress: None,
    random: torch.Generator | None = None,
) -> None:
    """Minimise `loss(x, y, progress)`, progress in 0..1; `after_step` may project the weights. `random` draws the
    batches; without it one of the schedule's seed."""
    random = torch.Generator().manual_seed(schedule.seed) if random is None else random
    inputs, labels = torch.tensor(samples[0]), torch.tensor(samples[1].astype(np.int64))
    optimizer = torch.optim.AdamW(model.parameters(), schedule.learning_rate, weight_decay=schedule.weight_decay)
    total = schedule.epochs * (len(inputs) // schedule.batch)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, schedule.learning_rate, total_steps=total, pct_start=0.15)
    done = 0
    for epoch in range(schedule.epochs):
        losses = []
        for rows in batches(len(inputs), schedule.batch, random):
            value = loss(inputs[rows], labels[rows], done / total)
            optimizer.zero_grad()
            value.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            rate.step()
            done += 1
            after_step(done / total)
            losses.append(value.item())
        if (epoch + 1) % max(1, schedule.epochs // 10) == 0:
            print(f"epoch {epoch + 1}/{schedule.epochs}: loss {np.mean(losses):.4f}", flush=True)


class Pruning:
    """Keeps the largest `density` of a matrix: chosen gradually until `settled`, then fixed."""

    def __init__(self, parameter: nn.Parameter, density: float, begin: float = 0.2, settled: float = 0.6) -> None:
        self._parameter, self._density = parameter, density
        self._begin, self._settled = begin, settled
        self._mask: torch.Tensor | None = None

    @torch.no_grad()
    def __call__(self, progress: float) -> None:
        if self._density >= 1 or progress < self._begin:
            return
        if self._mask is None or progress < self._settled:
            share = min(1.0, (progress - self._begin) / (self._settled - self._begin))
            count = self._parameter.numel()
            count_left = max(1, int((1 - share * (1 - self._density)) * count))
            self._mask = mask(self._parameter, 1 - count_left / count)
        self._parameter.mul_(self._mask)


@dataclass(frozen=True, slots=True)
class Scaling:
    """x * gain + offset per feature: inputs near mean 0 and variance 1. Folded into the weights afterwards."""

    gain: np.ndarray
    offset: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return (x * self.gain + self.offset).astype(np.float32)


def centred(x: np.ndarray) -> Scaling:
    """One gain for all features (pixels of one image are alike), the mean of each."""
    gain = 1 / float(np.sqrt(x.var(axis=0).mean()))
    return Scaling(np.full(x.shape[1], gain), -x.mean(axis=0) * gain)


def standard(x: np.ndarray) -> Scaling:
    """A gain for each feature."""
    gain = 1 / np.maximum(x.std(axis=0), 1e-6)
    return Scaling(gain, -x.mean(axis=0) * gain)
