"""A board that Renode emulates: a script of emulators/renode loads the image; the UART is a TCP port."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinyhil.errors import BoardError, DeviceCrashed
from tinyhil.harness.boards.connection import Connection, Session
from tinyhil.harness.boards.foreign import ForeignProcess, find_program
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.wire.deadline import starved_s
from tinyhil.quoting import monitor_path

REMEDY = "unpack the portable build of github.com/renode/renode/releases and put it into PATH"
START_S = 300.0  # a .NET runtime; the first start takes longest; one that has ended is noticed at once
READY = "hil: ready"  # what the scripts log at their end
# How Renode's monitor begins its complaints (Monitor.cs of 1.16)
COMPLAINT = re.compile(
    r"There was an error executing command|No such (command|device|variable)|Could not (tokenize|find)|"
    r"Errors during compilation|Error E\d\d|Fatal error"
)
FAULT = re.compile(r"\[ERROR\] cpu: hil: fault: (.+) at pc (0x[0-9a-f]+)")  # emulators/renode/Atmega328pRenode.cs
VERSION = re.compile(r"Renode, version (\d+(?:\.\d+)+)")


@contextmanager
def connect(board: BoardSpec, session: Session) -> Iterator[Connection]:
    """Start Renode with the image; ended when the block is left. UART bytes cost no time.

    BoardError if real time is asked for.
    """
    if session.realtime:
        raise BoardError(f"{board.name}: Renode keeps no real time here; leave out --realtime")
    port = _free_port()
    process = ForeignProcess("Renode", command(board, session.image, port), session.log_dir / "emulator.log")
    try:
        yield RenodeBoard(process, port)
    finally:
        process.close()


def command(board: BoardSpec, image: Path, port: int) -> list[str]:
    """The first argument of the emulator is the script; it finds its variables set.

    BoardError if the platform's script is missing.
    """
    assert board.chip.emulator is not None
    program = find_program(board, REMEDY)
    first, *rest = Path(board.chip.emulator.args[0]).parts
    script = asset(first).joinpath(*rest)
    if not script.is_file():
        raise BoardError(f"{board.name}: {script} is missing")
    quoted = [monitor_path(path, BoardError) for path in (image, script)]
    statements = f"$image={quoted[0]}; $port={port}; include {quoted[1]}"
    return [program, "--disable-gui", "--console", "--plain", "--execute", statements]


def _free_port() -> int:
    """A TCP port that is free now. Renode takes a number only, so somebody else could be faster: it then says so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RenodeBoard:
    """A running Renode, its script at the end."""

    banner_s = 0.0  # the program runs before anybody listens: ask for its HELLO

    def __init__(self, process: ForeignProcess, port: int) -> None:
        self.process = process
        self.port = f"socket://127.0.0.1:{port}"
        self._version = "?"
        self._wait_ready()

    def alive(self) -> None:
        """DeviceCrashed if Renode has ended, or the Uno's program has done what the chip can not do."""
        for line in self.process.news():
            if fault := FAULT.search(line):
                raise DeviceCrashed(f"the firmware crashed: {fault[1]} at pc {fault[2]}", int(fault[2], 0))
        self.process.alive()

    def starved_s(self) -> float:
        """Seconds that Renode was ready to run and got no processor."""
        return starved_s(self.process.pid)

    def finish(self) -> Mapping[str, Any]:
        """Renode's version: its counts are not used."""
        self.process.close()
        return {"emulator_version": self._version}

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            line = self.process.line(deadline)
            version = VERSION.search(line)
            if version:
                self._version = version[1]
            if COMPLAINT.search(line):
                raise BoardError(f"Renode refuses its script: {line.strip()}; log: {self.process.log}")
            if READY in line and "[INFO]" in line:
                return
