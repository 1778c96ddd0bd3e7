"""A board that QEMU emulates: the program is its kernel, its UART a TCP port, its monitor QEMU's stdin and stdout."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.boards.connection import Connection, Session
from harness.config import BoardSpec
from tinyhil.errors import BoardError, DeviceCrashed

PACKAGE = "qemu-system-arm"
ANSWER_S = 10.0
WIRE = "wire"  # our name of the UART's other end


@contextmanager
def connect(board: BoardSpec, session: Session) -> Iterator[Connection]:
    """Start QEMU with the image; ended when the block is left. UART bytes cost no time."""
    if session.realtime:
        raise BoardError(f"{board.name}: QEMU with counted instructions keeps no real time; leave out --realtime")
    process = QemuBoard(_command(board, session.image), session.log_dir / "emulator.log")
    try:
        yield process
    finally:
        process.close()


def _command(board: BoardSpec, image: Path) -> list[str]:
    emulator = board.chip.emulator
    assert emulator is not None
    program = shutil.which(emulator.program)
    if program is None:
        raise BoardError(f"{board.name}: {emulator.program} is not installed; type: sudo apt-get install {PACKAGE}")
    setpriv = shutil.which("setpriv")  # the kernel ends QEMU if we are killed: it would not notice
    leash = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
    wire = f"socket,id={WIRE},host=127.0.0.1,port=0,server=on,wait=off,nodelay=on"
    quiet = ("-nodefaults", "-display", "none", "-monitor", "none", "-qmp", "stdio")
    return [
        *leash,
        program,
        *emulator.args,
        "-kernel",
        str(image),
        *quiet,
        "-chardev",
        wire,
        "-serial",
        f"chardev:{WIRE}",
    ]


@dataclass(slots=True)
class QemuBoard:
    """A running QEMU. It chooses a free TCP port itself and tells it through its monitor (QMP)."""

    command: list[str]
    log: Path
    port: str = field(init=False)
    banner_s: float = field(init=False, default=0.0)  # the program runs before anybody listens: ask for its HELLO
    version: str = field(init=False, default="?")
    _process: subprocess.Popen[str] = field(init=False)
    _lines: list[str] = field(init=False, default_factory=list)
    _news: threading.Condition = field(init=False, default_factory=threading.Condition)
    _reader: threading.Thread = field(init=False)
    _ended: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        with self.log.open("w") as stderr:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, stderr=stderr, text=True, start_new_session=True
            )
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()
        try:
            self.version = _version(self._receive("QMP"))
            self._ask("qmp_capabilities")
            self.port = _url(self._ask("query-chardev"))
        except BoardError:
            self.close()
            raise

    def alive(self) -> None:
        code = self._process.poll()
        if code is not None:
            raise DeviceCrashed(f"QEMU ended with code {code}: {self._last_words()}; log: {self.log}")

    def finish(self) -> Mapping[str, Any]:
        """All instructions since the start, also those of waiting loops, and QEMU's version."""
        totals = {"emulator_version": self.version, "instructions": self._ask("query-replay")["icount"]}
        self.close()
        return totals

    def close(self) -> None:
        """End QEMU at once: there is nothing in it to save."""
        self._process.kill()
        self._process.wait()
        self._reader.join(ANSWER_S)
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert stream is not None
                stream.close()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self._lines.append(line)
                self._news.notify()
        with self._news:
            self._ended = True
            self._news.notify()

    def _ask(self, command: str) -> Any:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"execute": command}) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended: said below
        return self._receive("return")

    def _receive(self, key: str) -> Any:
        """The value of the next message that has `key`; events in between are passed over."""
        deadline = time.monotonic() + ANSWER_S
        with self._news:
            while True:
                while self._lines:
                    message = json.loads(self._lines.pop(0))
                    if key in message:
                        return message[key]
                if self._ended or not self._news.wait(deadline - time.monotonic()):
                    raise BoardError(f"QEMU does not answer: {self._last_words()}; log: {self.log}")

    def _last_words(self) -> str:
        said = self.log.read_text(errors="replace").strip().splitlines()
        return said[0] if said else "no message"


def _version(greeting: Mapping[str, Any]) -> str:
    number = greeting["version"]["qemu"]
    return f"{number['major']}.{number['minor']}.{number['micro']}"


def _url(chardevs: list[dict[str, Any]]) -> str:
    """`disconnected:tcp:127.0.0.1:34567,server=on` as pyserial wants it."""
    (name,) = (device["filename"] for device in chardevs if device["label"] == WIRE)
    address = name.removeprefix("disconnected:").removeprefix("tcp:").split(",")[0]
    return f"socket://{address}"
