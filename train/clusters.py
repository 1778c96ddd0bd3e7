"""Weights of a codebook that move entry by entry: which entry a weight has stays, gradients are summed per entry.

Han et al. 2016 (Deep Compression). The weights stay full arrays whose elements of one entry are equal, so that
everything else sees weights; all of an entry have one gradient, hence one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tinyhil.formats.codec import dequantize, quantize
from tinyhil.train.quantizers import Quantizers

Tensor = torch.Tensor


def clustered(weights: Mapping[str, Tensor], used: Quantizers) -> dict[str, Tensor]:
    """The entry of each element, for the weights that have a codebook; these are set to their entries."""
    found = {}
    for name, value in weights.items():
        fmt = used.constants.get(name)
        if fmt is None or fmt.entries_in_flash is None:
            continue
        codes, _ = quantize(value.detach().cpu().numpy(), fmt)
        with torch.no_grad():
            value.copy_(torch.as_tensor(dequantize(codes, fmt)).to(value))
        found[name] = torch.as_tensor(codes.reshape(-1), device=value.device)
    return found


def entries_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same of weights that have been set before: equal ones are of one entry."""
    return {
        name: torch.as_tensor(np.unique(value.detach().cpu().numpy(), return_inverse=True)[1].reshape(-1)).to(
            value.device
        )
        for name, value in weights.items()
    }


@torch.no_grad()
def share_gradients(weights: Mapping[str, Tensor], entries: Mapping[str, Tensor]) -> None:
    """Each element gets the sum of the gradients of its entry, divided by the root of how many there are: so they have
    the norm of the entries' gradients."""
    for name, index in entries.items():
        gradient: Any = weights[name].grad
        if gradient is None:
            continue
        count = torch.bincount(index).to(gradient)
        sums = torch.zeros_like(count).index_add_(0, index, gradient.reshape(-1))
        gradient.copy_((sums / count.clamp(min=1).sqrt())[index].reshape(gradient.shape))
