"""Whether a .tflite front end of sound gives TensorFlow Lite Micro's features over hours of audio, byte for byte.

    python -m benchmarks.sound_front_end audio_preprocessor_int8.tflite [--seconds 3600] [--speech fsdd.npz]

The file takes windows of int16 (480 samples for 30 ms at 16 kHz), one every 10 ms, and keeps its noise from step to
step. Audio is generated: noise of all levels, chirps, voices (harmonics of a gliding pitch under formants), silence,
clicks, and all of these clipped; recordings of `--speech` (an array `audio`, int16 at 16 kHz) follow each other beside.
Streams of ten seconds, each from its start. Exits with 1 if a number differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from tinyhil import files
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import DataError
from tinyhil.frontend.ports import Stream
from tinyhil.frontend.tflite import load_tflite
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import element_count
from tinyhil.language.program import Op
from tinyhil.references.reference import run_reference

RATE, HOP, STREAM_S = 16000, 160, 10
TOGETHER = 36  # streams that numpy runs at once


def audio(seconds: int, seed: int = 0) -> np.ndarray:
    """(streams, samples) of int16, ten seconds each."""
    rng, size = np.random.default_rng(seed), RATE * STREAM_S
    made = [np.concatenate([_second(rng) for _ in range(STREAM_S)]) for _ in range(max(1, seconds // STREAM_S))]
    return np.stack([np.clip(np.round(row[:size]), -32768, 32767).astype(np.int16) for row in made])


def _second(rng: np.random.Generator) -> np.ndarray:
    t, level = np.arange(RATE) / RATE, 10 ** rng.uniform(0, 5)
    kind = rng.integers(7)
    if kind == 0:
        return rng.normal(0, level, RATE)
    if kind == 1:
        low, high = np.sort(rng.uniform(50, 7900, 2))
        return level * np.sin(2 * np.pi * (low * t + (high - low) * t * t / 2))
    if kind == 2:
        pitch = rng.uniform(80, 300) * (1 + 0.3 * np.sin(2 * np.pi * rng.uniform(0.5, 3) * t))
        phase, formants = 2 * np.pi * np.cumsum(pitch) / RATE, rng.uniform(300, 3500, 3)
        gains = [sum(np.exp(-(((n * 150 - f) / 200) ** 2)) for f in formants) + 0.02 for n in range(1, 30)]
        voice = sum(gain * np.sin(n * phase) for n, gain in enumerate(gains, 1))
        return level / 4 * np.asarray(voice) * np.abs(np.sin(2 * np.pi * 2 * t))
    if kind == 3:
        return np.zeros(RATE)
    if kind == 4:
        return np.where(rng.integers(0, 400, RATE), 0, rng.choice([-32768, 32767, level], RATE))
    if kind == 5:
        return np.full(RATE, rng.choice([-32768, 32767, 1, -1]))
    return 1e5 * np.sign(np.sin(2 * np.pi * rng.uniform(20, 7000) * t))


def windows(streams: np.ndarray, size: int) -> np.ndarray:
    """(streams, steps, size): a window every hop."""
    return np.lib.stride_tricks.sliding_window_view(streams, size, axis=1)[:, ::HOP]


def differing(path: Path, streams: np.ndarray) -> int:
    """How many numbers of the features differ from those of TensorFlow Lite Micro."""
    graph = load_tflite(path, Stream(steps=1)).graph
    size, wrong = element_count(graph.shapes[graph.inputs[0]]), 0
    for first in range(0, len(streams), TOGETHER):
        given = windows(streams[first : first + TOGETHER], size)
        wrong += int((ours(path, given) != theirs(path, given)).sum())
    return wrong


def ours(path: Path, given: np.ndarray) -> np.ndarray:
    """Codes (streams, steps, features) of windows (streams, steps, size), by the reference."""
    graph = load_tflite(path, Stream(steps=given.shape[1])).graph
    program = lower(graph, Assignment("int8", {}), Ranges.any_of(graph))
    shown, found = program.output, list[np.ndarray]()

    def observe(op: Op, codes: np.ndarray, _: np.ndarray) -> None:
        if op.output == shown and op.inputs:  # what is shown of every step; without operands it is filled before
            found.append(codes)

    run_reference(program, given.reshape(len(given), -1).astype(np.int64), observe=observe)
    return np.stack(found, axis=1)


def theirs(path: Path, given: np.ndarray) -> np.ndarray:
    """The same by TensorFlow Lite Micro."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(
        files.read_bytes(path, "model", 1 << 24, DataError), arena_size=1 << 18
    )
    shape, rows = interpreter.get_input_details(0)["shape"], []
    for stream in given:
        interpreter.reset()
        for window in stream:
            interpreter.set_input(np.ascontiguousarray(window).reshape(shape), 0)
            interpreter.invoke()
            rows.append(interpreter.get_output(0).reshape(-1).astype(np.int64))
    return np.stack(rows).reshape(*given.shape[:2], -1)


def speech(path: Path) -> np.ndarray:
    """Recordings behind each other in streams of ten seconds."""
    with np.load(path) as data:
        flat = data["audio"].reshape(-1)
    whole = len(flat) // (RATE * STREAM_S)
    return np.asarray(flat[: whole * RATE * STREAM_S].reshape(whole, -1), np.int16)


def main() -> int:
    """Prints what was compared and how many numbers differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--speech", type=Path)
    arguments = parser.parse_args()
    streams = [audio(arguments.seconds)] + ([speech(arguments.speech)] if arguments.speech else [])
    wrong = sum(differing(arguments.file, part) for part in streams)
    kinds = zip(streams, ("generated audio", "speech"), strict=False)
    said = ", ".join(f"{len(part) * STREAM_S} s of {what}" for part, what in kinds)
    print(f"{said}: {wrong} numbers differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
