"""A linked image as instructions: objdump's text by address, what each function spans, and the bytes of the image."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray

from tinyhil.harness.build import elf_symbols

SHF_ALLOC = 0x2
HEAD = re.compile(r"^([0-9a-f]+) <([^>]+)>:$", re.MULTILINE)
LINE = re.compile(r"^ *([0-9a-f]+):\t([0-9a-f ]+?) *\t(\S+)(?:\t([^\n]*))?$", re.MULTILINE)
VENEER = "_veneer"  # of a linker's jump across memories, which loads where it goes
COMMENTED = re.compile(r"[;@<]")
REFERENCE = re.compile(r"(?:0x)?([0-9a-f]+) <")  # an address that objdump has worked out


class Instruction(NamedTuple):
    """`operands` without objdump's comment; `refers_to`: the address that it names, of a branch or of a literal."""

    address: int
    size: int
    mnemonic: str
    operands: str
    refers_to: int | None

    @property
    def next(self) -> int:
        """Address behind it."""
        return self.address + self.size

    def __str__(self) -> str:
        return f"'{self.mnemonic} {self.operands}'".replace(" '", "'")


@dataclass(frozen=True, slots=True)
class Span:
    """A function, or what stands under a label: from `start` up to, not including, `end`."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Code:
    """`lines`: text of the instructions by address; what the image holds as data has none. `functions`: where those
    begin that a compiler has made."""

    lines: dict[int, tuple[str, str, str]]
    spans: tuple[Span, ...]
    symbols: dict[str, int]
    functions: frozenset[int]
    contents: tuple[tuple[str, int, bytes], ...] = ()
    _read: dict[int, Instruction] = field(default_factory=dict)

    @cached_property
    def _starts(self) -> list[int]:
        return [span.start for span in self.spans]

    def at(self, address: int) -> Instruction | None:
        """None where the image holds no instruction."""
        found = self._read.get(address)
        if found is None and address in self.lines:
            found = self._read[address] = _instruction(address, *self.lines[address])
        return found

    def span_of(self, address: int) -> Span | None:
        """The function that `address` is in."""
        at = bisect.bisect_right(self._starts, address) - 1
        return self.spans[at] if at >= 0 and address < self.spans[at].end else None

    def name_of(self, address: int) -> str:
        """Its function's name, or the address."""
        span = self.span_of(address)
        return span.name if span is not None else hex(address)

    def bytes_at(self, address: int, count: int) -> bytes:
        """Fewer where the image ends."""
        for _, start, data in self.contents:
            if start <= address < start + len(data):
                return data[address - start : address - start + count]
        return b""

    def data_after(self, address: int) -> bytes:
        """What lies between `address` and the next instruction: a table in line."""
        end = address
        while end not in self.lines and self.bytes_at(end, 1):
            end += 1
        return self.bytes_at(address, end - address)

    @cached_property
    def _words(self) -> dict[str, NDArray[np.uint32]]:
        """Of each section, the aligned words that are not instructions, nor where a linker's veneer goes on."""
        parts = [(address, (len(text) - text.count(" ")) // 2 + 3) for address, (text, _, _) in self.lines.items()]
        parts += [(span.start, span.end - span.start) for span in self.spans if span.name.endswith(VENEER)]
        places, sizes = np.array(parts, np.int64).reshape(-1, 2).T
        found = {}
        for name, start, data in self.contents:
            words = np.frombuffer(data[-start % 4 :][: (len(data) - -start % 4) & ~3], "<u4")
            inside = (start <= places) & (places < start + len(data))
            at, edges = places[inside] - start - -start % 4, np.zeros(words.size + 1, np.int64)
            np.add.at(edges, np.minimum(np.maximum(at, 0) // 4, words.size), 1)
            np.add.at(edges, np.minimum((at + sizes[inside]) // 4, words.size), -1)
            is_code = np.cumsum(edges[:-1]) > 0
            found[name] = words[~is_code]
        return found

    def words_between(self, low: int, high: int, but: Collection[str] = ()) -> list[int]:
        """Numbers of 32 bits that the image holds as data, from `low` up to, not including, `high`."""
        chosen = [words for name, words in self._words.items() if name not in but]
        return sorted({int(word) for words in chosen for word in words[(words >= low) & (words < high)]})


def read_code(text: str, elf_path: Path) -> Code:
    """`text`: of `objdump -d`. ELFError, OSError if the file is no ELF file."""
    lines = {
        int(found[1], 16): (found[2], found[3], found[4] or "")
        for found in LINE.finditer(text)
        if not found[3].startswith(".")
    }
    with elf_path.open("rb") as stream:
        elf = ELFFile(stream)
        contents = tuple(
            (section.name, section["sh_addr"], section.data())
            for section in elf.iter_sections()
            if section["sh_flags"] & SHF_ALLOC and section["sh_type"] != "SHT_NOBITS"
        )
        symbols, ends = _symbols(elf)
    return Code(lines, _spans(text, ends), symbols, frozenset(ends), contents)


def _symbols(elf: ELFFile) -> tuple[dict[str, int], dict[int, int]]:
    """Values by name, and ends of functions by start."""
    values: dict[str, int] = {}
    ends: dict[int, int] = {}
    for name, address, size_bytes, kind, _ in elf_symbols.entries(elf):
        values[name] = address
        if kind == elf_symbols.FUNCTION and size_bytes:
            start = address & ~1
            ends[start] = max(ends.get(start, 0), start + size_bytes)
    return values, ends


def _spans(text: str, ends: dict[int, int]) -> tuple[Span, ...]:
    """Functions as far as the compiler says; labels of hand-written code up to the next one."""
    heads = sorted({int(found[1], 16): found[2] for found in HEAD.finditer(text)}.items())
    following = [start for start, _ in heads[1:]] + [1 << 32]
    spans, covered = [], 0
    for (start, name), after in zip(heads, following, strict=True):
        if start >= covered:
            spans.append(Span(name, start, ends.get(start, after)))
            covered = ends.get(start, 0)
    return tuple(spans)


def _instruction(address: int, code: str, mnemonic: str, rest: str) -> Instruction:
    operands, refers_to = _operands(rest)
    return Instruction(address, len(code.replace(" ", "")) // 2, mnemonic, operands, refers_to)


@functools.lru_cache(1 << 14)
def _operands(rest: str) -> tuple[str, int | None]:
    """Without objdump's comment, and the address that is named."""
    found = REFERENCE.search(rest)
    return COMMENTED.split(rest, maxsplit=1)[0].strip(), int(found[1], 16) if found else None
