"""The published UCI HAR archive: finding it, reading its text files, and proving that it is the official set."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data.dataset import hash_arrays
from tinyhil.data.fetch import in_short
from tinyhil.errors import DataError

Arrays = dict[str, np.ndarray]
Opener = Callable[[str], bytes]

STEPS = 128
CHANNELS = (
    "body_acc_x",
    "body_acc_y",
    "body_acc_z",
    "body_gyro_x",
    "body_gyro_y",
    "body_gyro_z",
    "total_acc_x",
    "total_acc_y",
    "total_acc_z",
)
CLASSES = ("WALKING", "WALKING_UPSTAIRS", "WALKING_DOWNSTAIRS", "SITTING", "STANDING", "LAYING")
FOLDER = "UCI HAR Dataset"
ZIP_NAMES = ("human+activity+recognition+using+smartphones.zip", f"{FOLDER}.zip")
KEYS = ("x_train", "y_train", "subject_train", "x_test", "y_test", "subject_test")
WINDOWS = {"train": 7352, "test": 2947}
# SHA-256 of the official label lists (minus 1) and subject lists, one uint8 per window. The archive's own checksum is
# not published; four lists of 10299 windows in order tell the official split from anything else.
OFFICIAL_SHA256 = {
    "y_train": "222085d9d70948d9e252eb43a101307273edc61588c822a004cdcea259285ac9",
    "subject_train": "2c395e93c9183f14405c7fbca8167fa4cff788d038a352d3d5e426ed1aa58459",
    "y_test": "c6c5639491f71f640401d34ac4a15a109a8023b085f463afef7f2e9f6cefe907",
    "subject_test": "f6aca869c2a54b67d93c6bdb2e12b7e3bceaab643d231a52b0ade48423f05dfb",
}
# What reading a damaged zip, npz or text file raises.
UNREADABLE = (OSError, ValueError, KeyError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
# Sensor limits of the phone with room: accelerations in g, angular velocities in rad/s.
LARGEST_VALUE = 40.0


def find(folder: Path) -> Path | None:
    """An extracted data set or one of its archives in `folder` or right below it."""
    places = [folder, *sorted(entry for entry in folder.iterdir() if entry.is_dir())]
    for place in places:
        if _is_extracted(place):
            return place
        for name in ZIP_NAMES:
            if (place / name).is_file():
                return place / name
    return None


def _is_extracted(folder: Path) -> bool:
    return (folder / "train" / "y_train.txt").is_file() and (folder / "train" / "Inertial Signals").is_dir()


def read(path: Path) -> Arrays:
    """Parse and check the extracted folder or the archive at `path`; DataError if anything is wrong with it."""
    try:
        if path.is_dir():
            arrays = _parse(lambda name: (path / name).read_bytes())
        else:
            with files.unpacking(path) as archive:
                arrays = _read_zip(archive)
    except UNREADABLE as error:
        raise DataError(f"{path}: damaged UCI HAR archive ({in_short(error)}); download it again") from None
    check(arrays, str(path))
    return arrays


def _read_zip(archive: zipfile.ZipFile) -> Arrays:
    """The files lie in `UCI HAR Dataset/`, which today's download holds as a zip inside of the zip."""
    nested = f"{FOLDER}.zip"
    if nested in archive.namelist():
        packed = archive.read(nested)
        with zipfile.ZipFile(io.BytesIO(packed)) as inner:
            files.check_unpacked(inner, len(packed))
            return _read_zip(inner)
    return _parse(lambda name: archive.read(f"{FOLDER}/{name}"))


def _parse(open_file: Opener) -> Arrays:
    arrays: Arrays = {}
    for part in ("train", "test"):
        signals = [_numbers(open_file(f"{part}/Inertial Signals/{name}_{part}.txt")) for name in CHANNELS]
        arrays[f"x_{part}"] = np.stack(signals, axis=-1)
        arrays[f"y_{part}"] = (_numbers(open_file(f"{part}/y_{part}.txt")) - 1).astype(np.uint8).reshape(-1)
        arrays[f"subject_{part}"] = _numbers(open_file(f"{part}/subject_{part}.txt")).astype(np.uint8).reshape(-1)
    return arrays


def _numbers(text: bytes) -> np.ndarray:
    return np.loadtxt(io.BytesIO(text), dtype=np.float32, ndmin=2)


def check(arrays: Arrays, where: str) -> None:
    """DataError unless the arrays are the official windows with the official labels."""
    for part, count in WINDOWS.items():
        x = arrays[f"x_{part}"]
        if x.shape != (count, STEPS, len(CHANNELS)):
            raise DataError(
                f"{where}: x_{part} is {list(x.shape)}, the official set has {[count, STEPS, len(CHANNELS)]}"
            )
        if not np.isfinite(x).all() or float(np.abs(x).max()) > LARGEST_VALUE:
            raise DataError(
                f"{where}: x_{part} holds values that no sensor of the set gives; delete it and download again"
            )
    for key, expected in OFFICIAL_SHA256.items():
        if hash_arrays(arrays[key].astype(np.uint8)) != expected:
            raise DataError(f"{where}: {key} differs from the official list; delete it and download again")


def content_hash(arrays: Arrays) -> str:
    """One hash for the set, whether it came as a zip, a folder or from the cache."""
    return hash_arrays(*(arrays[key] for key in KEYS))
