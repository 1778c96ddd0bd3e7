"""What of an image is weights, code of the model, wire protocol, start-up and libraries: read from the linker's map.

Each input section of the map names the object file that it comes from; what is left of a total (alignment, vectors that
no object names) is its `rest`. Where a section counts, the image says: kernels that are copied to RAM are in both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set
from pathlib import Path

from tinyhil.harness.build.image import HOT, Image, places

OUTPUT = re.compile(r"^(?P<name>\.[\w.]+)(?:\s|$)")
INPUT = re.compile(
    r"^ (?P<name>[.\w$*]\S*)\s+0x(?P<address>[0-9a-f]+)\s+0x(?P<size>[0-9a-f]+)\s+(?P<file>\S.*)$", re.MULTILINE
)
BROKEN_LINE = re.compile(r"^( \S+)\n\s+(?=0x)", re.MULTILINE)  # long names have a line of their own
BEGIN = "Linker script and memory map"
BUFFERS = {"hil_arena": "arena", "slot_memory": "input slots", "output_memory": "output"}
CONSTANTS = (".rodata", ".progmem", HOT)


def parts_of(image: Image) -> dict[str, dict[str, int]] | None:
    """Bytes of flash and of static RAM by part; None where the linker wrote no map (this computer)."""
    path = image.elf.with_suffix(".map")
    if not path.is_file():
        return None
    flash, ram = read_map(path, *places(image.elf))
    return {"flash": _whole(flash, image.flash_bytes), "ram": _whole(ram, image.static_bytes)}


def read_map(path: Path, stored: Set[str], in_ram: Set[str]) -> tuple[Counter[str], Counter[str]]:
    """Bytes of flash and of RAM by part, as far as object files are named, of the sections `stored` and `in_ram`."""
    text = path.read_text(encoding="utf-8", errors="replace").partition(BEGIN)[2]
    flash: Counter[str] = Counter()
    ram: Counter[str] = Counter()
    output = ""
    for line in BROKEN_LINE.sub(r"\1 ", text).splitlines():
        head = OUTPUT.match(line)
        output = head["name"] if head else output
        found = INPUT.match(line)
        size = int(found["size"], 16) if found else 0
        if found is None or not size or found["name"].startswith("*"):
            continue
        part = part_of(found["file"], found["name"])
        if output in in_ram:
            ram[part] += size
        if output in stored:
            flash[part] += size
    return flash, ram


def part_of(object_file: str, section: str) -> str:
    """The part that an input section of an object file belongs to."""
    if object_file.endswith((".a", ")")) or "/lib/" in object_file or object_file.startswith("/usr/"):
        return "libraries"
    for name, part in BUFFERS.items():
        if name in section:
            return part
    if "/model/" in object_file:
        return "weights" if section.startswith(CONSTANTS) else "model code"
    return "start-up and hardware" if "/hal/" in object_file else "wire"


def _whole(parts: Counter[str], total: int) -> dict[str, int]:
    """The parts, the largest first, and what of the total they do not explain."""
    found = dict(parts.most_common())
    rest = total - sum(found.values())
    return {**found, "rest": rest} if rest else found
