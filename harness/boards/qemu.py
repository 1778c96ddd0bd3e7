"""A board that QEMU emulates: the program is its kernel, its UART a TCP port, its monitor QEMU's stdin and stdout."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinyhil.errors import BoardError
from tinyhil.harness.boards.connection import Connection, Session
from tinyhil.harness.boards.foreign import ForeignProcess, find_program
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.wire.deadline import starved_s

REMEDY = "type: sudo apt-get install qemu-system-arm"
ANSWER_S = 300.0  # one that has ended is noticed at once
WIRE = "wire"  # our name of the UART's other end


@contextmanager
def connect(board: BoardSpec, session: Session) -> Iterator[Connection]:
    """Start QEMU with the image; ended when the block is left. UART bytes cost no time.

    BoardError if real time is asked for.
    """
    if session.realtime:
        raise BoardError(f"{board.name}: QEMU with counted instructions keeps no real time; leave out --realtime")
    process = ForeignProcess("QEMU", _command(board, session.image), session.log_dir / "emulator.log")
    try:
        yield QemuBoard(process)
    finally:
        process.close()


def _command(board: BoardSpec, image: Path) -> list[str]:
    assert board.chip.emulator is not None
    program = find_program(board, REMEDY)
    wire = f"socket,id={WIRE},host=127.0.0.1,port=0,server=on,wait=off,nodelay=on"
    quiet = ("-nodefaults", "-display", "none", "-monitor", "none", "-qmp", "stdio")
    load = ("-kernel", str(image), "-chardev", wire, "-serial", f"chardev:{WIRE}")
    return [program, *board.chip.emulator.args, *quiet, *load]


class QemuBoard:
    """A running QEMU. It chooses a free TCP port itself and tells it through its monitor (QMP)."""

    banner_s = 0.0  # the program runs before anybody listens: ask for its HELLO

    def __init__(self, process: ForeignProcess) -> None:
        self.process = process
        self._version = _version(self._receive("QMP"))
        self._ask("qmp_capabilities")
        self.port = _url(self._ask("query-chardev"))

    def alive(self) -> None:
        """BoardError with its last words if QEMU has ended."""
        self.process.alive()

    def starved_s(self) -> float:
        """Seconds that QEMU was ready to run and got no processor."""
        return starved_s(self.process.pid)

    def finish(self) -> Mapping[str, Any]:
        """All instructions since the start, and QEMU's version."""
        totals = {"emulator_version": self._version, "instructions": self._ask("query-replay")["icount"]}
        self.process.close()
        return totals

    def _ask(self, command: str) -> Any:
        self.process.send(json.dumps({"execute": command}))
        return self._receive("return")

    def _receive(self, key: str) -> Any:
        """The value of the next message that has `key`; events in between are passed over."""
        deadline = time.monotonic() + ANSWER_S
        while True:
            message = json.loads(self.process.line(deadline))
            if key in message:
                return message[key]


def _version(greeting: Mapping[str, Any]) -> str:
    number = greeting["version"]["qemu"]
    return f"{number['major']}.{number['minor']}.{number['micro']}"


def _url(chardevs: list[dict[str, Any]]) -> str:
    """`disconnected:tcp:127.0.0.1:34567,server=on` as pyserial wants it."""
    (name,) = (device["filename"] for device in chardevs if device["label"] == WIRE)
    address = name.removeprefix("disconnected:").removeprefix("tcp:").split(",")[0]
    return f"socket://{address}"
