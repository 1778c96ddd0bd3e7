"""An image by one call of the compiler, for programs of tests: each of PlatformIO's costs a second of processor.

The flags are those of firmware/platform/builder/main.py; test_build.py holds that both make the same bytes.
"""

from __future__ import annotations

import functools
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tinyhil.files import as_bytes
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import Image, read_contents
from tinyhil.harness.build.platformio import defines
from tinyhil.harness.build.toolchain import find_compiler
from tinyhil.harness.settings.config import BoardSpec

PLATFORM = Path(__file__).resolve().parent.parent / "firmware" / "platform"
FLAGS = (
    "-std=gnu++14 -O2 -gdwarf-4 -Wall -Wextra -fno-exceptions -fno-rtti -fno-threadsafe-statics -ffunction-sections "
    "-fdata-sections -ffp-contract=off -fno-strict-aliasing -Wl,--gc-sections -I."
)
UNITS = (
    "model/*.cpp",
    "firmware/hal/{hal}/*.cpp",
    "firmware/main.cpp",
    "firmware/wire/*.cpp",
)  # in the order of its links


@functools.cache
def identify() -> Callable[[str], bytes]:
    """Gives a linked image its identity, as a build does."""
    return runpy.run_path(str(PLATFORM / "image_hash.py"))["patch"]


def direct_build(sources: Mapping[str, str | bytes], board: BoardSpec, folder: Path) -> Image:
    """The image of `sources`, as `build` makes it, in a new folder inside of `folder`."""
    if board.is_host:
        return build(sources, board, cache_dir=folder, log=lambda line: None)
    folder.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=board.name, dir=folder))
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(as_bytes(text))
    chip, compiler = board.chip, find_compiler(board, folder)
    units = [path for one in UNITS for path in sorted(folder.glob(one.format(hal=chip.hal)))]
    definitions = [f"-D{name}" for name in (f"F_CPU={chip.clock_hz}L", *defines(board))]
    elf, load = folder / "firmware.elf", folder / f"firmware.{chip.load}"
    _run(
        [compiler.path, *chip.machine.split(), *FLAGS.split(), *definitions, *_limits(board), *units, "-o", elf, "-lm"],
        folder,
    )
    identify()(str(elf))
    if chip.load == "uf2":
        _run([sys.executable, PLATFORM / "uf2.py", elf, load, hex(chip.uf2_family or 0)], folder)
    elif load != elf:
        objcopy = Path(str(compiler.path).removesuffix("gcc") + "objcopy")
        _run([objcopy, "-O", {"hex": "ihex", "bin": "binary"}[chip.load], "-R", ".eeprom", elf, load], folder)
    found = read_contents(elf)
    sizes = (found.flash_bytes, found.static_bytes, found.symbols)
    return Image(board.name, folder, elf, load, found.hash, *sizes, compiler, rebuilt=True)


def _limits(board: BoardSpec) -> list[str]:
    chip = board.chip
    if chip.compiler == "avr-gcc":
        ram = chip.ram_bytes - chip.stack_reserve_bytes
        limits, flags = {"__DATA_REGION_LENGTH__": ram, "__TEXT_REGION_LENGTH__": chip.flash_bytes}, []
    else:
        limits = {"_min_stack": chip.stack_reserve_bytes}
        flags = ["--specs=nano.specs", "--specs=nosys.specs", "-nostartfiles", "-L."]
        flags += ["-T", f"firmware/hal/{chip.hal}/{chip.hal}.ld"]
    return flags + [f"-Wl,--defsym={name}={value}" for name, value in limits.items()]


def _run(command: list[object], folder: Path) -> None:
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
