"""Prompts: lines of a text file become samples of a model that speaks (`Text` of zoo.py), and its results a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import files
from tinyhil.errors import DataError
from tinyhil.harness.job.zoo import ModelSource

SEEDS = 100  # a line's number is its seed, up to here
OWN = -1  # instead of a letter: the model goes on with its own
MOST_BYTES = 1 << 20


def prompts_of(source: ModelSource, path: Path | None) -> Path | None:
    """The file of prompts that is given, else the one that comes with a model; None if arrays are, or nothing."""
    if path is not None:
        return path if path.suffix == ".txt" else None
    return None if source.text is None else source.text.prompts


def prompted(path: Path, source: ModelSource, steps: int) -> tuple[bytes, np.ndarray]:
    """What is in the file, and its samples (lines, steps, 3) of letter, seed (by the line) and temperature.

    DataError for a model that does not speak, a letter it does not know, a line that leaves it no step, or no line.
    """
    if source.text is None:
        raise DataError(f"{path}: prompts are for models that speak, such as story; give arrays (.npz, .npy)")
    content = files.read_bytes(path, "file of prompts", MOST_BYTES)
    lines = [line for line in content.decode("utf-8", "replace").splitlines() if line]
    if not lines:
        raise DataError(f"{path}: no line that is a prompt; write one on each line")
    return content, np.stack([_sample(line, number, path, source, steps) for number, line in enumerate(lines, 1)])


def _sample(line: str, number: int, path: Path, source: ModelSource, steps: int) -> np.ndarray:
    assert source.text is not None
    if len(line) >= steps:
        raise DataError(f"{path}: line {number} has {len(line)} letters, a sample has {steps} steps; give more --steps")
    strange = next((letter for letter in line if letter not in source.classes), None)
    if strange is not None:
        known = "".join(source.classes).strip()
        raise DataError(f"{path}: line {number}: the model knows no letter {strange!r}; it knows {known}")
    sample = np.full((steps, 3), OWN, np.float32)
    sample[: len(line), 0] = [source.classes.index(letter) for letter in line]
    sample[:, 1:] = (number - 1) % SEEDS + 1, source.text.temperature
    return sample


def text_of(source: ModelSource, sample: np.ndarray, letters: Sequence[int]) -> str:
    """The prompt of a sample (steps, 3), and what the model said behind it."""
    given = [int(letter) for letter in sample[:, 0] if letter != OWN]
    known = dict(enumerate(source.classes))  # arrays may hold other numbers, as samples that are drawn do
    return "".join(known.get(place, "?") for place in [*given, *letters[max(0, len(given) - 1) :]])


def teller(
    source: ModelSource, x: np.ndarray, dtype: np.dtype[Any], say: Callable[[str], None]
) -> Callable[[int, bytes], None]:
    """What is told a result, whole numbers of `dtype`, and its sample's number as it comes: it says the text, if the
    model speaks."""
    if source.text is None:
        return lambda index, output: None
    return lambda index, output: say(text_of(source, x[index], np.frombuffer(output, dtype).tolist()) + "\n")
