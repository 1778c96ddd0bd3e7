"""What a user meets who does as the documentation says: true labels, failures before the work that name their file."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
import pytest
from hil_command import check_failure, hil
from rich.console import Console
from tflite_files import classifier
from wire_bench import ROOT, write_tiny_model

from tinyhil import errors, files
from tinyhil.data.fetch import attempt
from tinyhil.harness.cli import GROUPS
from tinyhil.harness.commands.option import Finite
from tinyhil.harness.measure.parallel import BoardResult, print_table
from tinyhil.harness.report.page import EXTRA
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.settings.failure import failure
from tinyhil.harness.settings.text import LONGEST_NAME, in_short


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tiny_model(tmp_path / "tiny.onnx")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).normal(size=(8, 1, 32)).astype(np.float32))
    (tmp_path / "quantized.tflite").write_bytes(classifier(quantized=True))
    (tmp_path / "floats.tflite").write_bytes(classifier(quantized=False))
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "codes.npz", x=rng.integers(-128, 128, (8, 6, 5, 2)).astype(np.float32))
    return tmp_path


def test_a_quantized_model_needs_no_calibration(folder: Path) -> None:
    """Its formats are its own: the library is that which calibration gives, and every label says so."""
    export = ("export", "cmake", "quantized.tflite", "--name", "own", "--out")
    done = hil(*export, "a.zip", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert hil(*export, "b.zip", "--calibrate", "codes.npz", cwd=folder).returncode == 0
    assert (folder / "a.zip").read_bytes() == (folder / "b.zip").read_bytes()
    assert hil("plan", "--model", "quantized.tflite", cwd=folder).stdout.startswith("quantized, int8\n")
    plain = hil("export", "cmake", "floats.tflite", "--out", "c.zip", cwd=folder)
    check_failure(plain, errors.EXIT_USAGE, "no calibrated ranges")


def test_the_terminal_says_what_the_record_says(folder: Path) -> None:
    """Inputs far outside of what was calibrated on are no silent success."""
    np.savez(folder / "small.npz", x=np.load(folder / "x.npz")["x"] / 100)
    asked = ("run", "--board", "host", "--model", "tiny.onnx", "--inputs", "x.npz", "--calibrate", "small.npz")
    done = hil(*asked, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "verdict        degraded: inputs-clipped: " in done.stdout
    record = json.loads(Path(folder, done.stdout.split()[-1]).read_text())
    table = io.StringIO()
    print_table([BoardResult("host", 0, record, "")], Console(file=table, width=160))
    assert "host: degraded: inputs-clipped: " in table.getvalue()
    headings, cells = (re.split(r"  +", line.strip()) for line in table.getvalue().splitlines()[1:3])
    shown = dict(zip(headings, cells, strict=True))
    assert shown["differ"] == str(record["disagreements"])
    assert shown["flash"] == f"{record['flash_bytes']} B"


@pytest.mark.parametrize(
    "asked",
    [
        ("export", "arduino", "tiny.onnx", "--calibrate", "x.npz", "--out", "new.zip"),
        ("generate", "tiny.onnx", "--calibrate", "x.npz", "--out", "new"),
        ("convert", "tiny.onnx", "new.dsl"),
        ("calibrate", "tiny.onnx", "--inputs", "x.npz", "--out", "new.json"),
    ],
    ids=lambda asked: asked[0],
)
def test_a_write_that_fails_names_its_file_and_leaves_nothing_beside(asked: tuple[str, ...], folder: Path) -> None:
    before = set(folder.iterdir())
    done = hil(*asked, cwd=folder, file_bytes=64)
    check_failure(done, errors.EXIT_USAGE, f"hil: {asked[-1]}", "File too large")
    assert {path.name for path in set(folder.iterdir()) - before} <= {"new"}


def test_a_full_disk_says_what_to_do() -> None:
    with pytest.raises(OSError, match="No space") as raised, files.naming(Path("results.json")):
        Path("/dev/full").write_text("x")
    assert failure(raised.value) == ("results.json: No space left on device; make room", errors.EXIT_USAGE)


def test_the_work_is_done_whoever_stops_reading(folder: Path) -> None:
    """As in `hil run ... 2>&1 | head`, of which the messages alone are read: exit code and record are as ever."""
    asked = [sys.executable, "-m", "tinyhil.harness.cli", "run", "--board", "host", "--model", "tiny.onnx"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*asked, "--inputs", "x.npz"], cwd=folder, stdout=subprocess.PIPE, stderr=write_end, text=True
    )
    os.close(write_end)
    assert done.returncode == 0
    assert "bit-exact      yes" in done.stdout


def test_an_interruption_that_a_library_wraps_is_one() -> None:
    """Pydantic builds classes while `hil` is loading: Ctrl-C was called a defect."""
    wrapped = RuntimeError(
        'Error building "definitions" validator:\n  Error building "literal" validator: KeyboardInterrupt:'
    )
    assert failure(wrapped, "plan") == ("interrupted", errors.EXIT_INTERRUPTED)


def test_only_what_resumes_promises_it() -> None:
    promised = {
        name: "resumes" in failure(KeyboardInterrupt(), name)[0] for name in ("run", "search", "plan", "export")
    }
    assert promised == {"run": True, "search": True, "plan": False, "export": False}


@pytest.mark.parametrize("command", ["run", "profile", "bench"])
def test_a_results_folder_that_can_not_be_written_is_said_first(command: str, folder: Path) -> None:
    (folder / "taken").write_text("")
    asked = (command, "--board", "uno", "--model", "tiny.onnx", "--inputs", "x.npz", "--results", "taken")
    done = hil(*asked, cwd=folder)
    check_failure(done, errors.EXIT_USAGE, "taken", "--results")
    assert "compiling" not in done.stderr


def test_data_for_accuracy_is_asked_for_first(tmp_path: Path) -> None:
    """Not after the minutes of the performance runs."""
    write_tiny_model(tmp_path / "kws.onnx", 490, 12)
    np.savez(tmp_path / "x.npz", x=np.ones((2, 1, 490), np.float32))
    asked = ("mlperf", "--board", "nucleo_l4r5", "--model", "kws.onnx", "--calibrate", "x.npz")
    done = hil(*asked, cwd=tmp_path, HIL_DATA=str(tmp_path))
    check_failure(done, errors.EXIT_USAGE, "kws01", "--mode performance")
    assert "compiling" not in done.stderr


def test_no_option_takes_what_is_no_number() -> None:
    found = 0
    for command in (command for group in GROUPS.values() for command in group):
        for option in command.params:
            if isinstance(option.type, click.FloatRange):
                found += 1
                assert isinstance(option.type, Finite), (command.name, option.name)
    assert found > 10
    for text in ("nan", "inf", "-inf"):
        with pytest.raises(click.BadParameter, match=r"no finite number|not in the range"):
            Finite(0, 1000).convert(text, None, None)


def test_the_limit_that_was_asked_for_is_the_one_to_raise(folder: Path) -> None:
    for asked in (("run", "--inputs", "x.npz"), ("plan",)):
        done = hil(*asked, "--model", "tiny.onnx", "--board", "due", "--ram", "10", cwd=folder)
        check_failure(done, errors.EXIT_BUILD, "10 B of --ram", "use a lower width or --ram 72", logs=True)


def test_offline_is_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIL_OFFLINE", "1")
    assert attempt("https://nowhere.invalid/x", lambda: pytest.fail("asked for it")) == "HIL_OFFLINE is set"


def test_a_plot_that_can_not_be_drawn_is_refused_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert find_spec("matplotlib") is None
    with pytest.raises(errors.ConfigError, match="matplotlib"):
        SearchRequest("digits_mlp", 100, plot=Path("front")).check()


def test_names_in_a_line_are_short() -> None:
    joined = ";".join(["model/activation/Relu", *["model/batch_normalization"] * 9, "model/conv2d/Conv2D"])
    assert len(in_short(joined)) <= LONGEST_NAME
    assert in_short(joined).startswith("model/activation/Relu")
    assert in_short("conv1") == "conv1"


@pytest.mark.parametrize(
    ("page", "asked", "off"),
    [
        ("energy.md", "hil energy --model digits_cnn --format fixed8", 0.0),
        ("cli.md", "hil profile --board uno --model fastgrnn_har --samples 3", 0.02),
    ],
)
def test_tables_that_pages_show_are_what_is_printed(page: str, asked: str, off: float, tmp_path: Path) -> None:
    """Words as they are, numbers `off` by such a share: which windows of a data set are at hand moves cycles."""
    text = (ROOT / "docs" / page).read_text().split(asked)[1]
    sample = next(block for block in text.split("```") if block.startswith("\noperation"))
    done = hil(*asked.split()[1:], cwd=tmp_path, HIL_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    printed = [re.sub("[│┃]", " ", line).split() for line in done.stdout.splitlines()]
    for line in sample.splitlines()[2:]:
        words = line.split()
        if words == ["…"]:
            continue
        assert any(map(partial(_says_the_same, words, off), printed)), line


def _says_the_same(shown: list[str], off: float, printed: list[str]) -> bool:
    if "…" in shown:
        return printed[:1] == shown[:1]
    return len(shown) == len(printed) and all(map(partial(_about_the_same, off), shown, printed))


def _about_the_same(off: float, shown: str, printed: str) -> bool:
    numbers = [text.strip("+(;").replace(",", "") for text in (shown, printed)]
    try:
        a, b = map(float, numbers)
    except ValueError:
        return shown == printed
    return abs(a - b) <= off * max(abs(a), abs(b)) + (0.1 if off else 0.0)


def test_the_limit_of_the_tutorial_leaves_a_choice() -> None:
    """Between what both formats take on the board, as the page says."""
    page = (ROOT / "docs" / "tutorials" / "h747.md").read_text()
    limit_us = float(page.split("--latency-us ")[1].split()[0])
    times_us = []
    for name in ("fixed8", "fixed16"):
        record = json.loads((ROOT / f"results/golden/h747/lenet5_mnist-{name}.json").read_text())
        times_us.append(record["latency"]["median"] / record["latency"]["clock_hz"] * 1e6)
        assert f"{times_us[-1] / 1000:.2f} ms" in page
    assert times_us[0] < limit_us < times_us[1]


def test_setup_brings_what_the_first_commands_of_the_read_me_need() -> None:
    """`hil report` and pictures: their extras are in the line that `make setup` runs."""
    first = (ROOT / "README.md").read_text().split("```")[1]
    assert "make setup" in first
    assert "hil report" in first
    (extra,) = EXTRA.split("[")[1].split("]")[:1]
    base = (ROOT / "Makefile").read_text().split("$(VENV)/.base:")[1].split("touch")[0]
    assert extra in base.split("'.[")[1].split("]")[0].split(",")


@pytest.mark.parametrize("megabytes", [150, 200, 250, 400])
def test_little_address_space_is_no_failed_gate(megabytes: int, tmp_path: Path) -> None:
    """OpenBLAS ends the process with 1, whoever called it."""
    command = f"ulimit -v {megabytes << 10}; exec {sys.executable} -m tinyhil.harness.cli inspect digits_mlp"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (errors.EXIT_OK, errors.EXIT_USAGE), done.stderr
    assert done.returncode == errors.EXIT_OK or re.fullmatch(r"hil: .*\n", done.stderr), done.stderr
    assert megabytes < 400 or done.returncode == errors.EXIT_OK
