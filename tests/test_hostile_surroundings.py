"""A reader that goes away, a locale without letters: no command minds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_a_reader_that_has_gone_is_no_failure(tmp_path: Path) -> None:
    command = f"{sys.executable} -m tinyhil.harness.cli run --board host --model digits_mlp --samples 3 --json | true"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [("formats",), ("boards", "--fidelity"), ("run", "--model", "digits_mlp", "--board", "host", "--samples", "2")],
)
def test_an_ascii_locale(command: tuple[str, ...], tmp_path: Path) -> None:
    plain = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tinyhil.harness.cli", *command],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, **plain},
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
