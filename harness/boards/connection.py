"""What every driver offers: a port to open, a verdict on whether the board is alive, and what it knows at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Connection(Protocol):
    """A board that is switched on. Drivers are context managers that yield one."""

    @property
    def port(self) -> str:
        """Path or URL to open."""

    @property
    def banner_s(self) -> float:
        """How long the board may take to say HELLO by itself after the port is opened."""

    def alive(self) -> None:
        """Raise DeviceCrashed if the board is known to be dead."""

    def starved_s(self) -> float:
        """Seconds that an emulator was ready to run and got no processor; 0 for a real board."""

    def finish(self) -> Mapping[str, Any]:
        """Switch off; totals the board's surroundings know (emulators: cycles, instructions, lowest stack pointer)."""


PINS, STACKS, LINES = "pins.txt", "stacks.txt", "lines.txt"


@dataclass(frozen=True, slots=True)
class Session:
    """What a driver needs to start: the file to load, a folder for logs, the wire's timing."""

    image: Path
    log_dir: Path
    uart: str = "lifted"
    realtime: bool = False
    static_bytes: int = 0  # of RAM; an emulator that knows them tells a stack that reaches them
    keeps_running: bool = False  # through the opening of its port, where the real board does
    watch_pins: bool = False  # an emulator writes every edge of an output into log_dir / PINS
    watch_stacks: bool = False  # an emulator writes what stack each function needed into log_dir / STACKS
    watch_lines: bool = False  # an emulator writes when each line of text was sent into log_dir / LINES
    budget: int | None = None  # instructions after which an emulator ends
    foreign: bool = False  # the image is not ours: an emulator finds clocks and pins out by its registers
