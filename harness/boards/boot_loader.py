"""The boot loader of an Arduino Uno, compiled from the source that Debian's arduino-core-avr brings.

The hex file in that package is 36 bytes too long for the boot section; without the start-up flashes of the LED it fits.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from tinyhil import files
from tinyhil.errors import FlashError
from tinyhil.harness.build.compile import cache_full
from tinyhil.processes import run

SOURCE = Path("/usr/share/arduino/hardware/arduino/avr/bootloaders/optiboot/optiboot.c")
PACKAGE = "arduino-core-avr"
FLAGS = (
    *("-mmcu=atmega328p", "-DF_CPU=16000000L", "-DBAUD_RATE=115200", "-DLED_START_FLASHES=0"),
    *("-Os", "-w", "-fno-inline-small-functions", "-fno-split-wide-types", "-mshort-calls"),
    *("-Wl,--relax", "-nostartfiles", "-nostdlib", "-Wl,--section-start=.text=0x7e00"),
)


def optiboot(cache_dir: Path) -> Path:
    """Intel hex of Optiboot for an Uno; compiled only once."""
    check_source()
    key = hashlib.sha256(SOURCE.read_bytes() + " ".join(FLAGS).encode()).hexdigest()[:16]
    done = cache_dir / "boot" / f"optiboot-{key}.hex"
    if not done.is_file():
        try:
            files.own_folder(done.parent, FlashError)
            with tempfile.TemporaryDirectory(dir=done.parent) as folder:
                os.replace(_compile(Path(folder)), done)
        except OSError as error:
            raise cache_full(cache_dir, error) from None
    return done


def check_source() -> None:
    """FlashError if what it is made of is not installed."""
    if not SOURCE.is_file():
        raise FlashError(f"no source of the Uno's boot loader ({SOURCE}); type: sudo apt-get install {PACKAGE}")
    if shutil.which("avr-gcc") is None:
        raise FlashError("the Uno's boot loader needs avr-gcc; type: sudo apt-get install gcc-avr avr-libc")


def _compile(folder: Path) -> Path:
    elf, image = folder / "optiboot.elf", folder / "optiboot.hex"
    for command in (
        ["avr-gcc", *FLAGS, str(SOURCE), "-o", str(elf)],
        ["avr-objcopy", "-O", "ihex", "-j", ".text", str(elf), str(image)],
    ):
        result = run(command, None)
        if result.returncode != 0:
            said = result.stderr.strip().splitlines()
            raise FlashError(f"the Uno's boot loader does not compile: {said[-1] if said else command[0]}")
    return image
