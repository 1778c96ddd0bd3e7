"""Pruning by magnitude while training: the smallest weights of each matrix become zero, more of them epoch by epoch.

After epoch t of the n in which it grows the share is f (1 - (1 - t/n)^3), f in the end (Zhu and Gupta 2017): many while
the matrix has many to spare, the last ones one by one. What is zero stays zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tinyhil.agreement.spread import LINEAR
from tinyhil.errors import ConfigError
from tinyhil.language.graph import Graph


@dataclass(frozen=True, slots=True)
class Pruning:
    """`shares` of the matrices, by name, that are zero from epoch `complete` on."""

    shares: Mapping[str, float]
    complete: int

    def at(self, epoch: int) -> dict[str, float]:
        """The shares while `epoch` (from 1) is trained."""
        grown = 1 - (1 - min(epoch / self.complete, 1)) ** 3
        return {name: share * grown for name, share in self.shares.items()}


def parse_pruning(texts: Sequence[str], graph: Graph, epochs: int) -> Pruning | None:
    """`FRACTION` for all matrices, `NAME=FRACTION` for one of them; half of the epochs are left to recover. None for no
    text; ConfigError says what is wrong."""
    shares: dict[str, float] = {}
    known = sorted(matrices(graph))
    for text in sorted(texts, key=lambda text: "=" in text):
        name, _, number = text.rpartition("=")
        share = float(number) if re.fullmatch(r"0(\.\d+)?|\.\d+", number) else None
        if share is None:
            raise ConfigError(f"--prune {text}: a share below 1 such as 0.8, or NAME=0.8")
        if name and name not in known:
            raise ConfigError(f"--prune {text}: no matrix '{name}'; there are {', '.join(known)[:200]}")
        shares |= dict.fromkeys([name] if name else known, share)
    return Pruning({name: share for name, share in shares.items() if share}, -(-epochs // 2)) if texts else None


def matrices(graph: Graph) -> set[str]:
    """Constants that are multiplied as matrices: what a layer with zeros in it may leave out."""
    constants = graph.all_constants()
    used = {name for node in graph.walk() if node.op in LINEAR for name in node.inputs[:2]}
    return {name for name in used if name in constants and constants[name].size > 1}


def mask(weights: torch.Tensor, share: float) -> torch.Tensor:
    """1 for weights that stay, 0 for the `share` of smallest magnitude (of equal ones the first)."""
    flat = weights.detach().abs().reshape(-1)
    stays = torch.ones_like(flat)
    stays[torch.argsort(flat, stable=True)[: round(share * len(flat))]] = 0
    return stays.reshape(weights.shape)


def require_zeros(held: Mapping[str, np.ndarray], masks: Mapping[str, torch.Tensor]) -> None:
    """ConfigError if the program holds something else where a weight is pruned."""
    for name, stays in masks.items():
        if name in held and np.any(held[name][stays.cpu().numpy() == 0]):
            raise ConfigError(
                f"--prune: the format of '{name}' does not hold zero exactly; give it fixed point or int8"
            )
