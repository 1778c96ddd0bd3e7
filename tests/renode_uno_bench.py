"""The ATmega328P of emulators/renode without Renode: compiled by Mono's compiler, behind a TCP port, for tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from uno_bench import COMPILE, DEADLINE_S, GO, ROOT, EmulatedUno, Firmware

CORE = ROOT / "emulators" / "renode"
PROGRAMS = ROOT / "tests" / "renode_uno"
SOURCES = (PROGRAMS / "Uno.cs", CORE / "AvrCore.cs", CORE / "Atmega328p.cs")
needs_mono = pytest.mark.skipif(
    shutil.which("mcs") is None or shutil.which("mono") is None,
    reason="no mcs and mono in PATH (mono-mcs, mono-runtime)",
)


def compile_uno(folder: Path) -> Path:
    """A program that is started like emulators/uno/build/unosim."""
    binary, program = folder / "uno.exe", folder / "uno"
    command = ["mcs", "-nologo", "-warnaserror", "-optimize+", "-langversion:6", f"-out:{binary}", *SOURCES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    program.write_text(f'#!/bin/sh\nexec mono "{binary}" "$@"\n')
    program.chmod(0o755)
    return program


def build_program(folder: Path, program: str, *flags: str) -> Firmware:
    """Compile tests/renode_uno/<program>.cpp."""
    elf, image = folder / f"{program}.elf", folder / f"{program}.hex"
    subprocess.run([*COMPILE, f"-I{folder}", *flags, PROGRAMS / f"{program}.cpp", "-o", elf], check=True)
    subprocess.run(["avr-objcopy", "-O", "ihex", elf, image], check=True)
    return Firmware(image, elf)


class MonoUno(EmulatedUno):
    """A running one; its port is a URL. Leaving the context ends it."""

    def __init__(self, program: Path, firmware: Firmware) -> None:
        self.process = subprocess.Popen(
            [program, "--image", firmware.hex_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.exit_event: dict[str, Any] = {}
        self.link = self.next_event()["pty"]


def run_to_end(program: Path, firmware: Firmware, answer: bytes = b"") -> tuple[list[str], dict[str, Any]]:
    """What the firmware prints up to its line END, and the exit event. `answer` is sent when it prints '?'."""
    with MonoUno(program, firmware) as uno:
        with uno.open_port() as port:
            port.write(GO)
            if answer:
                assert port.read(1) == b"?"
                port.write(answer)
            text = port.read_until(b"END\n").decode()
        assert text.endswith("END\n"), f"no end within {DEADLINE_S} s: {text!r}"
        return text.splitlines()[:-1], uno.finish()
