"""A board that freezes in the middle of a run: reported after the deadline, counting what earlier sessions brought."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from hil_command import check_failure, finished_samples, start_hil, wait_until

DEADLINE_S = 2.0
SAMPLES = 100


def emulator_of(process: subprocess.Popen[str]) -> int:
    """Process id of the emulator that `hil` has started."""
    found: list[int] = []

    def look() -> bool:
        assert process.poll() is None, process.communicate()
        listed = subprocess.run(["pgrep", "-P", str(process.pid), "sim"], capture_output=True, text=True, check=False)
        found.extend(int(word) for word in listed.stdout.split())
        return bool(found)

    wait_until(look)
    return found[0]


def freeze_in_the_middle(folder: Path, mode: str) -> int:
    """Run, stop the emulator when more samples are there; samples that the failure counts."""
    before = finished_samples(folder / "results")
    options = ("--samples", SAMPLES, "--timeout", DEADLINE_S, "--mode", mode)
    process = start_hil("run", "--board", "due", "--model", "fastgrnn_har", *options, cwd=folder)
    emulator = emulator_of(process)
    wait_until(lambda: finished_samples(folder / "results") > before + 3)
    os.kill(emulator, signal.SIGSTOP)
    out, err = process.communicate()
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    check_failure(done, 6, "no progress for 2 s", "finished samples are kept", logs=True)
    count, total = re.search(r"at sample (\d+) of (\d+)", err).groups()
    assert int(total) == SAMPLES
    return int(count)


@pytest.mark.parametrize("mode", ["quiet", pytest.param("stream", marks=pytest.mark.slow)])
def test_a_frozen_board_is_given_up_and_the_count_is_the_run_s(mode: str, tmp_path: Path) -> None:
    count = freeze_in_the_middle(tmp_path, mode)
    assert count == finished_samples(tmp_path / "results") > 3
    if mode == "stream":
        return
    more = freeze_in_the_middle(tmp_path, mode)
    assert more == finished_samples(tmp_path / "results") > count
