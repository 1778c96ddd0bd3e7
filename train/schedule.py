"""What a training is asked for, and what comes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tinyhil.compiler.calibrate import Ranges
from tinyhil.train.integers import Arrays, Judge
from tinyhil.train.limited_precision import Arithmetic
from tinyhil.train.prune import Pruning
from tinyhil.train.samples import Samples

AUTO = "auto"  # device: a GPU if torch has one


@dataclass(frozen=True, slots=True)
class Schedule:
    """`rate` is the first learning rate, as a share of each tensor's own size, since units of tensors differ a
    hundredfold; it falls along a cosine to a hundredth. `teacher`: the share of the loss that the scores of the model
    as it was given have. `entries`: weights of a codebook keep their entries, which move. `scales`: the exponents of
    fixed point of at most 8 bits move, too; None: if there are any. `progressive`: formats come in one
    after another (`stages.py`). `augment`: how far samples are moved (`augment.py`), those trained on anew in
    every epoch, and those that choose the best epoch once."""

    epochs: int = 10
    batch: int = 64
    rate: float = 3e-3
    seed: int = 0
    threads: int = 1
    teacher: float = 0.0
    entries: bool = False
    scales: bool | None = False
    device: str = AUTO
    progressive: bool = False
    augment: float = 0.0

    def rate_at(self, progress: float) -> float:
        """Learning rate after `progress` (0..1) of the steps: a cosine that ends at a hundredth of the first."""
        return self.rate * (0.01 + 0.99 * (1 + math.cos(math.pi * progress)) / 2)


@dataclass(frozen=True, slots=True)
class Epoch:
    """`loss`: the mean of its steps; `accuracy`: of the integer program on the samples held back. Epoch 0 is before
    training."""

    number: int
    loss: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Trained:
    """The best epoch: its constants, the ranges they were judged with, and how it went."""

    constants: Arrays
    ranges: Ranges
    best: Epoch
    epochs: tuple[Epoch, ...]

    def ranges_with(self, source: Mapping[str, Any]) -> Ranges:
        """The ranges, with where their samples come from."""
        return replace(self.ranges, source={**source, **self.ranges.source})


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be trained, on what; `tell` is told each epoch. `checkpoint`: the file that an interrupted
    training goes on from, for runs of this `identity`."""

    judge: Judge
    samples: Samples
    schedule: Schedule
    tell: Callable[[Epoch], None] = lambda epoch: None
    checkpoint: Path | None = None
    identity: str = ""
    arithmetic: Arithmetic | None = None  # of the training itself; None: float32, and the program's own formats
    pruning: Pruning | None = None
