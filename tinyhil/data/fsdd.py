"""Free Spoken Digit Dataset: 3000 recordings of ten digits by six speakers at 8 kHz, as log-mel frames.

Jackson et al., CC BY-SA 4.0. Recordings 0-4 of every speaker and digit are the test part (300), as its authors say.
Features: 25 ms Hann window, 10 ms hop, 256-point power spectrum of samples in -1..1, 32 HTK mel bands from 20 to 4000
Hz, log(energy + 1e-6), rounded to 8 bits; cut to one second, frames beyond the recording hold the lowest value.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.data.dataset import Dataset, Loader
from tinyhil.data.origin import Arrays, Origin, Remote, obtain

FRAMES, BANDS = 98, 32
RATE_HZ, WINDOW, HOP, FFT = 8000, 200, 80, 256
LOWEST_HZ, HIGHEST_HZ, FLOOR = 20.0, 4000.0, 1e-6
SCALE, OFFSET = 0.083105475, -13.815511  # feature = code * SCALE + OFFSET
TEST_RECORDINGS = 5
CLASSES = tuple("0123456789")
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
COMMIT = "26eb9aaf76e81b692f806f9140c2d2777410d7a1"
URL = f"https://github.com/Jakobovski/free-spoken-digit-dataset/archive/{COMMIT}.zip"


def mel_filters() -> np.ndarray:
    """(bands, bins) triangles, evenly spaced on the HTK mel scale."""
    ends = 2595 * np.log10(1 + np.array([LOWEST_HZ, HIGHEST_HZ]) / 700)
    corners = 700 * (10 ** (np.linspace(ends[0], ends[1], BANDS + 2) / 2595) - 1)
    bins = np.arange(FFT // 2 + 1) * RATE_HZ / FFT
    left, centre, right = (corners[i : i + BANDS, None] for i in range(3))
    return np.maximum(0, np.minimum((bins - left) / (centre - left), (right - bins) / (right - centre)))


def log_mel(samples: np.ndarray) -> np.ndarray:
    """8-bit codes (FRAMES, BANDS) of 16-bit samples at 8 kHz."""
    audio = samples[:RATE_HZ].astype(np.float64) / 32768
    count = max(0, 1 + (len(audio) - WINDOW) // HOP)
    starts = np.arange(count)[:, None] * HOP
    power = np.abs(np.fft.rfft(audio[starts + np.arange(WINDOW)] * np.hanning(WINDOW), FFT)) ** 2
    codes = np.zeros((FRAMES, BANDS), np.uint8)
    codes[:count] = np.clip(np.round((np.log(power @ mel_filters().T + FLOOR) - OFFSET) / SCALE), 0, 255)
    return codes


def _parse(paths: Sequence[Path]) -> Arrays:
    x, y, speaker, index = [], [], [], []
    with files.unpacking(paths[0]) as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".wav")):
            digit, person, number = Path(name).stem.split("_")
            with wave.open(io.BytesIO(archive.read(name))) as recording:
                samples = np.frombuffer(recording.readframes(recording.getnframes()), np.int16)
            x.append(log_mel(samples))
            y.append(int(digit))
            speaker.append(SPEAKERS.index(person))
            index.append(int(number))
    labels = {"y": y, "speaker": speaker, "index": index}
    return {"x": np.stack(x), **{key: np.array(values, np.uint8) for key, values in labels.items()}}


ORIGIN = Origin(
    name="fsdd",
    files=("fsdd_logmel.npz",),
    keys=("x", "y", "speaker", "index"),
    sha256=None,  # a code may differ by one where the machine's logarithm does
    remotes=(Remote(URL, "free-spoken-digit-dataset.zip"),),
    parse=_parse,
    join=lambda parts: dict(parts[0]),
)


def load_fsdd(*, allow_download: bool = True) -> Dataset:
    """`x_*` (n, 98, 32): log-mel energies, natural logarithm."""
    arrays, digest = obtain(ORIGIN, allow_download=allow_download)
    x = arrays["x"].astype(np.float32) * np.float32(SCALE) + np.float32(OFFSET)
    test = arrays["index"] < TEST_RECORDINGS
    return Dataset(
        name="fsdd",
        source="full",
        sha256=digest,
        x_train=x[~test],
        y_train=arrays["y"][~test],
        x_test=x[test],
        y_test=arrays["y"][test],
        classes=CLASSES,
        groups_train=arrays["speaker"][~test],
    )


FSDD = Loader("fsdd", load_fsdd)
