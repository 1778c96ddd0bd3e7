"""What is at hand of MLPerf Tiny's evaluation sets, as the runner would send it; in HIL_DATA, never downloaded here.

Where a set is not the official one, `caveat` says how it differs.
"""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tinyhil import files
from tinyhil.errors import DataError
from tinyhil.harness.mlperf.benchmarks import WAKE_SCALE, WAKE_ZERO, Benchmark
from tinyhil.quoting import printable

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

CALIBRATION = 100  # inputs, where a model has no ranges and none are given
BILINEAR = 2  # of Pillow's ways to scale a picture
PERSON, SMALLEST_AREA = 0, 0.005  # COCO's class; share of the picture that a person must take, by the set's rule
FRAMES = 5  # of 128 mel bands that the autoencoder sees at once


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`raw` (samples, input_bytes) uint8; `y` labels; `caveat` empty for the official inputs."""

    name: str
    raw: np.ndarray
    y: np.ndarray
    caveat: str = ""


def _words(path: Path) -> Evaluation:
    data = _arrays(path)
    return Evaluation("kws12, the 1000 official inputs", _bytes(data["x"].astype(np.int8)), data["y"].astype(int))


def _pictures(path: Path) -> Evaluation:
    data = _arrays(path)
    caveat = "CIFAR-10's test pictures after a lossy JPEG; the official 200 are lossless"
    return Evaluation("cifar10_test500", _bytes(data["x"].astype(np.uint8)), data["y"].astype(int), caveat)


def _training_pictures(path: Path) -> Evaluation:
    x = np.stack([np.asarray(picture) for picture in itertools.islice(_decoded(path, _arrays(path)), CALIBRATION)])
    return Evaluation("CIFAR-10's training set", _bytes(x), _arrays(path)["y"][:CALIBRATION].astype(int))


def _decoded(path: Path, data: Mapping[str, np.ndarray]) -> Iterator[Picture]:
    """The JPEG files in an array, one by one."""
    try:
        from PIL import Image
    except ImportError:
        raise DataError(f"{path.name} holds JPEG files: pip install pillow") from None
    for begin, end in itertools.pairwise(data["offsets"]):
        yield Image.open(io.BytesIO(data["jpeg"][begin:end].tobytes())).convert("RGB")


def _people(path: Path) -> Evaluation:
    data = _arrays(path)
    boxes = data["labels"]
    x = np.stack([np.asarray(picture.resize((96, 96), BILINEAR), np.uint8) for picture in _decoded(path, data)])
    large = (boxes[:, 1] == PERSON) & (boxes[:, 4] * boxes[:, 5] > SMALLEST_AREA)
    y = np.isin(np.arange(len(x)), boxes[large, 0].astype(int)).astype(int)
    caveat = f"{len(x)} photographs of COCO, scaled to 96 x 96; the official set is 1000 others"
    return Evaluation("coco256", _bytes(x), y, caveat)


def _machines(path: Path) -> Evaluation:
    frames = _arrays(path)["x"].astype("<f4")
    windows = np.stack([frames[i : i + FRAMES].reshape(-1) for i in range(len(frames) - FRAMES + 1)])
    caveat = "one normal clip of ToyCar and no anomalous one: an AUC cannot be formed"
    return Evaluation("ad01_normal_sample", _bytes(windows), np.zeros(len(windows), int), caveat)


def _wake_words(path: Path) -> Evaluation:
    data = _arrays(path)
    codes = np.clip(np.rint(data["specs"].astype(np.float32) / np.float32(WAKE_SCALE)) + WAKE_ZERO, -128, 127).astype(
        np.int8
    )
    caveat = "45 calibration spectrograms; the rule counts errors in 20 minutes of audio, through an interface board"
    return Evaluation("wakeword_marvin", _bytes(codes), data["labels"].astype(int), caveat)


FILES: dict[str, tuple[str, Callable[[Path], Evaluation]]] = {
    "kws01": ("small/kws12_mfcc_test.npz", _words),
    "ic01": ("small/cifar10_test500.npz", _pictures),
    "ic02": ("small/cifar10_test500.npz", _pictures),
    "vww01": ("large/coco256_jpeg.npz", _people),
    "ad01": ("small/ad01_normal_sample.npz", _machines),
    "sww01": ("small/wakeword_marvin.npz", _wake_words),
}
# where training data is at hand, too
OF_TRAINING = dict.fromkeys(("ic01", "ic02"), ("large/cifar10_train50k_jpeg.npz", _training_pictures))


def evaluation(benchmark: Benchmark) -> Evaluation:
    """The inputs of a benchmark; DataError says which file is missing."""
    name, read = FILES[benchmark.id]
    path = _at_hand(name)
    if path is None:
        raise DataError(f"{benchmark.id}: set HIL_DATA to a folder with {name}, or give --mode performance")
    return read(path)


def calibration(benchmark: Benchmark) -> Evaluation:
    """At most CALIBRATION inputs to calibrate on: of training data if there is any, else the first that are evaluated.

    DataError says which file is missing.
    """
    names = [OF_TRAINING[benchmark.id], FILES[benchmark.id]] if benchmark.id in OF_TRAINING else [FILES[benchmark.id]]
    for name, read in names:
        if (path := _at_hand(name)) is not None:
            found = read(path)
            return replace(found, raw=found.raw[:CALIBRATION], y=found.y[:CALIBRATION])
    raise DataError(f"or set HIL_DATA to a folder with {names[-1][0]}")


def _at_hand(name: str) -> Path | None:
    root = os.environ.get("HIL_DATA", "")
    path = Path(root).expanduser() / name
    return path if root and path.is_file() else None


def official_folder(benchmark: Benchmark, data: Evaluation, folder: Path, samples: int) -> Path:
    """Samples as files for the official runner, `FOLDER/kws01/y_labels.csv` and what it names: one of each class first,
    because its summary fails without."""
    place = folder / benchmark.id
    place.mkdir(parents=True, exist_ok=True)
    lines = []
    first = np.unique(data.y, return_index=True)[1]
    chosen = [*first, *np.setdiff1d(np.arange(len(data.y)), first)][:samples]
    for i, (raw, label) in enumerate(zip(data.raw[chosen], data.y[chosen], strict=True)):
        name = f"sample_{i:05}.bin"
        files.write_bytes(place / name, raw.tobytes())
        outputs = 2 if benchmark.id == "ad01" else benchmark.outputs
        window = f",{benchmark.input_bytes},{benchmark.input_bytes}" if benchmark.id == "ad01" else ""
        lines.append(f"{name},{outputs},{label}{window}\n")
    files.write_text(place / "y_labels.csv", "".join(lines))
    return place


def quiet_input(benchmark: Benchmark) -> bytes:
    """An input where no data is at hand: time does not depend on it."""
    return np.random.default_rng(0).integers(0, 64, benchmark.input_bytes, np.uint8).tobytes()


def _arrays(path: Path) -> dict[str, np.ndarray]:
    loaded = files.parse_arrays(files.read_bytes(path, "data file", files.MOST_ARRAY_BYTES), str(path))
    if isinstance(loaded, np.ndarray):
        raise DataError(f"{printable(str(path))}: one array alone; named arrays are needed")
    return dict(loaded)


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint8).reshape(len(x), -1)
