"""What is moved how far: each tensor's own size, and the zeros that stay zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tinyhil.train.network import Network

SPARSE = 0.2  # zeros of a matrix from which on they stay zero


def groups_of(net: Network) -> list[dict[str, Any]]:
    """Each tensor with its root mean square, of small ones at least a tenth of the usual."""
    sizes = [float(weights.detach().square().mean().sqrt()) for weights in net.weights.values()]
    least = 0.1 * float(np.mean(sizes))
    return [
        {"params": [weights], "size": max(size, least)}
        for weights, size in zip(net.weights.values(), sizes, strict=True)
    ]


def masks_of(net: Network) -> dict[str, torch.Tensor]:
    """1 where a weight may move: of weights that are mostly zeros, those that are none."""
    zeros = {name: (w == 0).float() for name, w in net.weights.items() if w.ndim > 1}
    return {name: 1 - zero for name, zero in zeros.items() if SPARSE <= float(zero.mean()) < 1}
