"""The symbols of a linked image or an object file, read as a whole: field by field it takes ten times as long.

Layouts and numbers: System V ABI, chapter 4, "Symbol Table".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

OBJECT, FUNCTION = 1, 2
UNDEFINED, ABSOLUTE, COMMON = 0, 0xFFF1, 0xFFF2


class Entry(NamedTuple):
    """A symbol as the file has it. `kind`: what it names; `section`: where that lies, by its index."""

    name: str
    address: int
    size_bytes: int
    kind: int
    section: int


def entries(elf: ELFFile) -> Iterator[Entry]:
    """In the order of the file; none where it has been stripped."""
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return
    order, data, names = "<" if elf.little_endian else ">", table.data(), table.stringtable.data()
    layout = struct.Struct(f"{order}IIIBBH" if elf.elfclass == 32 else f"{order}IBBHQQ")
    for fields in layout.iter_unpack(data[: len(data) // layout.size * layout.size]):
        if elf.elfclass == 32:
            at, address, size_bytes, info, _, section = fields
        else:
            at, info, _, section, address, size_bytes = fields
        end = names.find(b"\0", at)
        name = names[at : end if end >= 0 else len(names)].decode("utf-8", errors="replace")
        yield Entry(name, address, size_bytes, info & 0xF, section)
