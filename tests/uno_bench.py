"""Builds small programs for the ATmega328P and runs them on the emulated Uno."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import serial

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "firmware_uno"
UNOSIM = ROOT / "emulators" / "uno" / "build" / "unosim"
HAL = sorted((ROOT / "firmware" / "hal" / "atmega328p").glob("*.cpp"))
COMPILE = [
    "avr-g++", "-mmcu=atmega328p", "-std=gnu++14", "-Os", "-ffunction-sections", "-fdata-sections",
    "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-DF_CPU=16000000L", f"-I{ROOT}",
    "-Wall", "-Wextra", "-Werror", "-Wl,--gc-sections",
]  # fmt: skip
DEADLINE_S = 300.0
GO = b"g"  # wait_for_host() of tests/firmware_uno/print.hpp


@dataclass(frozen=True, slots=True)
class Firmware:
    hex_path: Path
    elf_path: Path

    @property
    def static_bytes(self) -> int:
        """.data + .bss"""
        fields = subprocess.run(
            ["avr-size", self.elf_path], check=True, capture_output=True, text=True
        ).stdout.splitlines()[1]
        return int(fields.split()[1]) + int(fields.split()[2])


def build_firmware(folder: Path, program: str, *flags: str, hal: bool = False) -> Firmware:
    """Compile tests/firmware_uno/<program>.cpp, with the HAL if asked for."""
    elf, image = folder / f"{program}.elf", folder / f"{program}.hex"
    sources = [PROGRAMS / f"{program}.cpp", *(HAL if hal else [])]
    subprocess.run([*COMPILE, f"-I{folder}", *flags, *sources, "-o", elf], check=True)
    subprocess.run(["avr-objcopy", "-O", "ihex", elf, image], check=True)
    return Firmware(image, elf)


class EmulatedUno:
    """A running unosim; leaving the context ends it by closing its standard input."""

    def __init__(self, firmware: Firmware, *options: str) -> None:
        self.link = firmware.hex_path.with_suffix(".port")
        self.process = subprocess.Popen(
            [UNOSIM, "--image", firmware.hex_path, "--link", self.link, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.exit_event: dict[str, Any] = {}
        assert self.next_event()["event"] == "ready"

    def next_event(self) -> dict[str, Any]:
        """The next line of the emulator's report (blocks: the test's time limit is pytest's)."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def skip_events_until(self, kind: str) -> dict[str, Any]:
        while (event := self.next_event())["event"] != kind:
            pass
        return event

    @contextmanager
    def open_port(self) -> Iterator[serial.Serial]:
        with serial.serial_for_url(str(self.link), baudrate=115200, timeout=DEADLINE_S) as port:
            yield port

    def finish(self) -> dict[str, Any]:
        """End of input, then the exit event."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.drain()

    def drain(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        events = [json.loads(line) for line in self.process.stdout]
        assert self.process.wait(timeout=DEADLINE_S) == 0
        self.exit_event = events[-1]
        assert self.exit_event["event"] == "exit"
        return self.exit_event

    def __enter__(self) -> EmulatedUno:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None and not self.exit_event:
            self.process.kill()
        self.process.wait(timeout=DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def run_to_end(firmware: Firmware, *options: str, answer: bytes = b"") -> tuple[list[str], dict[str, Any]]:
    """What the program prints up to its line END, and the exit event. `answer` is sent when it prints '?'."""
    with EmulatedUno(firmware, *options) as uno:
        with uno.open_port() as port:
            port.write(GO)
            if answer:
                assert port.read(1) == b"?"
                port.write(answer)
            text = port.read_until(b"END\n").decode()
        assert text.endswith("END\n"), f"no end within {DEADLINE_S} s: {text!r}"
        return text.splitlines()[:-1], uno.finish()
