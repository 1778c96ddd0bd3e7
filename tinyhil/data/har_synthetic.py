"""A seeded stand-in for UCI HAR: gravity, gait harmonics and sensor noise of the right shape and size, without labels.

It exercises latency, memory and bit-exactness. It says nothing about accuracy, hence no labels.
"""

from __future__ import annotations

import numpy as np

from tinyhil.data.dataset import Dataset, hash_arrays
from tinyhil.data.har_archive import CHANNELS, CLASSES, STEPS

SEED = 6
TRAIN_WINDOWS, TEST_WINDOWS = 2400, 950
SAMPLE_RATE_HZ = 50.0
GAIT_HZ = (1.5, 2.5)
HARMONICS = 4
WALKING_SHARE = 0.45
# Sensor steps. Rounding to them also hides the last-bit differences of sin() between machines.
ACCELERATION_STEP_G = 2.0**-13
GYRO_STEP_RAD_S = 2.0**-12
ACCELERATION_NOISE_G = 0.006
GYRO_NOISE_RAD_S = 0.02
# Mean direction of gravity per posture (x points down the upright body): upright, reclined, lying.
POSTURES = np.array([[0.97, -0.15, 0.10], [0.85, 0.20, 0.45], [-0.10, 0.75, 0.60]])
POSTURE_SPREAD = 0.12


def generate(name: str, message: str) -> Dataset:
    """The stream: the same bits on every machine and in every run."""
    random = np.random.Generator(np.random.PCG64(SEED))
    x_train, x_test = _windows(random, TRAIN_WINDOWS), _windows(random, TEST_WINDOWS)
    return Dataset(
        name=name,
        source="synthetic",
        sha256=hash_arrays(x_train, x_test),
        x_train=x_train,
        y_train=None,
        x_test=x_test,
        y_test=None,
        classes=CLASSES,
        message=message,
    )


def _windows(random: np.random.Generator, count: int) -> np.ndarray:
    walking = random.random(count) < WALKING_SHARE
    posture = np.where(walking, 0, random.integers(0, len(POSTURES), count))
    gravity = POSTURES[posture] + POSTURE_SPREAD * random.uniform(-1, 1, (count, 3))
    gravity = _round(gravity / np.linalg.norm(gravity, axis=1, keepdims=True), ACCELERATION_STEP_G)
    body = _motion(random, walking, 0.25) + ACCELERATION_NOISE_G * random.standard_normal((count, STEPS, 3))
    gyro = _motion(random, walking, 0.6) + GYRO_NOISE_RAD_S * random.standard_normal((count, STEPS, 3))
    total = _round(gravity[:, None] + body, ACCELERATION_STEP_G)
    windows = np.concatenate([total - gravity[:, None], _round(gyro, GYRO_STEP_RAD_S), total], axis=2)
    assert windows.shape[2] == len(CHANNELS)
    return windows.astype(np.float32)


def _motion(random: np.random.Generator, walking: np.ndarray, amplitude: float) -> np.ndarray:
    """Harmonics of the gait per axis, weaker as they rise; standing still leaves a slow sway of a hundredth."""
    count = len(walking)
    time_s = np.arange(STEPS) / SAMPLE_RATE_HZ
    pace_hz = np.where(walking, random.uniform(*GAIT_HZ, count), random.uniform(0.2, 0.5, count))
    strength = amplitude * np.where(walking, random.uniform(0.5, 1.3, count), 0.01)
    motion = np.zeros((count, STEPS, 3))
    for order in range(1, HARMONICS + 1):
        phase = random.uniform(0, 2 * np.pi, (count, 1, 3))
        weight = random.uniform(0.3, 1.0, (count, 1, 3)) / order
        angle = 2 * np.pi * order * pace_hz[:, None, None] * time_s[None, :, None]
        motion += weight * np.sin(angle + phase)
    return strength[:, None, None] * motion


def _round(values: np.ndarray, step: float) -> np.ndarray:
    return np.round(values / step) * step
