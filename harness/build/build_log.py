"""What a failed build's log means: does the firmware not fit, or is something wrong with it?"""

from __future__ import annotations

import re
from pathlib import Path

from tinyhil.errors import BuildError, DoesNotFit
from tinyhil.harness.build.image import name_largest, object_symbols
from tinyhil.harness.build.platformio import AVR_RAM
from tinyhil.harness.settings.config import BoardSpec

OVERFLOWED = re.compile(r"region [`']?(?P<region>\w+)'? overflowed by (?P<bytes>\d+) bytes")
# PlatformIO's own check, of a limit below what the linker script leaves
PLATFORMIO = re.compile(
    r"The (?P<what>program|data) size \((?P<size>\d+) bytes\) is greater than maximum allowed \((?P<most>\d+) "
)
# avr-ld says at which address a section ends instead of by how much the region is exceeded.
AVR_OUTSIDE = re.compile(r"address (?P<address>0x[0-9a-f]+) of .* is not within region [`']?data'?")
AVR_RAM_START = 0x800000 + AVR_RAM  # as the linker counts
# The ASSERT of firmware/hal/cortexm/sections.ld has no number; the map file of the failed link has what it compares.
NO_ROOM_FOR_STACK = re.compile(r"static RAM leaves less than")
# Once one section is too large, avr-ld may say no more than this; so do assertions of our linker scripts.
NO_ROOM_FOR_CODE = re.compile(r"(section [`']?\.text'?|ld:) will not fit in region")
STORED = r"text|rodata|data|hot|kernels|isr_vector|boot2|image_def|init_array|ARM\.exidx"
MAP_FLASH_SECTION = re.compile(rf"^\.(?:{STORED})\s+0x[0-9a-f]+\s+(?P<size>0x[0-9a-f]+)", re.MULTILINE)
MAP_SYMBOL = re.compile(r"^\s+(?P<value>0x[0-9a-f]+)\s+(?P<name>_heap_start|_min_stack|_estack) = ", re.MULTILINE)
FIRST_ERROR = re.compile(
    r"(fatal error|error|Error): |undefined reference to|multiple definition of|cannot find -l"
    r"|\bld: .*(RAM|stack|arena|flash)"
)
NO_REGISTERS = re.compile(r"error: can.t find a register in class")  # of avr-gcc, for some 50 KB of code
UNINFORMATIVE = re.compile(r"collect2: error|\*\*\* \[|ld returned \d")


def explain(log_text: str, log_path: Path, objects_dir: Path, board: BoardSpec) -> BuildError:
    """The error to raise for a failed build."""
    over = _overflows(log_text, board)
    if NO_ROOM_FOR_STACK.search(log_text):  # "overflowed by" does not count the stack's reserve
        over["RAM"] = _lacking_stack(objects_dir / "firmware.map")
    if NO_ROOM_FOR_CODE.search(log_text) or "flash" in over:  # which counts no section at an address of its own
        code_bytes = _sizes_in_map(objects_dir / "firmware.map", MAP_FLASH_SECTION)
        over["flash"] = max(code_bytes - (board.chip.flash_bytes or 0), over.get("flash", 1))
    if over:
        region, over_bytes = max(over.items(), key=lambda item: item[1])
        symbols = name_largest(object_symbols(objects_dir.rglob("*.o")), in_ram=region == "RAM")
        return DoesNotFit(
            f"{board.name}: {region} exceeded by {over_bytes} B ({_limit(region, board)}); "
            f"largest: {symbols}; log: {log_path}",
            (region, over_bytes),
        )
    if NO_REGISTERS.search(log_text):
        return BuildError(
            f"{board.name}: {board.chip.compiler} finds no registers for a program of so many strips of layers; "
            f"give more RAM (--ram, --prefer) or narrower formats; log: {log_path}"
        )
    lines = log_text.splitlines()
    first = next((x for x in lines if FIRST_ERROR.search(x) and not UNINFORMATIVE.search(x)), None)
    last = next((line for line in reversed(lines) if line.strip()), "no output")
    return BuildError(f"{board.name}: build failed: {_shorten((first or last).strip(), log_path)}; log: {log_path}")


def _overflows(log_text: str, board: BoardSpec) -> dict[str, int]:
    """Region (RAM or flash) -> bytes too much."""
    over: dict[str, int] = {}
    for match in OVERFLOWED.finditer(log_text):
        is_flash = match["region"].lower() in ("flash", "text", "rom")
        region = "flash" if is_flash else "RAM"
        over[region] = max(over.get(region, 0), int(match["bytes"]))
    for match in PLATFORMIO.finditer(log_text):
        region = "flash" if match["what"] == "program" else "RAM"
        over[region] = max(over.get(region, 0), int(match["size"]) - int(match["most"]))
    if board.chip.static_ram_bytes is not None:
        end = AVR_RAM_START + board.chip.static_ram_bytes
        for match in AVR_OUTSIDE.finditer(log_text):
            over["RAM"] = max(over.get("RAM", 0), int(match["address"], 16) - end)
    return over


def _lacking_stack(map_path: Path) -> int:
    """Bytes that the reserve for the stack would take of what lies below it."""
    text = map_path.read_text(encoding="utf-8", errors="replace") if map_path.is_file() else ""
    found = {match["name"]: int(match["value"], 16) for match in MAP_SYMBOL.finditer(text)}
    return max(found["_heap_start"] + found["_min_stack"] - found["_estack"], 1) if len(found) == 3 else 1


def _sizes_in_map(map_path: Path, section: re.Pattern[str]) -> int:
    if not map_path.is_file():
        return 0
    sizes = section.finditer(map_path.read_text(encoding="utf-8", errors="replace"))
    return sum(int(match["size"], 16) for match in sizes)


def _limit(region: str, board: BoardSpec) -> str:
    chip = board.chip
    if region == "flash":
        return f"{chip.flash_bytes} B flash"
    return f"{chip.ram_bytes} B RAM less {chip.stack_reserve_bytes} B for the stack and what alignment takes"


def _shorten(line: str, log_path: Path) -> str:
    return line.replace(f"{log_path.parent}/", "")
