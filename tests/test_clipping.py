"""How ranges are cut before a format is fitted to them: `--calibrate-by`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hil_command import hil, record_of

from tinyhil.calibrate import calibrate
from tinyhil.clipping import METHODS, clipped, sketch
from tinyhil.formats import FORMATS, named
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.frontend.load import load_model
from tinyhil.harness.zoo import find_model
from tinyhil.lower import formats as formats_of

RANDOM = np.random.default_rng(0)
NORMAL = np.append(RANDOM.normal(size=4000), [9.0, -3.9])  # one value far from the others
ENDS = float(NORMAL.min()), float(NORMAL.max())


def fit_of(name: str):
    chosen = named(name)
    return chosen.fit_range or (lambda low, high: chosen.fit(max(abs(low), abs(high))))


def error_of(name: str, ends: tuple[float, float]) -> float:
    fmt = fit_of(name)(*ends)
    return float(((dequantize(quantize(NORMAL, fmt)[0], fmt) - NORMAL) ** 2).mean())


@pytest.mark.parametrize("name", [fmt.name for fmt in FORMATS if fmt.fit_values is None])
@pytest.mark.parametrize("method", METHODS)
def test_every_format_takes_every_method(name: str, method: str) -> None:
    low, high = clipped(sketch(NORMAL), ENDS, method, fit_of(name))
    assert ENDS[0] <= low < high <= ENDS[1]
    if method == "mse":
        assert error_of(name, (low, high)) <= error_of(name, ENDS)


def test_an_outlier_is_cut_off_where_that_pays() -> None:
    ranges = {method: clipped(NORMAL, ENDS, method, fit_of("fixed4")) for method in METHODS}
    assert ranges["minmax"] == ENDS
    assert 3.0 < ranges["percentile"][1] < 4.5
    assert all(ranges[method][1] <= 8.0 for method in ("mse", "kl"))  # a power of two finer
    assert clipped(NORMAL, ENDS, "mse", fit_of("fixed16")) == ENDS  # nothing to gain


def test_kl_by_hand() -> None:
    """Uniform values and codes: no divergence is less than that of the whole range."""
    values = np.linspace(-1, 1, 4096)
    assert clipped(values, (-1.0, 1.0), "kl", fit_of("int8")) == (-1.0, 1.0)


def test_sketches_keep_the_ends_and_the_distribution() -> None:
    values = RANDOM.normal(size=100_000)
    kept = sketch(values)
    assert (kept[0], kept[-1], len(kept)) == (values.min(), values.max(), 4096)
    assert np.quantile(kept, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(values, [0.1, 0.5, 0.9]), abs=0.01)


def test_formats_follow_the_method() -> None:
    model = load_model(find_model("digits_mlp").path)
    x = RANDOM.normal(size=(200, 1, 8, 8)).astype(np.float32)
    x[0, 0, 0, 0] = 60.0

    def chosen(method: str):
        from tinyhil.assignment import Assignment

        ranges = calibrate(model.graph, x, {"name": "test"}, method)
        return formats_of(model.graph, Assignment("fixed8"), ranges)[model.graph.inputs[0]]

    whole = chosen("minmax").exponent
    assert chosen("percentile").exponent < whole
    assert chosen("mse").exponent == whole  # steps of half cost less than to lose 60


@pytest.mark.parametrize("method", ["percentile", "mse", "kl"])
def test_hil_run_stays_bit_exact(method: str, tmp_path: Path) -> None:
    options = ("--model", "digits_cnn", "--format", "fixed5", "--samples", 30, "--results", tmp_path, "--json")
    record = record_of(hil("run", "--board", "host", *options, "--calibrate-by", method, cwd=tmp_path))
    assert record["bit_exact"]
