"""What every data set loader returns, and the integrity hash they share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

Source = Literal["full", "subset", "bundled", "synthetic"]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples in physical units (float32) with labels from 0, or None where there is no ground truth.

    `source` and `sha256` go into every record: "full" is the published set, "subset" a part of it,
    "bundled" the few samples that ship with tinyhil, "synthetic" made up.
    `message` is one line the user must see, or None. `groups_*` number the persons, for splits by person.
    """

    name: str
    source: Source
    sha256: str
    x_train: np.ndarray
    y_train: np.ndarray | None
    x_test: np.ndarray
    y_test: np.ndarray | None
    classes: tuple[str, ...]
    message: str | None = None
    groups_train: np.ndarray | None = None


class Load(Protocol):
    """A loader of a data set; DataError where it is not there and may not be downloaded."""

    def __call__(self, *, allow_download: bool = True) -> Dataset: ...


@dataclass(frozen=True, slots=True)
class Loader:
    """One entry of the registry in `tinyhil.data`."""

    name: str
    load: Load


def hash_arrays(*arrays: np.ndarray) -> str:
    """SHA-256 of the elements in order, little-endian, whatever the machine."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
