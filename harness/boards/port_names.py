"""Names of serial ports: paths where ports are files, `COM3` on Windows, where no file system knows them."""

from __future__ import annotations

import os
import re

COM = re.compile(r"(?:\\\\[.?]\\)?(COM[1-9]\d*)", re.IGNORECASE)  # with or without the prefix of devices


def canonical(port: str) -> str:
    """One name for every way to write a port: links followed, COM ports in capitals and without their prefix."""
    windows = COM.fullmatch(port)
    return windows[1].upper() if windows else os.path.realpath(port)


def same_port(one: str, other: str) -> bool:
    """Whether two names mean one port."""
    return canonical(one) == canonical(other)


def is_there(port: str) -> bool:
    """Whether the port exists; a COM port if the system lists it, for no path leads to it."""
    if COM.fullmatch(port) is None:
        return os.path.exists(port)
    from serial.tools import list_ports

    return any(same_port(found.device, port) for found in list_ports.comports())
