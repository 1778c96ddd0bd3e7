"""AdaRound (Nagel et al. 2020): whether each weight is rounded up or down, learned layer by layer.

What a layer gives on the quantized values before it is brought near to what it gives in float: each weight lies between
its two neighbours on the grid and is pushed to one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tinyhil.formats.format import INTEGER, Format
from tinyhil.language.graph import Node
from tinyhil.ops import OPERATOR_BY_NAME
from tinyhil.train.flow import Flowing
from tinyhil.train.quantizers import is_fixed_point

Tensor = torch.Tensor
ZETA, GAMMA = 1.1, -0.1  # ends of the stretched sigmoid
FREE, FIRST_POWER, LAST_POWER = 0.2, 20.0, 2.0  # share of steps without a push; its power falls
RATE, PUSH = 1e-2, 1e-2


@dataclass(frozen=True, slots=True)
class Rounding:
    """How long a layer's roundings are learned, on how many samples at once; `seed` draws them."""

    steps: int = 300
    batch: int = 32
    seed: int = 0


@dataclass(frozen=True, slots=True)
class LayerSeen:
    """A layer on samples: its operand as the program has it, its constants, and the results of float."""

    node: Node
    x: Tensor
    weights: Tensor
    others: tuple[Tensor, ...]
    wanted: Tensor

    def results(self, weights: Tensor, rows: Any = slice(None)) -> Tensor:
        """Of the samples `rows`, with these weights."""
        given: Any = [Flowing(self.x[rows]), Flowing(weights[None]), *(Flowing(other[None]) for other in self.others)]
        made: Any = OPERATOR_BY_NAME[self.node.op].evaluate(self.node, given)[0]
        found: Tensor = made.tensor
        return found


def can_round(fmt: Format | None) -> bool:
    """Whether weights of this format have one grid of equal steps."""
    return fmt is not None and is_fixed_point(fmt) and fmt.domain == INTEGER


def rounded(seen: LayerSeen, fmt: Any, how: Rounding) -> Tensor:
    """Weights of a layer on the grid of `fmt`, each on a neighbour of where it was."""
    step = 2.0**fmt.exponent
    units = seen.weights / step
    below, rest = units.floor(), (units - units.floor()).clamp(0.01, 0.99)
    moved = (-torch.log((ZETA - GAMMA) / (rest - GAMMA) - 1)).requires_grad_()
    optimizer, random = torch.optim.Adam([moved], RATE), torch.Generator().manual_seed(how.seed)
    count, scale = len(seen.x), seen.wanted.square().mean().clamp_min(1e-12)
    for number in range(how.steps):
        rows = torch.randint(count, (min(how.batch, count),), generator=random)
        up = _up(moved)
        weights = (below + up).clamp(fmt.lowest, fmt.highest) * step
        loss = (seen.results(weights, rows) - seen.wanted[rows]).square().mean() / scale
        progress = (number / how.steps - FREE) / (1 - FREE)
        if progress >= 0:
            power = FIRST_POWER + (LAST_POWER - FIRST_POWER) * progress
            loss = loss + PUSH * (1 - (2 * up - 1).abs() ** power).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (below + (_up(moved.detach()) > 0.5)).clamp(fmt.lowest, fmt.highest) * step


def _up(moved: Tensor) -> Tensor:
    """How far each weight is rounded up, 0 to 1."""
    return (torch.sigmoid(moved) * (ZETA - GAMMA) + GAMMA).clamp(0, 1)
