"""A second opinion on the Pico: rp2040js, made by others, executes the very image, from the second stage on."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hil_command import hil, record_of
from wire_bench import ROOT

from tests.given_data import the_zoo

FOLDER = ROOT / "emulators" / "rp2040js"
PROGRAM = FOLDER / "picojs.js"
INSTALL = "npm ci --prefix emulators/rp2040js"
DOES_NOT_FIT = 4


def missing() -> str:
    """Why rp2040js can not run here; empty if it can."""
    if shutil.which("node") is None:
        return "no node"
    return "" if (FOLDER / "node_modules" / "rp2040js").is_dir() else f"no rp2040js: {INSTALL}"


needs_rp2040js = pytest.mark.skipif(bool(missing()), reason=missing())


def check_agreement(folder: Path, *arguments: object) -> None:
    """Skipped if the model does not fit a Pico."""
    command = ("run", "--board", "pico", "--json", *arguments)
    first = hil(*command, cwd=folder)
    if first.returncode == DOES_NOT_FIT:
        pytest.skip("does not fit a Pico")
    armsim: dict[str, Any] = record_of(first)
    rp2040js: dict[str, Any] = record_of(hil(*command, "--emulator", "rp2040js", cwd=folder))
    assert (rp2040js["emulator"]["name"], armsim["emulator"]["name"]) == ("picojs.js", "armsim")
    assert rp2040js["provenance"]["image_hash"] == armsim["provenance"]["image_hash"]
    assert rp2040js["bit_exact"] is armsim["bit_exact"] is True
    assert rp2040js["samples"] == armsim["samples"] > 0
    for what in ("outputs", "saturations"):
        assert rp2040js["raw"][what] == armsim["raw"][what]


@needs_rp2040js
@pytest.mark.parametrize(
    ("format_", "samples"),
    [("fixed8", 2), *(pytest.param(f, 4, marks=pytest.mark.slow) for f in ("fixed16", "float32"))],
)
def test_outputs_are_equal(format_: str, samples: int, tmp_path: Path) -> None:
    check_agreement(tmp_path, "--model", "fastgrnn_har", "--format", format_, "--samples", samples)


@needs_rp2040js
@pytest.mark.slow
@pytest.mark.parametrize("model", ["digits_mlp", "digits_cnn"])
def test_every_sample_of_a_test_part(model: str, tmp_path: Path) -> None:
    check_agreement(tmp_path, "--model", model, "--format", "int8")


@needs_rp2040js
@pytest.mark.slow
@pytest.mark.parametrize("format_", ["fixed8", "int8"])
@pytest.mark.parametrize("model", the_zoo())
def test_the_zoo(model: str, format_: str, tmp_path: Path) -> None:
    check_agreement(tmp_path, "--model", model, "--format", format_, "--samples", 1)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
@pytest.mark.parametrize(
    ("content", "arguments", "says"),
    [
        (b"", [], "no --image; usage: picojs.js --image FILE.uf2"),
        (b"", ["--image", "x.uf2"], "no whole blocks of UF2"),
        (bytes(512), ["--image", "x.uf2"], "block 0 is damaged"),
        (b"", ["--image", "other.uf2"], "cannot read other.uf2: ENOENT"),
        (b"", ["--image", "x.uf2", "--uart", "loud"], "--uart is lifted or true, not loud"),
        (b"", ["--baud", "9600"], "unknown argument: --baud"),
    ],
)
def test_bad_arguments(content: bytes, arguments: list[str], says: str, tmp_path: Path) -> None:
    if missing().startswith("no rp2040js") and "--image" in arguments:
        says = "is not installed" if "--uart" not in arguments else says
    (tmp_path / "x.uf2").write_bytes(content)
    done = subprocess.run(["node", PROGRAM, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, says in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
