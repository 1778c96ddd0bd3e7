"""Where a data set comes from: the cache, the folder HIL_DATA, its official address. Never made up.

Every set is kept as integer arrays whose hash is known, so that a download is checked by what it holds even where its
publisher states no checksum.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data import fetch
from tinyhil.data.dataset import hash_arrays
from tinyhil.errors import DataError

Arrays = dict[str, np.ndarray]

# What reading a damaged zip, gzip, npz, tar or text file raises.
UNREADABLE = (OSError, ValueError, LookupError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
PLACES = ("", "small", "large")


@dataclass(frozen=True, slots=True)
class Remote:
    """One file at its official address; `known_hash` as pooch takes it, None where the publisher states none."""

    url: str
    file: str
    known_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """One data set. `files` are the .npz of HIL_DATA in order, `join` turns their arrays into the canonical ones.

    `parse` turns the official files (in the order of `remotes`) into the canonical arrays. `keys` name and order the
    canonical arrays; `sha256` is `hash_arrays` over them, None for sets that may come in several renderings.
    """

    name: str
    files: tuple[str, ...]
    keys: tuple[str, ...]
    sha256: str | None
    remotes: tuple[Remote, ...]
    parse: Callable[[Sequence[Path]], Arrays] | None
    join: Callable[[Sequence[Arrays]], Arrays]

    @property
    def cache_file(self) -> Path:
        """Where the canonical arrays lie once they were read or downloaded."""
        return fetch.cache_folder() / f"{self.name}.npz"


def obtain(origin: Origin, *, allow_download: bool) -> tuple[Arrays, str]:
    """The canonical arrays and their hash; DataError if they are nowhere, or damaged where they are."""
    if origin.cache_file.is_file():
        return _checked(origin, _read_npz(origin.cache_file), str(origin.cache_file))
    given = _from_folder(origin)
    if given is not None:
        return given
    failure = "downloading is switched off"
    if allow_download and origin.remotes and origin.parse is not None:
        outcome = _download(origin)
        if not isinstance(outcome, str):
            return outcome
        failure = outcome
    addresses = " ".join(remote.url for remote in origin.remotes)
    raise DataError(
        f"{origin.name}: {failure}; set HIL_DATA to a folder with {' and '.join(origin.files)}, "
        f"or get it from {addresses}"
    )


def _from_folder(origin: Origin) -> tuple[Arrays, str] | None:
    """What HIL_DATA offers: the .npz files, else the official files under their own names; None without either."""
    setting = os.environ.get("HIL_DATA")
    if not setting:
        return None
    folder = Path(setting).expanduser()
    if not folder.is_dir():
        raise DataError(f"HIL_DATA={setting}: not a folder; point it at a folder with the data, or unset it")
    paths = [_find(folder, name) for name in origin.files]
    if all(paths):
        found = [path for path in paths if path is not None]
        where = ", ".join(str(path) for path in found)
        return _checked(origin, _guarded(lambda: origin.join([_read_npz(path) for path in found]), where), where)
    paths = [_find(folder, remote.file) for remote in origin.remotes]
    if paths and all(paths) and origin.parse is not None:
        return _parsed(origin, [path for path in paths if path is not None])
    return None


def _find(folder: Path, name: str) -> Path | None:
    return next((folder / place / name for place in PLACES if (folder / place / name).is_file()), None)


def _parsed(origin: Origin, paths: Sequence[Path]) -> tuple[Arrays, str]:
    """Parse, check and keep the official files."""
    where, parse = ", ".join(str(path) for path in paths), origin.parse
    assert parse is not None
    arrays, digest = _checked(origin, _guarded(lambda: parse(paths), where), where)
    fetch.store(origin.cache_file, {key: arrays[key] for key in origin.keys})
    return arrays, digest


def _download(origin: Origin) -> tuple[Arrays, str] | str:
    """The arrays, or in one line why they could not be had."""

    def get() -> tuple[Arrays, str]:
        paths = [fetch.retrieve(remote.url, remote.file, remote.known_hash) for remote in origin.remotes]
        try:
            return _parsed(origin, paths)
        finally:
            for path in paths:  # good: the cache holds the arrays; bad: the next run must not meet it
                path.unlink(missing_ok=True)

    return fetch.attempt(origin.remotes[0].url, get)


def _guarded(read: Callable[[], Arrays], where: str) -> Arrays:
    try:
        return read()
    except UNREADABLE as error:
        raise DataError(f"{where}: damaged data ({fetch.in_short(error)}); delete it and get it again") from None


def _read_npz(path: Path) -> Arrays:
    def read() -> Arrays:
        found = files.read_arrays(path)
        if isinstance(found, np.ndarray):
            raise ValueError("one array alone")
        return found

    return _guarded(read, str(path))


def _checked(origin: Origin, arrays: Arrays, where: str) -> tuple[Arrays, str]:
    missing = [key for key in origin.keys if key not in arrays]
    if missing:
        raise DataError(f"{where}: arrays {', '.join(missing)} are missing; delete it and get it again")
    digest = hash_arrays(*(arrays[key] for key in origin.keys))
    if origin.sha256 is not None and digest != origin.sha256:
        raise DataError(f"{where}: not the published {origin.name} (its content differs); delete it and get it again")
    return arrays, digest
