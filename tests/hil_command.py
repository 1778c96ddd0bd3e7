"""The command `hil` as a process of its own: forked from a server that has imported it (see hil_server.py)."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import filelock

DEADLINE_S = 1200.0  # nothing is judged by it: it only keeps a hanging process from hanging the tests
OF_THE_RUN = "TESTS_OBJECTS"  # the folder of compiled_once.py, if it runs
SERVER = Path(__file__).with_name("hil_server.py")
READ_BY_THE_INTERPRETER = ("PYTHON", "LC_", "LANG")  # variables that act when it starts
Done = subprocess.CompletedProcess[str]


class Forked:
    """What tests use of `subprocess.Popen`, for `hil ARGUMENTS` in a child of the server."""

    def __init__(
        self,
        arguments: list[str],
        cwd: Path,
        env: dict[str, str],
        emulator: Path | None = None,
        file_bytes: int | None = None,
        program: str = "hil",
    ) -> None:
        self.args, self.returncode = arguments, None
        self._status = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._status.connect(server())
        asked = {"program": program, "arguments": arguments, "cwd": str(cwd), "environment": env}
        request = json.dumps({**asked, "file_bytes": file_bytes, "emulator": emulator and str(emulator)}).encode()
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        with open(os.devnull) as nothing:
            socket.send_fds(self._status, [request], [nothing.fileno(), out_end, err_end])
        os.close(out_end)
        os.close(err_end)
        self.stdout = io.TextIOWrapper(io.BufferedReader(io.FileIO(out)), "utf-8")
        self.stderr = io.TextIOWrapper(io.BufferedReader(io.FileIO(err)), "utf-8")
        self.pid = int(self._status.recv(64))

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal; subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = os.waitstatus_to_exitcode(int(self._status.recv(64)))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._status.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = DEADLINE_S) -> tuple[str, str]:
        """Standard output and errors to their ends; AssertionError if it hangs."""
        with ThreadPoolExecutor(2) as readers:
            read = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            hangs = bool(wait(read, timeout).not_done)
            if hangs:
                self.kill()
            out, err = (future.result() for future in read)
        assert not hangs, f"hil hangs: {err}"
        self.wait(timeout)
        self.stdout.close()
        self.stderr.close()
        return out, err


@functools.cache
def server() -> str:
    """The socket of the server of all workers of this run: it ends when the last of them closes the pipe it reads."""
    folder = Path(os.environ.get(OF_THE_RUN) or tempfile.mkdtemp(prefix="hil-server-"))
    if OF_THE_RUN not in os.environ:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path, alive = folder / "hil", folder / "hil.alive"
    with filelock.FileLock(folder / "hil.lock"):
        with contextlib.suppress(OSError):  # no pipe yet, or nobody who reads it any more
            os.open(alive, os.O_WRONLY | os.O_NONBLOCK)
            return str(path)
        path.unlink(missing_ok=True)
        alive.unlink(missing_ok=True)
        os.mkfifo(alive)
        reads = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
        writes = os.open(alive, os.O_WRONLY)
        process = subprocess.Popen([sys.executable, SERVER, path], stdin=reads, stdout=subprocess.PIPE)
        os.close(reads)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    atexit.register(process.wait)
    atexit.register(os.close, writes)
    return str(path)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tinyhil.harness.cli", *map(str, arguments)]


def hil(
    *arguments: object,
    cwd: Path,
    emulator: Path | None = None,
    file_bytes: int | None = None,
    **environment: str | None,
) -> Done:
    """Run to the end. A variable given as None is taken out of the environment. `emulator`: a program of the test's own
    that this one process may start, as no board file can ask for. `file_bytes`: the most it may write into a file."""
    env = {**os.environ, **environment}
    env = {name: value for name, value in env.items() if value is not None}
    if any(name.startswith(READ_BY_THE_INTERPRETER) for name in environment):
        assert emulator is file_bytes is None, "only the server's children know of it"
        return subprocess.run(command(*arguments), cwd=cwd, env=env, capture_output=True, text=True, check=False)
    process = Forked([str(argument) for argument in arguments], cwd, env, emulator, file_bytes)
    out, err = process.communicate()
    return Done(process.args, process.wait(), out, err)


def typed_lines(page: str) -> list[str]:
    """Every line of a page's blocks that calls hil or pytest, up to where its output goes to a file."""
    blocks = "".join(re.findall(r"^```\w*\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    return [line.split(" >> ")[0] for line in blocks.splitlines() if line.startswith(("hil ", "pytest "))]


def pytest_typed(words: list[str], cwd: Path) -> Done:
    """`pytest WORDS` as somebody types it, who knows nothing of the pytest that runs this."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", *words, "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment, check=False)


def forked_pytest(*arguments: object, cwd: Path) -> Done:
    """pytest as a project of a user's runs it, in a process that has imported pytest and `tinyhil`, and so can not
    rewrite their assertions."""
    words = [*map(str, arguments), "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    process = Forked(words, cwd, dict(os.environ), program="pytest")
    out, err = process.communicate()
    return Done(process.args, process.wait(), out, err)


def start_hil(*arguments: object, cwd: Path) -> Forked:
    return Forked([str(argument) for argument in arguments], cwd, dict(os.environ))


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


def wait_until(condition: Callable[[], bool], timeout_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def finished_samples(results: Path) -> int:
    """Lines in the files of unfinished runs."""
    return sum(path.read_bytes().count(b"\n") for path in results.glob("*/*.partial.jsonl"))
