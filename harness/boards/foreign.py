"""An emulator that is not ours, as a process: its output read line by line, ended at once."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BoardError, DeviceCrashed
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.processes import Started

END_S = 5.0


def find_program(board: BoardSpec, remedy: str) -> str:
    """Where the program of the board's emulator is; BoardError says how to get it."""
    assert board.chip.emulator is not None
    program = shutil.which(board.chip.emulator.program)
    if program is None:
        raise BoardError(f"{board.name}: {board.chip.emulator.program} is not installed; {remedy}")
    return program


@dataclass(slots=True)
class ForeignProcess:
    """`name` is for messages. What it says on stderr goes to `log`."""

    name: str
    command: Sequence[str]
    log: Path
    _process: Started = field(init=False)
    _lines: list[str] = field(init=False, default_factory=list)
    _news: threading.Condition = field(init=False, default_factory=threading.Condition)
    _reader: threading.Thread = field(init=False)
    _ended: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        with files.opened(self.log, "w") as stderr:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr}
            self._process = Started(self.command, **pipes, text=True, errors="replace")
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the emulator, the leader of its own process group."""
        return self._process.pid

    def send(self, line: str) -> None:
        """A line to its stdin; one that has ended takes none, which the next `line()` tells."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def line(self, deadline: float) -> str:
        """The next line of its stdout; BoardError at `deadline` (monotonic seconds) or if it has ended."""
        with self._news:
            while not self._lines:
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    raise BoardError(f"{self.name} does not answer: {self.first_words()}; log: {self.log}")
                self._news.wait(left)
            return self._lines.pop(0)

    def news(self) -> list[str]:
        """The lines that nobody has asked for yet."""
        with self._news:
            lines, self._lines = self._lines, []
        return lines

    def alive(self) -> None:
        """DeviceCrashed if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise DeviceCrashed(f"{self.name} ended with code {code}: {self.first_words()}; log: {self.log}")

    def close(self) -> None:
        """End it at once, and what it has started (`renode` may be a script): there is nothing in it to save."""
        self._process.end()
        self._reader.join(END_S)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()

    def first_words(self) -> str:
        """The first thing it complained about; usually the cause of all that follows."""
        said = self.log.read_text(errors="replace").strip().splitlines()
        return said[0] if said else "no message"

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line)
                self._news.notify()
        with self._news:
            self._ended = True
            self._news.notify()
