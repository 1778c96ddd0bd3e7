"""Runs that end early: emulators and processes that die, interruption, and what resumes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import test_cli
import yaml
from boards_under_test import EMULATED, SPECS, by_compiler
from hil_command import (
    check_failure,
    finished_samples,
    hil,
    record_of,
    start_hil,
    wait_until,
)
from lasting import assert_same
from test_cli import GOOD, TINY_SAMPLES
from wire_bench import (
    ROOT,
)

from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.run import Outcome, run
from tinyhil.harness.settings.config import load_boards

files = test_cli.files  # a fixture


def long_run(files: Path, board: str, results: str = "results") -> list[object]:
    line = f"run --board {board} --model fastgrnn_har --inputs {files}/walks.npz --results {results} --json"
    return line.split()


@pytest.fixture(scope="session")
def walks(files: Path) -> Path:
    """Seeded walks of the shape fastgrnn_har takes."""
    steps = np.random.default_rng(3).normal(0, 0.3, (250, 128, 9))
    np.savez(files / "walks.npz", x=(np.cumsum(steps, axis=1) / 5).astype(np.float32))
    return files


def child_of(process: subprocess.Popen[str], program: str) -> int:
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if program in Path(f"/proc/{child}/cmdline").read_text():
                return int(child)
    raise AssertionError(f"no child {program}")


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [(signal.SIGSTOP, 6, "no progress for 2 s"), (signal.SIGKILL, 7, "ended with code -9")],
)
def test_an_emulator_that_stops_answering(
    how: signal.Signals, code: int, words: str, walks: Path, tmp_path: Path
) -> None:
    import os

    hil(*long_run(walks, "uno"), "--samples", 1, cwd=tmp_path)  # builds
    running = start_hil(*long_run(walks, "uno"), "--timeout", 2, cwd=tmp_path)
    wait_until(lambda: finished_samples(tmp_path / "results") > 3)
    emulator = child_of(running, "unosim")
    os.kill(emulator, how)
    out, err = running.communicate()
    assert not Path(f"/proc/{emulator}").exists()
    check_failure(subprocess.CompletedProcess([], running.returncode, out, err), code, words)
    assert finished_samples(tmp_path / "results") > 3


def wrapped_emulator(folder: Path, script: str) -> Path:
    """A board file whose Uno is `script`: a Python program that gets the emulator's arguments."""
    program = folder / "sabotaged"
    program.write_text(f"#!/usr/bin/env python3\nUNOSIM = {str(ROOT / 'emulators/uno/build/unosim')!r}\n{script}")
    program.chmod(0o755)
    boards = yaml.safe_load((ROOT / "boards.yaml").read_text())
    boards["chips"]["atmega328p"]["emulator"]["program"] = str(program)
    path = folder / "boards.yaml"
    text = yaml.safe_dump(boards)
    for name in boards["boards"].values():
        for usb in name.get("usb", ()):
            text = text.replace(f"- {usb}\n", f'- "{usb}"\n').replace(f"- '{usb}'", f'- "{usb}"')
    path.write_text(text)
    return path


# The second instruction of model::run() becomes 0x0001, which the chip does not know. HELLO is still right.
SABOTAGE = """
import os, subprocess, sys
at = sys.argv.index("--image") + 1
image = sys.argv[at]
elf = image[:-3] + "elf"
names = subprocess.run(["avr-nm", elf], capture_output=True, text=True).stdout.splitlines()
(address,) = (int(line.split()[0], 16) for line in names if line.split()[-1].startswith("_ZN5model3run"))
raw, broken = os.path.join(os.path.dirname(__file__), "raw"), os.path.join(os.path.dirname(__file__), "broken.hex")
subprocess.run(["avr-objcopy", "-I", "ihex", "-O", "binary", image, raw], check=True)
data = bytearray(open(raw, "rb").read())
data[address + 2 : address + 4] = bytes((1, 0))
open(raw, "wb").write(data)
subprocess.run(["avr-objcopy", "-I", "binary", "-O", "ihex", raw, broken], check=True)
sys.argv[at] = broken
os.execv(UNOSIM, [UNOSIM, *sys.argv[1:]])
"""


def test_a_firmware_that_crashes(files: Path, tmp_path: Path) -> None:
    board_file = wrapped_emulator(tmp_path, SABOTAGE)
    done = hil(
        *GOOD.replace("host", "uno").format(f=files).split(),
        *("--calibrate", files / "x.npz", "--boards-file", board_file, "--timeout", 20),
        cwd=tmp_path,
        emulator=tmp_path / "sabotaged",
    )
    check_failure(done, 7, "crashed", "invalid opcode", "pc 0x", logs=True)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys\nsys.exit('no such luck')", "no such luck"),
        ("print('hello')", "did not offer a port"),
    ],
)
def test_an_emulator_that_does_not_start(script: str, words: str, files: Path, tmp_path: Path) -> None:
    board_file = wrapped_emulator(tmp_path, script)
    arguments = GOOD.replace("host", "uno").format(f=files).split()
    done = hil(*arguments, "--boards-file", board_file, cwd=tmp_path, emulator=tmp_path / "sabotaged")
    check_failure(done, 3, words, logs=True)


# ---- interruption ----


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("board", by_compiler(EMULATED))
def test_interrupted_runs_resume(board: str, how: signal.Signals, walks: Path, tmp_path: Path) -> None:
    samples = ("--samples", 20 if SPECS[board].chip.core == "avr" else 120)
    whole = record_of(hil(*long_run(walks, board, "whole"), *samples, cwd=tmp_path))
    running = start_hil(*long_run(walks, board), *samples, cwd=tmp_path)
    wait_until(lambda: finished_samples(tmp_path / "results") >= 5)
    running.send_signal(how)
    out, err = running.communicate()
    assert out == ""
    if how == signal.SIGINT:
        check_failure(subprocess.CompletedProcess([], running.returncode, out, err), 130, "interrupted", "resumes")
    resumable = finished_samples(tmp_path / "results")
    assert 5 <= resumable < samples[1]
    again = hil(*long_run(walks, board), *samples, cwd=tmp_path)
    record = record_of(again)
    assert f"resuming, {resumable} of {samples[1]}" in again.stderr
    assert_same(record, whole)
    assert finished_samples(tmp_path / "results") == 0
    assert len(list((tmp_path / "results").rglob("*.json"))) == 1


def test_interrupted_before_the_command_is_read() -> None:
    """Ctrl-C in the first half second was a traceback."""
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tinyhil.harness.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from tinyhil.harness.start import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "hil: interrupted\n")


def test_interrupted_after_the_last_sample(files: Path, tmp_path: Path) -> None:
    """The stack's watermark is that of the session which ends the run, so one sample is computed again."""

    def run_tiny(progress: Callable[[int, int], None], results: str) -> Outcome:
        request = Request("uno", str(files / "tiny.onnx"), inputs=files / "x.npz", results=tmp_path / results)
        return run(request, load_boards(), default_cache_dir(), said.append, progress)

    def interrupt(finished: int, total: int) -> None:
        if finished == total:
            raise KeyboardInterrupt

    said: list[str] = []
    whole = run_tiny(lambda finished, total: None, "whole")
    with pytest.raises(KeyboardInterrupt):
        run_tiny(interrupt, "results")
    again = run_tiny(lambda finished, total: None, "results")
    assert said[-1] == f"uno: resuming, {TINY_SAMPLES} of {TINY_SAMPLES} samples are there already"
    assert (again.ticks == whole.ticks).all()
    assert again.stats.stack_bytes == pytest.approx(whole.stats.stack_bytes, abs=32)


def test_a_torn_partial_file_is_no_obstacle(walks: Path, tmp_path: Path) -> None:
    arguments = [*long_run(walks, "host"), "--samples", 200]
    running = start_hil(*arguments, cwd=tmp_path)
    wait_until(lambda: finished_samples(tmp_path / "results") >= 3)
    running.kill()
    running.communicate()
    (partial,) = (tmp_path / "results").rglob("*.partial.jsonl")
    good = partial.read_bytes()
    resumable = good.count(b"\n")
    partial.write_bytes(good + b'{"sample": 150, "output": "00')
    again = hil(*arguments, cwd=tmp_path)
    assert f"resuming, {resumable} of 200" in again.stderr
    assert record_of(again)["bit_exact"] is True


def test_equal_runs_at_the_same_time_do_not_meet(walks: Path, tmp_path: Path) -> None:
    arguments = [*long_run(walks, "due"), "--samples", 15]
    alone = record_of(hil(*arguments, cwd=tmp_path))
    running = [start_hil(*arguments, cwd=tmp_path) for _ in range(3)]
    for process in running:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert "resuming" not in err
        assert_same(json.loads(out), alone)
    assert len(list((tmp_path / "results" / "due").rglob("*.json"))) == 4
    assert finished_samples(tmp_path / "results") == 0
