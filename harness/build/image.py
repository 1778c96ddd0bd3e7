"""A linked image: what it holds, who it is, and whether it fits the chip."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from tinyhil.errors import BuildError, DoesNotFit
from tinyhil.harness.build import elf_symbols
from tinyhil.harness.build.toolchain import Compiler
from tinyhil.harness.settings.config import BoardSpec

HASH_SYMBOL = "hil_image_hash"
ARENA_SYMBOL = "hil_arena"
REGION_SECTIONS = ".arena_"  # tensors in memories beside the main RAM
HOT = ".hot"
COPIED_SECTIONS = (".text", ".rodata", HOT)  # of the flash, even where a copy in faster memory is used
SHF_WRITE, SHF_ALLOC = 0x1, 0x2
ARENA_ALIGNMENT = 4
ARENA_IN_MAP = re.compile(rf"^ \.bss\.{ARENA_SYMBOL}\s+0x[0-9a-f]+\s+(?P<size>0x[0-9a-f]+)", re.MULTILINE)
NAMED = 3  # how many symbols an error names


@dataclass(frozen=True, slots=True)
class Symbol:
    """One name of the linked program: where it lies, and how many bytes it takes."""

    name: str
    address: int
    size_bytes: int
    in_ram: bool


@dataclass(frozen=True, slots=True)
class Image:
    """`load_path` is what a flasher or an emulator takes (.hex, .bin, or the executable on the host). `copied_bytes`:
    what lies in flash and, once more, in memory without wait states, where that is free; no part of `static_bytes`."""

    board: str
    project_dir: Path
    elf: Path
    load_path: Path
    hash: bytes
    flash_bytes: int
    static_bytes: int
    symbols: tuple[Symbol, ...]
    compiler: Compiler
    rebuilt: bool
    copied_bytes: int = 0

    def symbol(self, name: str) -> Symbol:
        """BuildError unless there is just one."""
        found = [symbol for symbol in self.symbols if symbol.name == name]
        if len(found) != 1:
            raise BuildError(f"{self.elf}: {len(found)} symbols named {name}, need one")
        return found[0]


@dataclass(frozen=True, slots=True)
class Contents:
    """What was linked: hash of the loadable bytes, sizes, symbols."""

    hash: bytes
    flash_bytes: int
    static_bytes: int
    symbols: tuple[Symbol, ...]
    copied_bytes: int


def read_contents(elf_path: Path, *, identified: bool = True) -> Contents:
    """Sizes, symbols and identity of a linked ELF, which others may lack. BuildError if the file is no ELF file."""
    try:
        with elf_path.open("rb") as stream:
            elf = ELFFile(stream)
            ram, flash = _ram_and_flash(elf)
            symbols = tuple(_symbols(elf, ram))
            content = Contents(
                hash=_bytes_at(elf, symbols, HASH_SYMBOL) if identified else b"",
                flash_bytes=sum(section["sh_size"] for section in flash),
                static_bytes=sum(s["sh_size"] for s in ram.values() if not s.name.startswith(REGION_SECTIONS)),
                symbols=symbols,
                copied_bytes=sum(s["sh_size"] for s in flash if s.name.startswith(COPIED_SECTIONS) and _moves(elf, s)),
            )
    except (ELFError, OSError) as error:
        raise BuildError(f"{elf_path}: not a readable ELF file: {error}") from error
    return content


def places(elf_path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Names of the sections whose bytes count as flash, and of those that count as static RAM; some are both."""
    with elf_path.open("rb") as stream:
        ram, flash = _ram_and_flash(ELFFile(stream))
        return (
            frozenset(section.name for section in flash),
            frozenset(s.name for s in ram.values() if not s.name.startswith(REGION_SECTIONS)),
        )


def check_fits(image: Image, board: BoardSpec) -> None:
    """DoesNotFit if the linked image exceeds the chip, the reserve for the stack included."""
    chip = board.chip
    if chip.flash_bytes is not None and image.flash_bytes > chip.flash_bytes:
        over = image.flash_bytes - chip.flash_bytes
        raise DoesNotFit(
            f"{board.name}: flash {image.flash_bytes} B > {chip.flash_bytes} B, {over} B too much; "
            f"largest: {name_largest(image.symbols, in_ram=False)}",
            ("flash", over),
        )
    room = chip.static_ram_bytes
    if room is not None and image.static_bytes > room:
        raise DoesNotFit(
            f"{board.name}: static RAM {image.static_bytes} B > {room} B ({chip.ram_bytes} B RAM less "
            f"{chip.stack_reserve_bytes} B for the stack), {image.static_bytes - room} B too much; "
            f"largest: {name_largest(image.symbols, in_ram=True)}",
            ("RAM", image.static_bytes - room),
        )


def misplaced_bytes(elf_path: Path) -> int:
    """Of constants that were to lie in memory without wait states, for which the linker found no room there: they are
    read from flash, all of them."""
    with elf_path.open("rb") as stream:
        elf = ELFFile(stream)
        hot = elf.get_section_by_name(HOT)
        return 0 if hot is None or _moves(elf, hot) else int(hot["sh_size"])


def check_arena(image: Image, arena_bytes: int | Mapping[str, int]) -> None:
    """The linker must have given each array of the arena exactly the bytes the plan asked for, by its symbol and by its
    map file, and the ones of a region of their own a place within that memory. `arena_bytes`: of each symbol, or of the
    only one. BuildError if an arena has another size."""
    planned = {ARENA_SYMBOL: arena_bytes} if isinstance(arena_bytes, int) else arena_bytes
    map_path = image.elf.with_suffix(".map")
    text = map_path.read_text(encoding="utf-8", errors="replace") if map_path.is_file() else None  # the host has none
    for symbol, wanted_bytes in planned.items():
        linked = {image.elf.name: image.symbol(symbol).size_bytes}
        if text is not None:
            linked[map_path.name] = _bytes_in_map(text, symbol)
        for name, size_bytes in linked.items():
            # avr-as rounds a section up to its alignment; the symbol has its exact size
            slack_bytes = ARENA_ALIGNMENT - 1 if name == map_path.name else 0
            if not wanted_bytes <= size_bytes <= wanted_bytes + slack_bytes:
                raise BuildError(
                    f"{image.board}: {symbol} has {size_bytes} B in {name}, planned {wanted_bytes} B: "
                    f"stale build in {image.project_dir}? delete it and build again"
                )


def _bytes_in_map(text: str, symbol: str) -> int:
    """Bytes of the arena, or of its part in a region, that the map file shows inside the right memory; else 0."""
    region = symbol.removeprefix(ARENA_SYMBOL).removeprefix("_")
    if not region:
        found = ARENA_IN_MAP.search(text)
        return int(found["size"], 16) if found else 0
    part = re.search(rf"^\.arena_{region}\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+)", text, re.MULTILINE)
    memory = re.search(rf"^{region.upper()}\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+)", text, re.MULTILINE)
    if part is None or memory is None:
        return 0
    (start, size), (origin, length) = (tuple(int(number, 16) for number in one.groups()) for one in (part, memory))
    return size if origin <= start and start + size <= origin + length else 0


def name_largest(symbols: Iterable[Symbol], in_ram: bool) -> str:
    """The largest symbols in RAM or flash with their sizes, as text."""
    chosen = sorted((s for s in symbols if s.in_ram == in_ram), key=lambda s: (-s.size_bytes, s.name))
    return ", ".join(f"{_as_written(s.name)} {s.size_bytes} B" for s in chosen[:NAMED]) or "no symbols"


def _as_written(name: str) -> str:
    """A symbol in namespaces as C++ has it, without parameters, those of a template as `<>`; of all else as it is."""
    nested = re.match(r"_ZN[rVK]*", name)
    rest, parts = name[nested.end() :] if nested else "", list[str]()
    while found := re.match(r"L?(\d+)", rest):
        start, size = found.end(), int(found[1])
        parts.append(rest[start : start + size])
        rest = rest[start + size :]
    if not parts or not rest.startswith(("E", "I")):
        return name
    written = "::".join(part for part in parts if part != "_GLOBAL__N_1")
    return written if rest == "E" else f"{written}<>" if rest.startswith("I") else f"{written}()"


def object_symbols(objects: Iterable[Path]) -> tuple[Symbol, ...]:
    """Symbols of object files: what is known when the link itself has failed."""
    found: list[Symbol] = []
    for path in objects:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            written = {i: s for i, s in enumerate(elf.iter_sections()) if s["sh_flags"] & SHF_WRITE}
            found += _symbols(elf, written)
    return tuple(found)


def _ram_and_flash(elf: ELFFile) -> tuple[dict[int, Section], list[Section]]:
    """Sections that occupy RAM while the program runs (by index), and sections whose bytes are stored in flash.

    A section is in RAM if it has no stored bytes, or is loaded at another address than it runs at, or is named
    .data (on the host both addresses are the same). Reserved stack and heap are no static data.
    """
    ram: dict[int, Section] = {}
    flash: list[Section] = []
    for index, section in enumerate(elf.iter_sections()):
        if not section["sh_flags"] & SHF_ALLOC or section.name.startswith((".stack", ".heap")):
            continue
        stored = section["sh_type"] != "SHT_NOBITS"
        if stored:
            flash.append(section)
        moved = _moves(elf, section) and not section.name.startswith(COPIED_SECTIONS)
        if not stored or moved or section.name.startswith(".data"):
            ram[index] = section
    return ram, flash


def _moves(elf: ELFFile, section: Section) -> bool:
    """Whether it is used elsewhere than it is stored."""
    return _load_address(elf, section) != section["sh_addr"]


def _load_address(elf: ELFFile, section: Section) -> int:
    for segment in elf.iter_segments("PT_LOAD"):
        inside: int = section["sh_offset"] - segment["p_offset"]
        if inside >= 0 and inside + section["sh_size"] <= segment["p_filesz"]:
            return segment["p_paddr"] + inside
    return section["sh_addr"]


def _symbols(elf: ELFFile, ram: dict[int, Section]) -> Iterator[Symbol]:
    nowhere = (elf_symbols.UNDEFINED, elf_symbols.ABSOLUTE)
    for name, address, size_bytes, kind, section in elf_symbols.entries(elf):
        if kind in (elf_symbols.OBJECT, elf_symbols.FUNCTION) and size_bytes and section not in nowhere:
            yield Symbol(name, address, size_bytes, section == elf_symbols.COMMON or section in ram)


def _bytes_at(elf: ELFFile, symbols: tuple[Symbol, ...], name: str) -> bytes:
    for symbol in symbols:
        if symbol.name != name:
            continue
        for segment in elf.iter_segments("PT_LOAD"):
            inside = symbol.address - segment["p_vaddr"]
            if inside >= 0 and inside + symbol.size_bytes <= segment["p_filesz"]:
                return bytes(segment.data()[inside : inside + symbol.size_bytes])
    raise BuildError(f"the firmware has no initialised symbol {name}: it cannot prove its identity")
