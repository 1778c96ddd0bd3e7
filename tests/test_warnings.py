"""Models compile without a warning for the ARM boards: whoever reads "undefined behavior" in a build trusts nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hil_command import hil

ROOT = Path(__file__).resolve().parent.parent
BOARDS = ROOT / "firmware" / "platform" / "boards"
COMPILER = shutil.which("arm-none-eabi-g++")


@pytest.mark.skipif(COMPILER is None, reason="needs arm-none-eabi-g++ (make setup)")
@pytest.mark.parametrize(("model", "fmt"), [("digits_mlp", "int8"), ("bonsai_usps2", "fixed8pc")])
def test_no_warning(model: str, fmt: str, tmp_path: Path) -> None:
    assert hil("generate", model, "--format", fmt, "--out", "project", cwd=tmp_path).returncode == 0
    for name in ("due", "h747"):
        build = json.loads((BOARDS / f"{name}.json").read_text())["build"]
        names = (f"-DHIL_BOARD_{name.upper()}", f"-DHIL_CHIP_{build['chip'].upper()}")
        flags = (*build["machine"].split(), build["optimize"], "-std=gnu++14", "-Wall", "-Wextra", *names)
        command = [str(COMPILER), *flags, "-I.", "-c", "model/model.cpp", "-o", f"{name}.o"]
        done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
