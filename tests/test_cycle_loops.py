"""`hil calibrate-cycles`: loops on a board beside the model of its cycles."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.export_bench import ROOT
from tests.hil_command import hil
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.measure.cycle_loops import LOOPS, Calibration, LoopCycles, loops_image
from tinyhil.harness.settings.config import load_boards

ARMSIM = ROOT / "emulators" / "cortexm" / "build" / "armsim"


def test_a_due_on_a_port_is_compared_with_the_model(tmp_path: Path) -> None:
    """The emulator plays the board: both columns are the same, and what the TRM says where flash is not waited for."""
    image = loops_image(load_boards().board("due"), default_cache_dir(), print)
    port = tmp_path / "port"
    command = [ARMSIM, "--chip", "sam3x8e", "--image", image.load_path, "--link", port]
    board = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert board.stdout is not None
        assert json.loads(board.stdout.readline())["event"] == "ready"
        done = hil("calibrate-cycles", "--board", "due", "--port", port, cwd=tmp_path)
    finally:
        board.communicate()
    assert done.returncode == 0, done.stderr
    _, *rows, line = done.stdout.splitlines()
    assert [row[:10].strip() for row in rows] == list(LOOPS)
    assert all("+0.0 %" in row for row in rows)
    assert line.startswith(
        f"calibrate-cycles due measured 84000000 {image.hash.hex()} aligned=7.0"
    )  # 5, 2 for a branch
    turns = {word.split("=")[0]: float(word.split("=")[1]) for word in line.split()[5:]}
    assert turns["straight"] > 32 + 3  # each line of four is waited for
    assert turns["products"] == pytest.approx(4 * (2 + 2 + 2) + 3, abs=1)


def test_what_a_chip_took_is_what_the_line_says() -> None:
    loops = (LoopCycles("aligned", 7.0, 10.0), LoopCycles("in RAM", 7.0, 14.0))
    assert [one.difference for one in loops] == [pytest.approx(-0.3), -0.5]
    line = Calibration("due", 84_000_000, "00", loops).line
    assert line == "calibrate-cycles due measured 84000000 00 aligned=10.000 in-RAM=14.000"


@pytest.mark.parametrize("board", ["uno", "h747", "host", "qemu_m3"])
def test_boards_that_the_loops_are_not_for(board: str, tmp_path: Path) -> None:
    done = hil("calibrate-cycles", "--board", board, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "loops are for modelled boards" in done.stderr
