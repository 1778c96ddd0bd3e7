"""The command `hil` as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEADLINE_S = 60.0
Done = subprocess.CompletedProcess[str]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tinyhil.harness.cli", *map(str, arguments)]


def hil(*arguments: object, cwd: Path, timeout_s: float = DEADLINE_S, **environment: str | None) -> Done:
    """Run to the end. A variable given as None is taken out of the environment."""
    env = {**os.environ, **environment}
    env = {name: value for name, value in env.items() if value is not None}
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def start_hil(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check_failure(done: Done, code: int, *words: str, logs: bool = False) -> None:
    """The exit code, and one line on stderr that holds `words`; `logs`: other lines may come before it."""
    lines = done.stderr.splitlines()
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert [line for line in lines if line.startswith("hil: ")] == lines[-1:], done.stderr
    assert logs or len(lines) == 1, done.stderr
    assert len(lines[-1]) < 700
    for word in words:
        assert word in lines[-1], done.stderr


def record_of(done: Done, code: int = 0) -> dict[str, Any]:
    """The record that `--json` printed, alone, on stdout."""
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def finished_samples(results: Path) -> int:
    """Lines in the files of unfinished runs."""
    return sum(path.read_bytes().count(b"\n") for path in results.glob("*/*.partial.jsonl"))
