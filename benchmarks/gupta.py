"""Gupta et al. (2015) beside what we add to them: the same plain descent in float32, and fixed point as printed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tinyhil.train.limited_precision import Limited

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Unrounded(Limited):
    """float32: the same descent, in which nothing is rounded and nothing saturates."""

    integer: int = 0
    fraction: int = 0
    stochastic: bool = False

    @property
    def of_values(self) -> Limited:
        """As weights."""
        return self

    @property
    def scale(self) -> float:
        """Of the loss: none is needed."""
        return 1.0

    @property
    def end(self) -> float:
        """No magnitude saturates."""
        return math.inf

    def converted(self, x: Tensor, random: torch.Generator) -> Tensor:
        """As it is."""
        return x


@dataclass(frozen=True, slots=True)
class AsPrinted(Limited):
    """One <IL, FL> for all: no more bits before the point for values, and a mean as the loss, not scaled."""

    @property
    def of_values(self) -> Limited:
        """As weights."""
        return self

    @property
    def scale(self) -> float:
        """Of the loss: none."""
        return 1.0

    def summed(self, samples: int) -> int:
        """The loss is a mean."""
        return 1
