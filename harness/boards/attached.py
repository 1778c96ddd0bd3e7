"""A real board on a serial port."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyhil.harness.boards.connection import Connection
from tinyhil.harness.boards.port_names import canonical
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.quoting import printable

BY_ID = Path("/dev/serial/by-id")


@dataclass(frozen=True, slots=True)
class AttachedBoard:
    """Nothing but the port is known of it."""

    port: str
    banner_s: float

    def alive(self) -> None:
        """A real board gives no sign but its silence."""

    def starved_s(self) -> float:
        """0: a real board computes whatever the machine does."""
        return 0.0

    def finish(self) -> Mapping[str, Any]:
        """No final event: there is nobody to report one."""
        return {}


@contextmanager
def connect(board: BoardSpec, port: str) -> Iterator[Connection]:
    """The board on `port`. Opening the port resets most boards; a boot loader may delay HELLO by two seconds."""
    yield AttachedBoard(port, 2.5 if board.reset == "on_open" else 0.0)


@dataclass(frozen=True, slots=True)
class Device:
    """A USB serial port. `port` is its stable name where the system has one, `node` the one that may change."""

    port: str
    node: str
    usb: str
    serial_number: str | None
    product: str


def devices() -> list[Device]:
    """All USB serial ports of this machine, in a stable order."""
    from serial.tools import list_ports

    links = {os.path.realpath(link): str(link) for link in sorted(BY_ID.glob("*"))} if BY_ID.is_dir() else {}
    found = [
        Device(
            port=links.get(canonical(port.device), port.device),
            node=port.device,
            usb=f"{port.vid:04X}:{port.pid:04X}",
            serial_number=printable(port.serial_number or "", 80) or None,
            product=printable(port.product or "", 80),
        )
        for port in list_ports.comports()
        if port.vid is not None
    ]
    return sorted(found, key=lambda device: device.port)
