"""The one way to start a program: in a process group of its own that ends when we do, killed or not.

A group, because a driver such as `g++` or `pio` leaves those behind that it has started. A session of its own, because
Ctrl-C in a terminal is for us: we end programs in order. SIGTERM ends them gently; a shell that starts us in the
background has us and them ignore SIGINT.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# A pipe from us is held open by us alone. Its end is the end of the group: of the program, then of this watch.
WATCHED = '(read _ <"/dev/fd/$0"; kill -KILL 0) >/dev/null 2>&1 & exec "$@"'
MOST_TRIED_S = 60  # a copy of this process that hangs ends by itself
HAS_GROUPS = hasattr(os, "killpg")  # not on Windows: there a program may outlive us if we are killed


class Started(subprocess.Popen[Any]):
    """A running program, with the options of `subprocess.Popen`. OSError if it is not there or can not be executed."""

    def __init__(self, command: Sequence[str | Path], **options: Any) -> None:
        words = [str(word) for word in command]
        path = (options.get("env") or os.environ).get("PATH")
        if shutil.which(words[0], path=path) is None:
            raise FileNotFoundError(2, "not found, or not executable", words[0])
        self._lifeline = -1
        if not HAS_GROUPS:
            super().__init__(words, **options)
            return
        watched, self._lifeline = os.pipe()
        shell = ["/bin/sh", "-c", WATCHED, str(watched), *words]
        try:
            super().__init__(shell, start_new_session=True, pass_fds=(watched,), **options)
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(watched)
        self.args = words

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; what the program has left behind is ended with it."""
        code = super().wait(timeout)
        self._release()
        return code

    def end(self, grace_s: float = 0.0) -> int:
        """Ask the program to end (SIGTERM) if there is time, then end its group; the exit code."""
        if self._lifeline < 0 and self.returncode is not None:
            return int(self.returncode)
        if grace_s and self.poll() is None:
            self.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                return self.wait(grace_s)
        with suppress(ProcessLookupError):
            if HAS_GROUPS:
                os.killpg(self.pid, signal.SIGKILL)  # no other's: the watch keeps the group's number until the release
            else:
                self.kill()
        return self.wait()

    def _release(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)


def run(command: Sequence[str | Path], timeout_s: float | None, **options: Any) -> subprocess.CompletedProcess[str]:
    """What a program prints and its exit code. `subprocess.TimeoutExpired` after `timeout_s` ends its group."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = Started(command, **{**pipes, "text": True, "errors": "replace", **options})
    try:
        printed, complained = process.communicate(timeout=timeout_s)
    finally:
        process.end()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    return subprocess.CompletedProcess(list(command), process.returncode, printed, complained)


def succeeds(work: Callable[[], object]) -> bool:
    """Whether a copy of this process, silent, survives `work`: for what may end a process at once. Not on Windows."""
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(MOST_TRIED_S)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (1, 2):
                os.dup2(nothing, stream)
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0
