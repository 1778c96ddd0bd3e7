"""Programs that we start end when we do, with all that they have started themselves; nothing starts them otherwise."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sources import nodes, python_files

from tinyhil.processes import Started, run

ROOT = Path(__file__).resolve().parent.parent
HANG_S = 120.0  # only what never ends reaches it
MARK = "HIL_TEST_MARK"
STARTERS = {"Popen", "run", "call", "check_call", "check_output", "system", "spawnv", "fork", "popen"}

ALONE = """
import sys
from tinyhil.processes import Started, run
program = ["sh", "-c", "sleep 1000 & sleep 1000 & echo there; wait"]
if sys.argv[1] == "run":
    run(program, None, stdout=None)
else:
    import threading
    started = []
    threading.Thread(target=lambda: started.append(Started(program))).start()
    sys.stdin.read()
"""


def marked(mark: str) -> list[int]:
    """Living processes that were started under `mark`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def wait_for(what: str, done: Callable[[], bool]) -> None:
    begin = time.monotonic()
    while not done():
        assert time.monotonic() - begin < HANG_S, what
        time.sleep(0.05)


def begin(mark: str, *command: str, cwd: Path = ROOT, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), MARK: mark, **environment},
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("how", ["run", "start in a thread that ends"])
def test_nothing_outlives_who_started_it(how: str, number: signal.Signals, tmp_path: Path) -> None:
    process = begin(str(tmp_path), sys.executable, "-c", ALONE, how)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    assert len(marked(str(tmp_path))) >= 4
    process.send_signal(number)
    process.communicate()
    wait_for("all of them end", lambda: not marked(str(tmp_path)))


@pytest.mark.parametrize(
    ("boards", "program"),
    [
        (("host",), "cc1plus"),
        (("uno", "due"), "avr-|unosim"),
        (("due", "host"), "armsim"),
    ],
)
def test_kill_9_of_a_run_leaves_no_process(boards: tuple[str, ...], program: str, tmp_path: Path) -> None:
    """`pio`, `scons`, compilers, emulators, runs of several boards."""
    command = [sys.executable, "-m", "tinyhil.harness.cli", "run", "--model", "fastgrnn_har"]
    command += [word for board in boards for word in ("--board", board)]
    process = begin(str(tmp_path), *command, cwd=tmp_path, HIL_CACHE=str(tmp_path / "cache"))

    def is_there() -> bool:
        assert process.poll() is None, process.communicate()[0]  # it ended without
        return any(re.search(program, words) for words in map(command_of, marked(str(tmp_path))))

    while not is_there():  # a run has an end, however busy the machine is
        time.sleep(0.05)
    process.kill()
    process.communicate()
    wait_for("all of them end", lambda: not marked(str(tmp_path)))


def test_after_a_time_out_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    with pytest.raises(subprocess.TimeoutExpired, match="'sh', '-c'"):
        run(["sh", "-c", "sleep 1000 & wait"], 0.2)
    wait_for("all of them end", lambda: not marked(str(tmp_path)))


def test_what_a_program_leaves_behind_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    assert run(["sh", "-c", "sleep 1000 >/dev/null 2>&1 & exit 3"], HANG_S).returncode == 3
    wait_for("all of them end", lambda: not marked(str(tmp_path)))


def test_a_program_is_given_and_gives_what_popen_would() -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; cat"], HANG_S)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 0)
    process = Started(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.communicate("in", timeout=HANG_S) == ("in", None)
    with pytest.raises(FileNotFoundError):
        run(["no-such-program"], 1)


def test_it_ends_gently_where_sigint_is_ignored() -> None:
    """As after `hil run &` in a script: SIGINT would say nothing."""
    program = "trap 'echo gently; exit 4' TERM; trap '' INT; echo there; while :; do sleep 0.01; done"
    process = Started(["sh", "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    assert process.end(HANG_S) == 4
    assert process.stdout.read() == "gently\n"
    process.stdout.close()


def test_no_descriptor_stays_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run(["true"], HANG_S)
        with pytest.raises(subprocess.TimeoutExpired):
            run(["sleep", "1000"], 0.01)
    assert len(os.listdir("/proc/self/fd")) == before


def started_elsewhere(path: Path) -> list[str]:
    """Calls that start a process without the one way to do it."""
    calls = (node.func for node in nodes(path) if isinstance(node, ast.Call))
    return [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for call in calls
        if isinstance(call, ast.Attribute)
        and isinstance(call.value, ast.Name)
        and call.value.id in ("subprocess", "os")
        and call.attr in STARTERS
    ]


def test_there_is_one_way_to_start_a_process() -> None:
    """But for our development tools."""
    files = [
        path
        for path in python_files("tinyhil", "memplan", "codegen", "search", "harness")
        if path.name not in ("processes.py", "docs.py")
    ]
    assert len(files) > 60
    assert [place for path in files for place in started_elsewhere(path)] == []
    assert started_elsewhere(Path(__file__).resolve()) != []
