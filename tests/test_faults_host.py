"""The host fails: killed anywhere, disks full, two processes after one board. Nothing is lost, nothing left behind."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards_under_test import EVERY
from hil_command import check_failure, command, finished_samples, hil, record_of, start_hil, wait_until
from lasting import assert_same
from wire_bench import make_bench, powered, write_tiny_model

SAMPLES = 60


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seeded walks of the shape fastgrnn_har takes, and a tiny model."""
    folder = tmp_path_factory.mktemp("host-faults")
    steps = np.random.default_rng(3).normal(0, 0.3, (SAMPLES, 128, 9))
    np.savez(folder / "walks.npz", x=(np.cumsum(steps, axis=1) / 5).astype(np.float32))
    write_tiny_model(folder / "tiny.onnx")
    np.savez(folder / "x.npz", x=np.random.default_rng(1).uniform(-1, 1, (400, 1, 32)).astype(np.float32))
    return folder


def har(files: Path, board: str, *more: object) -> list[object]:
    line = ["run", "--board", board, "--model", "fastgrnn_har", "--inputs", files / "walks.npz", "--json"]
    return [*line, *more]


def tiny(files: Path, board: str, *more: object) -> list[object]:
    inputs = ["--inputs", files / "x.npz", "--calibrate", files / "x.npz"]
    return ["run", "--board", board, "--model", files / "tiny.onnx", *inputs, "--json", *more]


# ---- two processes after one board ----


def test_a_second_process_is_told_who_has_the_board_and_the_first_is_not_disturbed(files: Path, tmp_path: Path) -> None:
    x = np.load(files / "walks.npz")["x"]
    with powered(make_bench("uno", "fastgrnn_har", x), tmp_path, realtime=True) as device:
        arguments = har(files, "uno", "--port", device.port, "--no-flash")
        first = start_hil(*arguments, "--samples", 24, cwd=tmp_path)  # half a second each
        wait_until(lambda: finished_samples(tmp_path / "results") > 0)
        third = start_hil(*arguments, "--samples", 1, "--results", "third", "--wait", 60, cwd=tmp_path)
        second = hil(*arguments, "--samples", 14, "--results", "other", "--wait", 0, cwd=tmp_path)
        check_failure(second, 3, "in use by", f"process {first.pid}", "--wait", logs=True)
        out, err = first.communicate()
        waited_out, waited_err = third.communicate()
    assert first.returncode == 0, err
    assert json.loads(out)["equal_samples"] == 24
    assert (third.returncode, json.loads(waited_out)["equal_samples"]) == (0, 1)
    assert "waiting up to" in waited_err


# ---- kill -9 ----


def leftovers(folder: Path) -> list[str]:
    """Command lines of processes that still mention `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in text and "pytest" not in text:
            found.append(text)
    return found


def kill_until_done(arguments: list[object], folder: Path, delays_s: list[float], **environment: str) -> dict[str, Any]:
    """Start `hil`, kill it after each delay, then let it finish. Finished samples never become fewer."""
    import os

    finished, before = False, 0
    for delay_s in delays_s:
        running = subprocess.Popen(
            command(*arguments),
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay_s)
        finished = running.poll() is not None
        running.kill()
        running.wait()
        if finished:
            break
        now = finished_samples(folder / "results")
        assert now >= before
        before = now
    last = hil(*arguments, cwd=folder, **environment)
    return record_of(last)


def check_killed(
    arguments: list[object], whole: dict[str, Any], folder: Path, delays_s: list[float], **env: str
) -> None:
    record = kill_until_done(arguments, folder, delays_s, **env)
    assert_same(record, whole)
    assert finished_samples(folder / "results") == 0
    for path in (folder / "results").rglob("*.json"):
        json.loads(path.read_text())
    assert not list((folder / "results").rglob("*.tmp"))
    wait_until(lambda: not leftovers(folder))


def test_killed_three_times(files: Path, tmp_path: Path) -> None:
    whole = record_of(hil(*har(files, "due", "--results", "whole"), cwd=tmp_path))
    seconds = sum(whole["wall_seconds"].values())
    check_killed(har(files, "due"), whole, tmp_path, [0.2 * seconds, 1.0 * seconds, 1.4 * seconds])


@pytest.mark.slow
@pytest.mark.parametrize("board", EVERY)
def test_killed_anywhere_from_the_first_compilation_on(board: str, files: Path, tmp_path: Path) -> None:
    """An empty cache: the kills also hit builds, in whatever state they are."""
    source = random.Random(board)
    whole = record_of(hil(*tiny(files, board, "--results", "whole"), cwd=tmp_path))
    cache = tmp_path / "cache"
    delays = [source.uniform(0.3, 4.0) for _ in range(12)]
    check_killed(tiny(files, board), whole, tmp_path, delays, HIL_CACHE=str(cache))


# ---- disks that are full ----


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """20 KiB of memory as a file system; only root may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a tmpfs is not permitted here; test_cli.py limits the size of files instead")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_fills_up_while_recording(files: Path, small_disk: Path, tmp_path: Path) -> None:
    """400 samples need more: the run ends at once; when there is room again it goes on from there."""
    arguments = tiny(files, "host", "--results", small_disk / "results")
    assert hil(*tiny(files, "host", "--results", "elsewhere"), cwd=tmp_path).returncode == 0
    done = hil(*arguments, cwd=tmp_path)
    check_failure(done, 2, "No space left on device", "--results", logs=True)
    before = finished_samples(small_disk / "results")
    assert 0 < before < 400
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    again = hil(*arguments, cwd=tmp_path)
    assert record_of(again)["equal_samples"] == 400
    assert "resuming, " in again.stderr
    resumed = int(again.stderr.split("resuming, ")[1].split()[0])
    assert before - 1 <= resumed <= before + 1  # the last line may be torn, or whole but for its end


@pytest.mark.parametrize("kilobytes", [20, 650], ids=["sources", "program"])
def test_a_cache_that_fills_up_while_building(kilobytes: int, files: Path, small_disk: Path, tmp_path: Path) -> None:
    """While sources are written, or by the linker, whose own words are lost with the log."""
    cache = str(small_disk / "cache")
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", small_disk], check=True)
    done = hil(*tiny(files, "host"), cwd=tmp_path, HIL_CACHE=cache)
    check_failure(done, 4, f"{cache}", "No space left on device; make room", "HIL_CACHE", logs=True)
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert record_of(hil(*tiny(files, "host"), cwd=tmp_path, HIL_CACHE=cache))["bit_exact"] is True
