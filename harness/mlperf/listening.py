"""The streaming wake word hears: sound goes to the board stride by stride over the serial line, as by the official
`stream_wav_uart.py`, and what the board makes of each stride has to be what the reference makes of it.

The benchmark plays its sound over I2S, counts detections and measures a duty cycle; boards here have no I2S.
"""

from __future__ import annotations

import re
import wave
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinyhil.errors import DataError
from tinyhil.frontend.tflite_sound import BANDS, BESIDE, CLASSES, HOP, RATE_HZ, ROWS
from tinyhil.harness.mlperf.benchmarks import WAKE_SCALE, WAKE_ZERO
from tinyhil.harness.mlperf.runner_protocol import Device, ProtocolError, elapsed_us
from tinyhil.language.program import Program
from tinyhil.notice import Say
from tinyhil.references.reference import dequantize_outputs, quantize_inputs, run_reference

SECONDS, SEED = 2.0, 36
RESULT = (1 / 256, -128)  # scale and zero point of what the board says of classes
SHOWN = 115  # a code above is a detection, by the reference firmware
STRIDE_S = HOP / RATE_HZ


@dataclass(frozen=True, slots=True)
class Heard:
    """`equal` of `strides` were answered with the reference's codes; `detections`: strides of which the board said the
    wake word; microseconds of a stride (median)."""

    strides: int
    equal: int
    detections: tuple[int, ...]
    us_per_stride: float
    duty_cycle: float


def some_sound(seconds: float) -> np.ndarray:
    """int16 samples: noise that swells, a chirp, silence and clipped tones, a quarter of the time each."""
    rng, quarter = np.random.default_rng(SEED), int(seconds * RATE_HZ / 4)
    t = np.arange(quarter) / RATE_HZ
    noise = rng.normal(size=quarter) * np.geomspace(1e-3, 0.3, quarter)
    chirp = 0.4 * np.sin(2 * np.pi * (100 + 3500 * t / max(t[-1], STRIDE_S)) * t)
    tones = np.clip(2 * np.sin(2 * np.pi * 440 * t) + np.sin(2 * np.pi * 1313 * t), -1, 1)
    parts = np.concatenate([noise, chirp, np.zeros(quarter), tones])
    return np.clip(np.rint(parts * 32767), -32768, 32767).astype(np.int16)


def sound_of(path: Path) -> np.ndarray:
    """The first channel of a .wav file of 16 kHz and 16 bits; DataError for another one."""
    try:
        with wave.open(str(path)) as file:
            kind = file.getframerate(), file.getsampwidth()
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
    except (OSError, EOFError, wave.Error, ValueError) as error:
        raise DataError(f"{path}: can not be read as a .wav file ({error})") from None
    if kind != (RATE_HZ, 2) or len(samples) < HOP:
        raise DataError(f"{path}: {kind[0]} Hz, {8 * kind[1]} bits, {len(samples)} samples; 16 kHz, 16 bits are needed")
    return np.ascontiguousarray(samples[:, 0])


def strides_of(sound: np.ndarray) -> np.ndarray:
    """(strides, 512) int16; what is left over at the end is not heard."""
    return sound[: len(sound) // HOP * HOP].reshape(-1, HOP)


def records(sound: np.ndarray) -> np.ndarray:
    """What the model takes for each stride (strides, 2185) float32, rows of code 0, for ranges alone."""
    strides = strides_of(sound).astype(np.float32) / 32768
    padded = np.concatenate([np.zeros(BESIDE - HOP, np.float32), strides.reshape(-1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, BESIDE)[::HOP]
    rows = np.full((len(windows), (ROWS - 1) * BANDS), -WAKE_ZERO * np.float32(WAKE_SCALE), np.float32)
    return np.concatenate([windows, rows], axis=1).astype(np.float32)


def expected(program: Program, sound: np.ndarray) -> np.ndarray:
    """Codes (strides, 40 + 3) that the reference makes of the strides, one after the other."""
    every, found = records(sound), []
    rows = every[0, BESIDE:].copy()
    for record in every:
        record[BESIDE:] = rows
        codes, _ = quantize_inputs(program, record[None])
        (result,) = dequantize_outputs(program, run_reference(program, codes).outputs)
        rows = np.concatenate([rows[BANDS:], result[:BANDS].astype(np.float32)])
        found.append(result)
    results = np.array(found)
    scales = np.repeat(np.array([WAKE_SCALE, RESULT[0]], np.float32), [BANDS, CLASSES])
    zeros = np.repeat([WAKE_ZERO, RESULT[1]], [BANDS, CLASSES])
    return np.clip(np.rint(results / scales) + zeros, -128, 127).astype(int)


def _codes(lines: list[str], name: str, count: int) -> list[int]:
    found = next((match[1] for line in lines if (match := re.fullmatch(rf"m-{name}-\[(.*)\]", line))), "")
    numbers = [int(word) for word in found.split(",") if re.fullmatch(r" *[-+]?\d+", word)]
    if len(numbers) != count:
        raise ProtocolError(f"{len(numbers)} numbers in m-{name}, {count} were expected")
    return numbers


def listen(device: Device, program: Program, sound: np.ndarray, say: Say) -> Heard:
    """Send `sound`, compare each answer. ProtocolError, LinkTimeout."""
    wanted, equal = expected(program, sound), 0
    detections: list[int] = []
    taken: list[int] = []
    for at, stride in enumerate(strides_of(sound)):
        device.load(stride.astype("<i2").tobytes(), most_bytes=HOP)
        lines = device.ask("extract_uart_stream")
        taken.append(elapsed_us(lines) or 0)
        codes = _codes(lines, "features", BANDS) + _codes(lines, "activations", CLASSES)
        equal += codes == wanted[at].tolist()
        if codes[BANDS] > SHOWN:
            detections.append(at)
    us = float(np.median(taken))
    say(f"stream: {equal} of {len(wanted)} strides answered as by the reference")
    return Heard(len(wanted), equal, tuple(detections), us, us * 1e-6 / STRIDE_S)
