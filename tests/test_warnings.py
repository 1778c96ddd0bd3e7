"""Models compile without a warning for the ARM boards: whoever reads "undefined behavior" in a build trusts nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hil_command import hil

from tinyhil.harness.build.platformio import defines
from tinyhil.harness.config import load_boards

COMPILER = shutil.which("arm-none-eabi-g++")


@pytest.mark.skipif(COMPILER is None, reason="needs arm-none-eabi-g++ (make setup)")
@pytest.mark.parametrize(("model", "fmt"), [("digits_mlp", "int8"), ("bonsai_usps2", "fixed8pc")])
def test_no_warning(model: str, fmt: str, tmp_path: Path) -> None:
    assert hil("generate", model, "--format", fmt, "--out", "project", cwd=tmp_path).returncode == 0
    for name, board in load_boards().entries.items():
        if board.chip.compiler != "arm-none-eabi-gcc":
            continue
        names = [f"-D{one}" for one in defines(board)]
        flags = (*board.chip.machine.split(), "-O2", "-std=gnu++14", "-Wall", "-Wextra", *names)
        command = [str(COMPILER), *flags, "-I.", "-c", "model/model.cpp", "-o", f"{name}.o"]
        done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
