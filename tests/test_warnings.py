"""Models compile without a warning for the ARM boards: whoever reads "undefined behavior" in a build trusts nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from hil_command import hil

from tinyhil.harness.build.platformio import defines
from tinyhil.harness.settings.config import load_boards

COMPILER = shutil.which("arm-none-eabi-g++")


@pytest.mark.skipif(COMPILER is None, reason="needs arm-none-eabi-g++ (make setup)")
@pytest.mark.parametrize(
    ("model", "fmt", "others"),
    [
        ("digits_mlp", "int8", {}),
        ("bonsai_usps2", "fixed8pc", {}),
        # widths as searches try them
        ("lenet5_mnist", "fixed8", {"conv2_w": "fixed16", "conv2_b": "fixed16", "conv1_b": "fixed4"}),
    ],
)
def test_no_warning(model: str, fmt: str, others: dict[str, str], tmp_path: Path) -> None:
    text = yaml.safe_dump({"default": fmt, "values": others})
    (tmp_path / "widths.yaml").write_text(text)
    options = ("--assignment", "widths.yaml", "--prefer", "ram", "--out", "project")
    assert hil("generate", model, *options, cwd=tmp_path).returncode == 0
    boards = {b.chip.machine: b for b in load_boards().entries.values() if b.chip.compiler == "arm-none-eabi-gcc"}
    for board in boards.values():
        names = [f"-D{one}" for one in defines(board)]
        flags = (*board.chip.machine.split(), "-O2", "-std=gnu++14", "-Wall", "-Wextra", *names)
        command = [str(COMPILER), *flags, "-I.", "-c", "model/model.cpp", "-o", f"{board.name}.o"]
        done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
