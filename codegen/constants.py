"""Constants as arrays in flash: as text, or in a file that the compiler embeds as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tinyhil.codegen.arrange import in_blocks
from tinyhil.codegen.identifiers import comment
from tinyhil.formats.codebook import pack
from tinyhil.formats.codec import storage_dtype
from tinyhil.ops.signs import in_words
from tinyhil.program import Program, Role, Tensor

BINARY_BYTES, BINARY_ALIGNMENT = 64 * 1024, 4  # larger constants: as text a compiler takes minutes
CONSTANTS = "model/constants-*.bin"


@dataclass(slots=True)
class Binary:
    """The file of large constants, filled array by array; named by its content, so that builds see it change."""

    PATH: ClassVar[str] = "@BINARY@"
    content: bytearray = field(default_factory=bytearray)

    @property
    def path(self) -> str:
        """Path in the project, with the first 16 digits of the content's SHA-256."""
        return CONSTANTS.replace("*", hashlib.sha256(self.content).hexdigest()[:16])

    def array(self, kind: str, name: str, values: np.ndarray) -> list[str]:
        """A constant of C++ type `kind` whose elements, little endian, are bytes of the file."""
        self.content += bytes(-len(self.content) % BINARY_ALIGNMENT)
        start, symbol = len(self.content), f"constant_{name}"
        self.content += values.tobytes()
        steps = (
            '.pushsection .rodata.hil,\\"a\\",%progbits',
            f".balign {BINARY_ALIGNMENT}",
            f".type {symbol}, %object",
            f".size {symbol}, {values.nbytes}",
            f"{symbol}:",
            f'.incbin \\"{self.PATH}\\", {start}, {values.nbytes}',
            ".popsection",
        )
        return [
            f'extern "C" const {kind} {name}[{values.size}] __asm__("{symbol}");',
            "__asm__(" + "\n        ".join(f'"{step}\\n"' for step in steps) + ");",
        ]


def constant_lines(program: Program, names: Mapping[str, str], binary: Binary | None = None) -> list[str]:
    """The constants and tables of a program as arrays in flash; with `binary` the large ones lie in that file."""
    lines = []
    for name, values in program.constants.items():
        tensor = program.tensors[name]
        lines.append(f"// {comment(name)}: {tensor.format if tensor.role == Role.CONSTANT else 'look-up table'}")
        lines += [*_array(tensor, names[name], values, binary), ""]
    return lines


def _array(tensor: Tensor, name: str, codes: np.ndarray, binary: Binary | None) -> list[str]:
    """A constant in flash: codes below 8 bits are packed, a codebook's entries follow its indices."""
    fmt = tensor.format
    if tensor.stored is not None:
        codes = np.array(tensor.stored.numbers)
    if tensor.role == Role.TABLE:
        return _defined(c_type(tensor), name, codes.astype(f"<u{fmt.storage_bytes}"), binary)
    if tensor.blocks is not None and tensor.blocks.word:
        words = in_words(2 * codes.reshape(tensor.blocks.axes) - 1, tensor.blocks.word)
        return _defined(f"uint{tensor.blocks.word}_t", name, words.astype(f"<u{tensor.blocks.word // 8}"), binary)
    if tensor.blocks is not None:
        stored = in_blocks(codes, tensor.blocks).astype(storage_dtype(fmt))
        return _defined(c_type(tensor), name, stored, binary, "alignas(4) ")
    if fmt.bits >= 8 and fmt.entries_in_flash is None:
        return _defined(c_type(tensor), name, codes.astype(storage_dtype(fmt)), binary)
    lines = _defined("uint8_t", name, pack(codes, fmt.packed_bits), binary)
    if fmt.entries_in_flash is not None:
        kind, entries = fmt.entries_in_flash
        lines += [f"const {kind} {name}_entries[{len(entries)}] HIL_FLASH = {{", *numbers(np.array(entries)), "};"]
    return lines


def _defined(kind: str, name: str, stored: np.ndarray, binary: Binary | None, alignment: str = "") -> list[str]:
    if binary is not None and stored.nbytes > BINARY_BYTES:
        return binary.array(kind, name, stored)
    return [f"{alignment}const {kind} {name}[{stored.size}] HIL_FLASH = {{", *numbers(stored.reshape(-1)), "};"]


def numbers(values: np.ndarray) -> list[str]:
    """Rows of numbers of at most 100 characters."""
    lines, row = [], "   "
    for value in values.tolist():
        text = f" {value},"
        if len(row) + len(text) > 100:
            lines.append(row)
            row = "   "
        row += text
    return [*lines, row]


def c_type(tensor: Tensor) -> str:
    """The C++ type of a tensor's elements."""
    if tensor.role == Role.TABLE:
        return f"uint{8 * tensor.format.storage_bytes}_t"
    return tensor.format.c_type
