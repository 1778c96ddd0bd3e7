"""Training on moved samples, and for ranges that are cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_train import goes_on_as_if_nothing_had_happened, job  # noqa: E402

from tinyhil.compiler.calibrate import calibrate, load_ranges, save_ranges  # noqa: E402
from tinyhil.compiler.lower import lower  # noqa: E402
from tinyhil.train.augment import augmented  # noqa: E402
from tinyhil.train.fit import train  # noqa: E402
from tinyhil.train.schedule import Schedule  # noqa: E402


@pytest.mark.parametrize(
    ("shape", "channel"), [((1, 25, 9), 2), ((1, 3, 8, 6), 1), ((1, 64), 1)], ids=["sequence", "picture", "vector"]
)
def test_each_channel_of_each_sample_has_a_gain_and_an_offset(shape: tuple[int, ...], channel: int) -> None:
    """A line through what was given and what was made, whose coefficients have the spread that was asked for."""
    x = np.random.default_rng(0).standard_normal((400, *shape[1:])).astype(np.float32) * 3
    moved = augmented(x.reshape(400, -1), shape, 0.2, (1, 2))
    assert moved.shape == (400, x[0].size)
    assert moved.dtype == np.float32
    assert np.array_equal(moved, augmented(x.reshape(400, -1), shape, 0.2, (1, 2)))
    assert not np.array_equal(moved, augmented(x.reshape(400, -1), shape, 0.2, (1, 3)))
    if len(shape) == 2:
        assert (moved - x).std() == pytest.approx(0.2 * 3 * np.sqrt(1 + 4), rel=0.05)
        return
    before, after = (
        np.moveaxis(a.reshape(x.shape), channel, 1).reshape(-1, x[0].size // shape[channel]) for a in (x, moved)
    )
    before, after = (a.reshape(400 * shape[channel], -1) for a in (before, after))
    gain = ((before - before.mean(1, keepdims=True)) * after).sum(1) / before.var(1) / before.shape[1]
    offset = after.mean(1) - gain * before.mean(1)
    assert np.allclose(after, gain[:, None] * before + offset[:, None], atol=1e-3)
    assert (gain.mean(), gain.std()) == pytest.approx((1, 0.2), abs=0.02)
    assert (offset.mean(), offset.std()) == pytest.approx((0, 0.2 * 2 * 3), abs=0.1)


def test_moved_samples_choose_the_epoch_and_are_taught() -> None:
    """The teacher says of a moved sample what it is, however wrong the labels are."""
    given = replace(job(2), schedule=Schedule(3, batch=16, rate=3e-2, augment=0.3, teacher=1.0))
    judge, samples = given.judge, given.samples
    program = judge.program({}, judge.ranges({}))
    moved = augmented(samples.x_chosen_by, judge.graph.shapes[judge.graph.inputs[0]], 0.3, (0, 0))
    found = train(replace(given, samples=replace(samples, y=(samples.y + 3) % 10)))
    assert found.epochs[0].accuracy == judge.correct(program, moved, samples.y_chosen_by)
    assert found.epochs[0].accuracy != judge.correct(program, samples.x_chosen_by, samples.y_chosen_by)
    assert found.epochs[3].accuracy > found.epochs[0].accuracy + 0.1


def test_interrupted_training_draws_the_same(tmp_path: Path) -> None:
    given = job(3, augment=0.2, teacher=0.5)
    assert goes_on_as_if_nothing_had_happened(given, train(given), 2, tmp_path)


@pytest.mark.parametrize("by", ["percentile", "mse", "kl"])
def test_ranges_of_training_are_cut_as_those_of_a_search(by: str, tmp_path: Path) -> None:
    """The program is that of ranges that know what was seen, also of the file, which does not."""
    calibration = job(1).judge.calibration.copy()
    calibration[0, :, 3:5] *= 16
    judge = replace(job(1).judge, calibration=calibration, calibrate_by=by)
    wanted = lower(judge.graph, judge.assignment, calibrate(judge.graph, judge.calibration, {}, by))
    ranges = judge.ranges({})
    save_ranges(tmp_path / "r.json", ranges, "digest")
    for found in (ranges, load_ranges(tmp_path / "r.json", "digest")):
        program = judge.program({}, found)
        assert {name: tensor.format for name, tensor in program.tensors.items()} == {
            name: tensor.format for name, tensor in wanted.tensors.items()
        }
    uncut = judge.program({}, calibrate(judge.graph, judge.calibration, {}))
    assert any(program.tensors[name].format != tensor.format for name, tensor in uncut.tensors.items())
