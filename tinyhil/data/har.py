"""UCI HAR: six activities from a waist-mounted smartphone, 2.56 s windows of nine channels at 50 Hz.

Anguita et al., "A Public Domain Dataset for Human Activity Recognition Using Smartphones", ESANN 2013; CC BY 4.0.
The loader takes the first of: the cache, the folder HIL_DATA, a download, the windows that ship with tinyhil (it says
which). HIL_DATA=synthetic asks for a made-up stream without labels.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data import har_archive, har_download, har_synthetic
from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.fetch import in_short
from tinyhil.data.har_archive import CHANNELS, CLASSES, STEPS, UNREADABLE, Arrays
from tinyhil.errors import DataError

NAME = "har6"
SUBSET_FILE = "har6_subset.npz"
BUNDLED = Path(__file__).with_name("har6_windows.npz")  # licence and origin: har6_windows.md
SYNTHETIC = "synthetic"
REMEDY = "for all of it set HIL_DATA to a folder with UCI HAR"
SUBSET_KEYS = ("x_train", "y_train", "x_test", "y_test", "scale", "channels")


def load_har6(*, allow_download: bool = True) -> Dataset:
    """The data set from the best source at hand; DataError if a file is there but damaged."""
    cached = har_download.cache_folder() / har_download.PARSED_FILE
    if cached.is_file():
        return _full(_read_parsed(cached))
    given = _from_folder()
    if given is not None:
        return given
    failure = "downloading is switched off"
    if allow_download:
        outcome = har_download.download()
        if not isinstance(outcome, str):
            return _full(outcome)
        failure = outcome
    found = read_subset(BUNDLED)
    message = f"{NAME}: {failure}; using the {len(found.x_test)} test windows that ship with tinyhil; {REMEDY}"
    return replace(found, source="bundled", message=message)


def _from_folder() -> Dataset | None:
    """What the folder HIL_DATA offers: the full set before the subset; None if neither is in it."""
    setting = os.environ.get("HIL_DATA")
    if not setting:
        return None
    if setting == SYNTHETIC:
        return har_synthetic.generate(NAME, f"{NAME}: a synthetic stream, accuracy is not available; {REMEDY}")
    folder = Path(setting).expanduser()
    if not folder.is_dir():
        raise DataError(f"HIL_DATA={setting}: not a folder; point it at a folder with the data, or unset it")
    try:
        original = har_archive.find(folder)
    except OSError as error:
        raise DataError(f"HIL_DATA={setting}: {error.strerror}; make it readable, or unset it") from None
    if original is not None:
        arrays = har_archive.read(original)
        har_download.store(arrays)
        return _full(arrays)
    for candidate in (folder / "small" / SUBSET_FILE, folder / SUBSET_FILE):
        if candidate.is_file():
            return read_subset(candidate)
    return None


def _full(arrays: Arrays) -> Dataset:
    return Dataset(
        name=NAME,
        source="full",
        sha256=har_archive.content_hash(arrays),
        x_train=arrays["x_train"],
        y_train=arrays["y_train"],
        x_test=arrays["x_test"],
        y_test=arrays["y_test"],
        classes=CLASSES,
        groups_train=arrays["subject_train"],
    )


def read_subset(path: Path) -> Dataset:
    """A subset as integers with a scale per channel (real = integer * scale); DataError if it is not that."""
    arrays, digest = _read_npz(path, SUBSET_KEYS)
    if tuple(str(name) for name in arrays["channels"]) != CHANNELS:
        raise DataError(f"{path}: channels are {list(arrays['channels'])}, expected {list(CHANNELS)}")
    scale = arrays["scale"].astype(np.float32)
    if scale.shape != (len(CHANNELS),):
        raise DataError(f"{path}: scale is {list(scale.shape)}, expected [{len(CHANNELS)}]")
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if x.ndim != 3 or x.shape[1:] != (STEPS, len(CHANNELS)) or y.shape != x.shape[:1] or len(x) == 0:
            raise DataError(
                f"{path}: x_{part} {list(x.shape)} and y_{part} {list(y.shape)} do not fit (n, 128, 9) and (n,)"
            )
        if int(y.max()) >= len(CLASSES):
            raise DataError(f"{path}: y_{part} holds label {int(y.max())}, the largest is {len(CLASSES) - 1}")
    return Dataset(
        name=NAME,
        source="subset",
        sha256=digest,
        x_train=arrays["x_train"].astype(np.float32) * scale,
        y_train=arrays["y_train"],
        x_test=arrays["x_test"].astype(np.float32) * scale,
        y_test=arrays["y_test"],
        classes=CLASSES,
        groups_train=arrays.get("subject_train_inferred"),
    )


def _read_parsed(path: Path) -> Arrays:
    arrays, _ = _read_npz(path, har_archive.KEYS)
    har_archive.check(arrays, str(path))
    return arrays


def _read_npz(path: Path, keys: tuple[str, ...]) -> tuple[Arrays, str]:
    """All arrays of an .npz and the hash of the file."""
    try:
        content = files.read_bytes(path, ".npz file", files.MOST_ARRAY_BYTES)
        arrays = files.parse_arrays(content, str(path))
    except UNREADABLE as error:
        raise DataError(f"{path}: damaged data file ({in_short(error)}); delete it or copy it again") from None
    missing = [key for key in keys if isinstance(arrays, np.ndarray) or key not in arrays]
    if missing or isinstance(arrays, np.ndarray):
        raise DataError(f"{path}: arrays {', '.join(missing)} are missing; delete it or copy it again")
    return arrays, hashlib.sha256(content).hexdigest()


HAR6 = Loader(NAME, load_har6)
