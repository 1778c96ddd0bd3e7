"""Which networks a row trained: their hashes stand in its record, so that whoever measures it again sees whether a
figure differs, or the network that it is of.

Trainings are the same every time on one processor with one torch (one thread, seeds); another may sum in another order.
`machine` is what tells these apart; it stands beside the commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

NETWORKS = "networks"  # of a row: hashes of what it trained, in order; no column of a page
MACHINE = "trained by"  # of the provenance of a table
_hashes: ContextVar[list[str] | None] = ContextVar("hashes", default=None)


def hash_of(constants: Mapping[str, np.ndarray]) -> str:
    """Of names, shapes, types and bytes; whatever their order."""
    digest = hashlib.sha256()
    for name, array in sorted(constants.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def note(constants: Mapping[str, np.ndarray]) -> None:
    """Whoever trains says what came of it; nobody listens outside of `with_networks`."""
    found = _hashes.get()
    if found is not None and constants:
        found.append(hash_of(constants))


@contextmanager
def _noting() -> Iterator[list[str]]:
    found: list[str] = []
    token = _hashes.set(found)
    try:
        yield found
    finally:
        _hashes.reset(token)


def with_networks(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each row with the hashes of what was trained for it; what rows share is trained for the first of them."""
    while True:
        with _noting() as found:
            row = next(rows, None)
        if row is None:
            return
        yield {**row, NETWORKS: " ".join(found)} if found else row


def machine() -> str:
    """What a training depends on beside its code."""
    import torch

    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, numpy {np.__version__}"
