"""A second opinion on the Uno: avr8js executes the same images and counts the same cycles as emulators/uno."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from given_data import the_zoo
from hil_command import hil, record_of
from wire_bench import ROOT

FOLDER = ROOT / "emulators" / "avr8js"
PROGRAM = FOLDER / "unojs.js"
INSTALL = "npm ci --prefix emulators/avr8js"
DOES_NOT_FIT = 4


def missing() -> str:
    """Why avr8js can not run here; empty if it can."""
    if shutil.which("node") is None:
        return "no node"
    return "" if (FOLDER / "node_modules" / "avr8js").is_dir() else f"no avr8js: {INSTALL}"


needs_avr8js = pytest.mark.skipif(bool(missing()), reason=missing())


def both_opinions(folder: Path, *arguments: object) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The records of avr8js and of emulators/uno for the same run; None if the model does not fit the Uno."""
    command = ("run", "--board", "uno", "--json", *arguments)
    first = hil(*command, cwd=folder)
    if first.returncode == DOES_NOT_FIT:
        return None
    second = hil(*command, "--emulator", "avr8js", cwd=folder)
    return record_of(second), record_of(first)


def check_agreement(avr8js: dict[str, Any], unosim: dict[str, Any]) -> None:
    assert avr8js["emulator"]["name"] == "unojs.js"
    assert unosim["emulator"]["name"] == "unosim"
    assert avr8js["provenance"]["image_hash"] == unosim["provenance"]["image_hash"]
    assert avr8js["bit_exact"] is unosim["bit_exact"] is True
    assert len(avr8js["raw"]["ticks"]) == avr8js["samples"] > 0
    assert avr8js["raw"]["ticks"] == unosim["raw"]["ticks"]


@needs_avr8js
@pytest.mark.parametrize(
    ("format_", "samples"),
    [
        ("fixed8", 2),
        ("fixed16", 1),
        pytest.param("fixed16", 20, marks=pytest.mark.slow),
        pytest.param("float32", 1, marks=pytest.mark.slow),
        pytest.param("posit8es1", 1, marks=pytest.mark.slow),
    ],
)
def test_cycle_for_cycle(format_: str, samples: int, tmp_path: Path) -> None:
    found = both_opinions(tmp_path, "--model", "fastgrnn_har", "--format", format_, "--samples", samples)
    assert found is not None
    check_agreement(*found)


@needs_avr8js
@pytest.mark.slow
@pytest.mark.parametrize("format_", ["fixed8", "fixed16"])
@pytest.mark.parametrize("model", the_zoo())
def test_the_zoo(model: str, format_: str, tmp_path: Path) -> None:
    found = both_opinions(tmp_path, "--model", model, "--format", format_, "--samples", 1)
    if found is None:
        pytest.skip(f"{model} does not fit the Uno")
    check_agreement(*found)


@needs_avr8js
def test_the_true_wire(tmp_path: Path) -> None:
    """Bytes that take their time change nothing of what is timed: the wire is idle then."""
    arguments = ("run", "--board", "uno", "--model", "fastgrnn_har", "--samples", 1, "--json", "--emulator", "avr8js")
    lifted, true = (record_of(hil(*arguments, "--uart", uart, cwd=tmp_path)) for uart in ("lifted", "true"))
    assert true["bit_exact"] is True
    assert true["raw"]["ticks"] == lifted["raw"]["ticks"]
    assert true["link"]["rx_overruns"] == true["link"]["damaged_frames"] == 0


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The program in a folder without its packages."""
    shutil.copy(FOLDER / "board.js", tmp_path)
    return Path(shutil.copy(PROGRAM, tmp_path / "unojs.js"))


needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node")
GOOD_HEX = ":0400000001020304F2\n:00000001FF\n"


@needs_node
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no --image"),
        (["--image"], "no value for --image"),
        (["--speed", "9"], "unknown argument: --speed"),
        (["--image", "x", "--uart", "fast"], "--uart is lifted or true"),
        (["--image", "good.hex"], f"avr8js is not installed; type: {INSTALL.split(' --')[0]}"),
    ],
)
def test_bad_arguments_are_one_line(arguments: list[str], message: str, copy: Path, tmp_path: Path) -> None:
    (tmp_path / "good.hex").write_text(GOOD_HEX)
    done = subprocess.run([copy, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


@needs_avr8js
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read"),
        ("", "damaged"),
        (GOOD_HEX.replace("F2", "F3"), ":1: damaged"),
        (GOOD_HEX.replace(":00000001FF\n", ""), "no end record"),
        (":048000000102030472\n:00000001FF\n", ":1: not for this chip"),
    ],
)
def test_bad_images_are_one_line(text: str | None, message: str, tmp_path: Path) -> None:
    image = tmp_path / "image.hex"
    if text is not None:
        image.write_text(text)
    done = subprocess.run([PROGRAM, "--image", image], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr


def test_the_version_is_pinned() -> None:
    package = json.loads((FOLDER / "package.json").read_text())
    lock = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    version = package["dependencies"]["avr8js"]
    assert version[0].isdigit()  # no range
    assert lock["node_modules/avr8js"]["version"] == version
    assert lock["node_modules/avr8js"]["integrity"].startswith("sha512-")
    assert lock[""]["dependencies"] == package["dependencies"]
