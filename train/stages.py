"""Formats that come in one after another while training: first those that alone cost the most.

HAWQ (Dong et al. 2019) orders layers by the largest eigenvalue of their Hessian times what quantizing them changes,
which estimates how much the loss rises. Here this rise itself is measured, of each tensor alone in its format.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch

from tinyhil.language.assignment import Assignment
from tinyhil.train.loss import loss_of
from tinyhil.train.network import Network
from tinyhil.train.quantizers import Quantizers

Tensor = torch.Tensor


@torch.no_grad()
def by_sensitivity(
    net: Network, used: Quantizers, assignment: Assignment, x: Tensor, y: Tensor
) -> tuple[tuple[str, float], ...]:
    """Every tensor that `used` rounds with the loss of `x` while it alone is rounded; the largest first."""
    names = [*used.values, *used.constants, *used.rows]
    losses = {
        name: float(loss_of(net.forward(x, released(used, {name}), assignment), y)) for name in dict.fromkeys(names)
    }
    return tuple(sorted(losses.items(), key=lambda item: -item[1]))


def released(used: Quantizers, names: Collection[str]) -> Quantizers:
    """`used` where what is not among `names` is not rounded. A bias is where its weights are."""
    return replace(
        used,
        values={name: fmt for name, fmt in used.values.items() if name in names},
        constants={name: fmt for name, fmt in used.constants.items() if name in names},
        rows={name: row for name, row in used.rows.items() if name in names},
        biases={name: row for name, row in used.biases.items() if row.node.inputs[1] in names},
    )


def rounded_at(order: Collection[str], epoch: int, epochs: int) -> frozenset[str]:
    """What is rounded in `epoch` (from 1): more and more of `order` in the first half, all of it in the second."""
    complete = max(1, epochs // 2)
    return frozenset(list(order)[: -(-len(order) * min(epoch, complete) // complete)])
