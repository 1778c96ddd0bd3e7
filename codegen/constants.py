"""Constants as arrays in flash: as text, or in a file that the compiler embeds as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tinyhil.codegen.identifiers import comment
from tinyhil.language.program import Program, Role, Tensor
from tinyhil.passes.stored import InFlash, is_packed, stored

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

    def array(self, kind: str, name: str, values: np.ndarray, is_hot: bool = False) -> list[str]:
        """A constant of C++ type `kind` whose elements, little endian, are bytes of the file."""
        self.content += bytes(-len(self.content) % BINARY_ALIGNMENT)
        start, symbol = len(self.content), f"constant_{name}"
        self.content += values.tobytes()
        section = '" HIL_HOT_SECTION "' if is_hot else ".rodata.hil"
        steps = (
            f'.pushsection {section},\\"a\\",%progbits',
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


def constant_lines(
    program: Program, names: Mapping[str, str], binary: Binary | None = None, hot: Collection[str] = ()
) -> list[str]:
    """The constants and tables of a program as arrays in flash; with `binary` the large ones lie in that file. Those
    named in `hot` are copied to memory without wait states (tinyhil/passes/hot.py)."""
    lines = []
    for name, values in program.constants.items():
        tensor = program.tensors[name]
        lines.append(f"// {comment(name)}: {tensor.format if tensor.role == Role.CONSTANT else 'look-up table'}")
        lines += _defined(stored(tensor, values), names[name], binary, name in hot)
        lines += [*_entries(tensor, names[name]), ""]
    return lines


def _entries(tensor: Tensor, name: str) -> list[str]:
    """What follows the indices of a codebook."""
    if not is_packed(tensor) or tensor.format.entries_in_flash is None:
        return []
    kind, entries = tensor.format.entries_in_flash
    return [f"const {kind} {name}_entries[{len(entries)}] HIL_FLASH = {{", *numbers(np.array(entries)), "};"]


def _defined(stored: InFlash, name: str, binary: Binary | None, is_hot: bool) -> list[str]:
    values = stored.values
    if binary is not None and values.nbytes > BINARY_BYTES:
        return binary.array(stored.kind, name, values, is_hot)
    where = "HIL_HOT" if is_hot else "HIL_FLASH"
    head = f"{stored.alignment}const {stored.kind} {name}[{values.size}] {where} = {{"
    return [head, *numbers(values.reshape(-1)), "};"]


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
