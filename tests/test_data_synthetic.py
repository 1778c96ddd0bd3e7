"""UCI HAR's stand-in: the same numbers everywhere, and numbers that a sensor could have given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinyhil.data import load_har6
from tinyhil.data.dataset import hash_arrays


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIL_DATA", "synthetic")
    monkeypatch.setenv("HIL_CACHE", str(tmp_path / "cache"))


def test_synthetic_is_the_same_in_another_process() -> None:
    code = "from tinyhil.data import load; print(load('har6', allow_download=False).sha256)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    here = load_har6(allow_download=False)
    assert here.sha256 == other
    assert here.sha256 == hash_arrays(here.x_train, here.x_test)


def test_synthetic_is_pinned() -> None:
    """The stream decides recorded latencies: a change must be deliberate."""
    expected = "25ff44f48184e4cc292727fc426fd847550d6fc4a4346503a0c487a089ceaf85"
    assert load_har6(allow_download=False).sha256 == expected


def test_synthetic_is_physical() -> None:
    data = load_har6(allow_download=False)
    assert data.x_train.shape == (2400, 128, 9)
    assert data.x_test.shape == (950, 128, 9)
    assert data.x_test.dtype == np.float32
    assert data.y_train is None
    assert data.y_test is None
    body, gyro, total = np.split(data.x_test.astype(np.float64), 3, axis=2)
    gravity = total - body
    np.testing.assert_allclose(np.linalg.norm(gravity, axis=2), 1.0, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(total.mean(axis=1), axis=1), 1.0, atol=0.1)
    assert np.abs(total).max() < 2.2  # what the real set holds: 2.13 g and 5.5 rad/s
    assert np.abs(gyro).max() < 5.5

    motion = body.std(axis=1).mean(axis=1)
    walking = motion > 0.03
    assert 0.35 < walking.mean() < 0.55
    assert motion[~walking].max() < 0.015
    assert motion[~walking].min() > 0.003  # sensor noise


def test_synthetic_gait_lies_between_one_and_a_half_and_ten_hertz() -> None:
    data = load_har6(allow_download=False)
    body = data.x_test[:, :, :3].astype(np.float64)
    walking = body.std(axis=1).mean(axis=1) > 0.03
    power = (np.abs(np.fft.rfft(body[walking], axis=1)) ** 2).sum(axis=(0, 2))
    frequency_hz = np.fft.rfftfreq(128, 1 / 50)
    gait = (frequency_hz > 1.1) & (frequency_hz < 10.5)
    assert power[gait].sum() / power.sum() > 0.95
    fundamental = (frequency_hz > 1.1) & (frequency_hz < 2.9)
    assert power[fundamental].sum() / power.sum() > 0.5
