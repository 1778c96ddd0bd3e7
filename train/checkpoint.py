"""A checkpoint: all that an interrupted training needs to give the weights it would have given."""

from __future__ import annotations

import io
from collections.abc import Mapping
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
    fault = _fault(arrays, groups)
    if fault:
        raise DataError(f"{path}: a damaged checkpoint: {fault}; remove it to start anew")
    return Checkpoint(
        identity,
        arrays["epochs"],
        float(arrays["first_loss"]),
        arrays["scale"],
        groups["latent"],
        groups["best"],
        groups["moment"],
        groups["end"],
    )


def _fault(arrays: Arrays, groups: dict[str, Arrays]) -> str:
    """What `save_checkpoint` can not have written; empty if there is nothing."""
    shapes = {"epochs": (None, 3), "first_loss": (), "scale": (2,)}
    for name, shape in shapes.items():
        if name not in arrays:
            return f"it has no {name}"
        found = arrays[name]
        fits = found.ndim == len(shape) and all(
            want in (None, is_) for want, is_ in zip(shape, found.shape, strict=True)
        )
        if not fits or not np.issubdtype(found.dtype, np.floating):
            return f"{name} is {found.dtype} {list(found.shape)}"
    for group, members in groups.items():
        for name, array in members.items():
            if not np.issubdtype(array.dtype, np.floating) or (
                group in ("latent", "best") and not np.isfinite(array).all()
            ):
                return f"{group} of '{name}' is no array of finite numbers"
    wrong = [name for name, array in groups["end"].items() if array.shape != (2,)]
    return f"the ends of '{wrong[0]}' are no pair" if wrong else ""


def require_weights(path: Path, found: Checkpoint, shapes: Mapping[str, tuple[int, ...]], steps: str) -> None:
    """DataError unless it holds weights of these shapes, the best of them too, and moments like them. Latents that
    begin with `steps` are learned scales, of which the model itself has none."""
    given = {name: array.shape for name, array in found.latents.items() if not name.startswith(steps)}
    best = {name: array.shape for name, array in found.best.items()}
    sizes = {name: array.shape for name, array in found.latents.items()}
    moments = [key for key, array in found.moments.items() if array.shape not in ((), sizes.get(key.partition("/")[2]))]
    if given != dict(shapes) or best != dict(shapes) or moments or not len(found.epochs):
        raise DataError(
            f"{path}: a damaged checkpoint: its weights are not those of the model; remove it to start anew"
        )
