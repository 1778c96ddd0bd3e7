"""How ranges are cut before a format is fitted to them: `--calibrate-by`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest
from hil_command import check_failure, hil, record_of

import tinyhil
from tinyhil.compiler.calibrate import calibrate
from tinyhil.compiler.lower import formats as formats_of
from tinyhil.errors import ConfigError, DataError
from tinyhil.formats import FORMATS, named
from tinyhil.formats.clipping import METHODS, clipped, sketch
from tinyhil.formats.codec import dequantize, quantize
from tinyhil.frontend.load import load_model
from tinyhil.harness.cli import hil as root
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.task import load_task, make_bench, trial_log
from tinyhil.harness.settings.config import load_boards

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


@pytest.mark.parametrize("name", ["fixed4", "fixed5", "fixed6", "fixed8", "fp4e2m1"])
def test_zeros_of_a_relu_change_no_range(name: str) -> None:
    """They are exact in every format, so how many there are says nothing of where to cut."""
    positive = np.abs(NORMAL)
    relu = np.sort(np.append(positive, np.zeros(3 * positive.size)))
    for method in ("mse", "kl"):
        alone, among_zeros = (clipped(values, (0.0, 9.0), method, fit_of(name)) for values in (positive, relu))
        assert alone == among_zeros
        assert among_zeros[1] > 1.0  # a third of what is positive lies beyond


@pytest.mark.parametrize("name", ["fp8e4m3", "fp8e5m2", "fixed8"])
def test_the_formula_as_printed_cuts_half(name: str) -> None:
    """Scale: the 99.99th percentile over Qmax - Qmin; what is left of that range."""
    low, high = np.quantile(NORMAL, (0.00005, 0.99995))
    assert clipped(NORMAL, ENDS, "paper-literal", fit_of(name)) == pytest.approx((low / 2, high / 2))


def test_sketches_keep_the_ends_and_the_distribution() -> None:
    values = RANDOM.normal(size=100_000)
    sketched = sketch(values)
    assert (sketched[0], sketched[-1], len(sketched)) == (values.min(), values.max(), 4096)
    assert np.quantile(sketched, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(values, [0.1, 0.5, 0.9]), abs=0.01)


def test_formats_follow_the_method() -> None:
    model = load_model(find_model("digits_mlp").path)
    x = RANDOM.normal(size=(400, 1, 8, 8)).astype(np.float32)
    x[0, 0, 0, 0] = 60.0

    def chosen(method: str):
        from tinyhil.language.assignment import Assignment

        ranges = calibrate(model.graph, x, {"name": "test"}, method)
        return formats_of(model.graph, Assignment("fixed8"), ranges)[model.graph.inputs[0]]

    whole = chosen("minmax").exponent
    assert chosen("percentile").exponent < whole
    assert chosen("mse").exponent == whole  # steps of half cost less than to lose 60


def commands(group: click.Group = root) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield from commands(command) if isinstance(command, click.Group) else [command]


def test_every_command_that_calibrates_takes_every_method() -> None:
    options = {command: {option.name for option in command.params} for command in commands()}
    assert len([names for names in options.values() if "calibrate" in names]) >= 10
    wanting = [one.name for one, names in options.items() if ("calibrate" in names) != ("calibrate_by" in names)]
    assert wanting == ["train", "new"]  # calibrates on what it trains on, by any of them; copies the samples


def test_a_method_that_does_not_exist_is_refused_everywhere() -> None:
    x = RANDOM.normal(size=(20, 1, 8, 8)).astype(np.float32)
    model = tinyhil.load("digits_mlp")
    for call in (
        lambda: model.calibrate(x, "entropy"),
        lambda: model.run("host", x, calibrate_by="entropy"),
        lambda: model.search(x, ram=100, calibrate_by="entropy"),
        lambda: model.export("cmake", "x.zip", calibrate_by="entropy"),
        lambda: calibrate(load_model(find_model("digits_mlp").path).graph, x, {}, "entropy"),
    ):
        with pytest.raises(
            ConfigError,
            match=r"no method 'entropy'; there are minmax, percentile, kl, mse, paper-literal"
            r"|calibrate_by must be minmax or percentile or kl or mse or paper-literal, not 'entropy'",
        ):
            call()


def test_a_library_has_the_formats_that_were_measured(tmp_path: Path) -> None:
    """Python and the command write the same bytes, others than of the whole range."""
    x = RANDOM.normal(size=(400, 1, 8, 8)).astype(np.float32) ** 3
    np.savez(tmp_path / "x.npz", x=x)
    asked = ("digits_mlp", "--format", "fixed5", "--calibrate", "x.npz")
    for method in ("minmax", "kl"):
        done = hil("export", "cmake", *asked, "--calibrate-by", method, "--out", f"{method}.zip", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    python = tinyhil.load("digits_mlp").calibrate(x, "kl").export("cmake", tmp_path / "python.zip", "fixed5")
    assert python.read_bytes() == (tmp_path / "kl.zip").read_bytes() != (tmp_path / "minmax.zip").read_bytes()


def test_a_substitute_for_the_training_part_is_refused(tmp_path: Path) -> None:
    """The windows of har6 that ship with the project are of its test part."""
    nowhere = {"HIL_DATA": str(tmp_path), "HIL_CACHE": str(tmp_path), "HTTPS_PROXY": "http://127.0.0.1:9"}
    options = ("--model", "fastgrnn_har", "--calibrate-by", "kl", "--results", tmp_path)
    done = hil("run", "--board", "host", *options, cwd=tmp_path, **nowhere)
    check_failure(done, DataError.exit_code, "calibrating on it would be meaningless", "give --calibrate", logs=True)


def test_a_board_in_a_search_is_calibrated_like_the_search(tmp_path: Path) -> None:
    """Ranges beside a model tell nothing of the values within: the board is given the samples."""
    model = find_model("digits_mlp")
    for path in (model.path, model.ranges):
        shutil.copy(path, tmp_path / f"net{path.suffix if path == model.path else '.ranges.json'}")
    np.savez(tmp_path / "x.npz", x=RANDOM.normal(size=(40, 1, 8, 8)).astype(np.float32), y=np.arange(40) % 10)
    for method, given in (("minmax", False), ("kl", True)):
        request = SearchRequest(
            str(tmp_path / "net.onnx"),
            board="uno",
            inputs=tmp_path / "x.npz",
            evaluator="reference",
            calibrate_by=method,
            results=tmp_path,
            formats="fixed8,fixed16",
        )
        task = load_task(request, tmp_path, print, lambda *_: None, load_boards())
        assert (make_bench(task, trial_log(task, "log")).calibration is not None) == given


@pytest.mark.parametrize("method", ["percentile", "mse", "kl"])
def test_hil_run_stays_bit_exact(method: str, tmp_path: Path) -> None:
    options = ("--model", "digits_cnn", "--format", "fixed5", "--samples", 30, "--results", tmp_path, "--json")
    record = record_of(hil("run", "--board", "host", *options, "--calibrate-by", method, cwd=tmp_path))
    assert record["bit_exact"]


def test_inputs_that_a_cut_clips_are_said(tmp_path: Path) -> None:
    """They lie within what was seen, and still beyond what the format holds: by no choice of an assignment."""
    x = RANDOM.normal(size=(400, 1, 8, 8)).astype(np.float32)
    x[0, 0, 7] = 50.0  # 0.03 % of the elements, which a percentile cuts off, but 2.5 % of the first five samples
    np.savez(tmp_path / "x.npz", x=x)
    options = ("--model", "digits_cnn", "--inputs", "x.npz", "--calibrate", "x.npz", "--samples", 5)
    for method, said in (("percentile", ["inputs-clipped"]), ("minmax", [])):
        how = ("--format", "fixed8", "--calibrate-by", method, "--json")
        record = record_of(hil("run", "--board", "host", *options, *how, cwd=tmp_path))
        codes = [issue["code"] for issue in record["issues"] if issue["code"] == "inputs-clipped"]
        assert codes == said, (method, record["input_saturations"], record["input_beyond"])
