"""A checkpoint: all that an interrupted training needs to give the weights it would have given."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import files
from tinyhil.errors import DataError

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """After an epoch. `identity`: of model, data and options; `epochs` rows of number, loss, accuracy; `scale` of the
    loss and the steps since it was changed; `moments` of the optimizer by key/name."""

    identity: str
    epochs: np.ndarray
    first_loss: float
    scale: np.ndarray
    latents: Arrays
    best: Arrays
    moments: Arrays
    ends: Arrays  # of learned scales: what values reach after the last epoch, and after the best


def save_checkpoint(path: Path, state: Checkpoint) -> None:
    """Write it whole or not at all. DataError if it can not be written."""
    groups = {"latent": state.latents, "best": state.best, "moment": state.moments, "end": state.ends}
    arrays: dict[str, Any] = {
        f"{group}:{name}": array for group, found in groups.items() for name, array in found.items()
    }
    content = io.BytesIO()
    np.savez(
        content,
        identity=np.array(state.identity),
        epochs=state.epochs,
        first_loss=state.first_loss,
        scale=state.scale,
        **arrays,
    )
    try:
        files.write_bytes(path, content.getvalue())
    except OSError as error:
        raise DataError(
            f"{path}: the checkpoint of epoch {len(state.epochs) - 1} cannot be written: {error.strerror}; make room "
            "and run the same command again, which goes on from the checkpoint before it"
        ) from None


def load_checkpoint(path: Path, identity: str) -> Checkpoint:
    """DataError if it is damaged, or of another training."""
    arrays = files.parse_arrays(files.read_bytes(path, "checkpoint", files.MOST_ARRAY_BYTES), str(path))
    if isinstance(arrays, np.ndarray) or "identity" not in arrays:
        raise DataError(f"{path}: not a checkpoint of `hil train`; remove it to start anew")
    if str(arrays["identity"]) != identity:
        raise DataError(f"{path}: a checkpoint of a training with another model, data or options; remove it, or --out")
    groups: dict[str, Arrays] = {"latent": {}, "best": {}, "moment": {}, "end": {}}
    for key, array in arrays.items():
        group, _, name = key.partition(":")
        if group in groups and name:
            groups[group][name] = np.asarray(array)
    return Checkpoint(
        identity,
        np.asarray(arrays["epochs"]),
        float(arrays["first_loss"]),
        np.asarray(arrays["scale"]),
        groups["latent"],
        groups["best"],
        groups["moment"],
        groups["end"],
    )
