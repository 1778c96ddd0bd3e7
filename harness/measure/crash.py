"""What a crash means: the function and line behind a program counter, and a stack that ran out of memory."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from tinyhil.errors import DeviceCrashed, DoesNotFit
from tinyhil.harness.build import elf_symbols
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.stack_depth import stack_bound
from tinyhil.harness.build.weights import ADVICE
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.wire.protocol import Stats

MANGLED, LENGTH = re.compile(r"_Z(N?)K?"), re.compile(r"L?(\d+)")  # L: known in its own file only
REMEDY = "finished samples are kept; fix the firmware, reset the board and run again"
OVERFLOW = "stack overflow"  # as the emulators and MPU guards of ours say it


@contextmanager
def explain_crash(image: Image, board: BoardSpec) -> Iterator[None]:
    """A crash with a program counter is told with the function and line of the image it happened in.

    Raises the DeviceCrashed it was given, with the place; DoesNotFit where the stack ran into static data and the image
    can need more of it than there is: that no firmware mends.
    """
    try:
        yield
    except DeviceCrashed as error:
        if OVERFLOW in str(error) and (needed := _needed(image, board)):
            what = f"{board.name}: {needed[0]}; a run of it ended with: {error}"
            raise DoesNotFit(what, ("RAM", needed[1]), f"{ADVICE} or a larger board") from None
        if error.pc is None:
            raise
        raise DeviceCrashed(f"{error}, in {locate(image.elf, error.pc)}; {REMEDY}", error.pc) from None


def _needed(image: Image, board: BoardSpec) -> tuple[str, int] | None:
    """What does not fit, and by how many bytes, with the deepest stack that the image can need; None where it fits or
    that is unknown."""
    bound, ram_bytes = stack_bound(image, board.chip.core).limit_bytes, board.chip.ram_bytes
    if bound is None or ram_bytes is None or image.static_bytes + bound <= ram_bytes:
        return None
    over = image.static_bytes + bound - ram_bytes
    return (
        f"{image.static_bytes} B static + {bound} B of stack at worst > {ram_bytes} B of RAM, {over} B too much",
        over,
    )


def locate(elf: Path, pc: int) -> str:
    """`function (file:line)` of the instruction at `pc`, as far as the ELF knows."""
    try:
        with elf.open("rb") as stream:
            file = ELFFile(stream)
            function, line = _function(file, pc), _line(file, pc)
    except (OSError, ELFError, ValueError, KeyError):
        return "code this image does not know"
    if function is None:
        return "no function of this image: a wild jump"
    return f"{function} ({line})" if line else function


def _function(file: ELFFile, pc: int) -> str | None:
    for name, address, size_bytes, kind, _ in elf_symbols.entries(file):
        start = address & ~1  # the lowest bit of an ARM function's address says Thumb
        if kind == elf_symbols.FUNCTION and start <= pc < start + max(size_bytes, 2):
            return demangled(name)
    return None


def demangled(name: str) -> str:
    """`_ZN5model3runEPKhPh` as `model::run`; names of templates and operators stay as they are."""
    mangled = MANGLED.match(name)
    if mangled is None:
        return name
    rest, parts = name[mangled.end() :], []
    while (length := LENGTH.match(rest)) is not None:
        end = length.end() + int(length.group(1))
        parts.append(rest[length.end() : end].replace("_GLOBAL__N_1", "(anonymous)"))
        rest = rest[end:]
        if not mangled.group(1):  # not nested: what follows are parameters
            break
    return "::".join(parts) or name


def _line(file: ELFFile, pc: int) -> str | None:
    if not file.has_dwarf_info():
        return None
    dwarf = file.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        states = [entry.state for entry in program.get_entries() if entry.state is not None]
        begin = 0
        for end, state in enumerate(states):
            if not state.end_sequence:
                continue
            sequence = states[begin : end + 1]
            begin = end + 1
            if sequence[0].address <= pc < state.address:
                found = sequence[bisect_right([s.address for s in sequence], pc) - 1]
                return f"{_file_name(program, found.file)}:{found.line}"
    return None


def _file_name(program: object, number: int) -> str:
    """The last two parts of the path: enough to find it, and no machine's own folders."""
    header = program.header  # type: ignore[attr-defined]
    first = 0 if header.version >= 5 else 1
    entry = header.file_entry[number - first]
    folders = header.include_directory
    index = entry.dir_index - first
    folder = folders[index].decode() if 0 <= index < len(folders) else ""
    return "/".join([*Path(folder).parts[-1:], Path(entry.name.decode()).name])


def check_memory(stats: Stats, image: Image, board: BoardSpec, forget: Callable[[], None]) -> None:
    """DeviceCrashed if stack and heap have met, or the stack has run into static data: results may be wrong then.

    `forget` is called first: the session's samples must not be resumed from.
    """
    ram_bytes = board.chip.ram_bytes
    if ram_bytes is None or stats.stack_bytes is None or stats.heap_bytes is None:
        return
    free = ram_bytes - image.static_bytes - stats.stack_bytes - stats.heap_bytes
    if free <= 0:
        forget()
        raise DeviceCrashed(
            f"{board.name}: RAM is used up: {image.static_bytes} B static + {stats.stack_bytes} B stack + "
            f"{stats.heap_bytes} B heap of {ram_bytes} B leave {free} B, so the stack has met the heap or static data; "
            f"nothing of this run is kept; {ADVICE} or a larger board"
        )
