"""Emulated boards as they leave the shop: flash erased, boot loader waiting."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from boards_under_test import BOARDS, SPECS, UF2

from tinyhil.harness.boards.boot_loader import optiboot
from tinyhil.harness.build.toolchain import default_cache_dir

ROOT = Path(__file__).resolve().parent.parent
UNOSIM = ROOT / "emulators" / "uno" / "build" / "unosim"
ARMSIM = ROOT / "emulators" / "cortexm" / "build" / "armsim"
DEADLINE_S = 300.0


class Emulator:
    """One board; `options` go to its emulator. Leaving the context cuts its power without saving the flash."""

    def __init__(self, name: str, folder: Path, *options: str) -> None:
        self.flash_file = folder / f"{name}.flash"
        self.drive = folder / "drive"
        self.drive.mkdir(exist_ok=True)
        spec = BOARDS.board(name)
        chip = spec.chip
        assert chip.emulator is not None
        start: list[str | Path] = [ARMSIM, "--chip", chip.name]
        if chip.core == "avr":
            start = [UNOSIM, "--boot", optiboot(default_cache_dir())]
        own = [option for option in chip.emulator.loader_args if option == "--no-autoreset"]
        if spec.supply is not None:
            own += ["--supply", str(spec.supply)]
        if name in UF2:
            own += ["--drive", str(self.drive)]
        command = [*start, *own, "--flash-file", self.flash_file, "--link", folder / "port", *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port: str = self.next_event()["pty"]

    def next_event(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def finish(self) -> list[dict[str, Any]]:
        """Power off; the events that were not read yet."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        events = [json.loads(line) for line in self.process.stdout]
        assert self.process.wait(DEADLINE_S) == 0
        return events

    def __enter__(self) -> Emulator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def loader_options(name: str) -> list[str]:
    emulator = SPECS[name].chip.emulator
    return ["--boot0"] if emulator is not None and "--boot0" in emulator.loader_args else []
