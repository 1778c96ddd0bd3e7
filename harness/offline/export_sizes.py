"""What an exported library takes on a processor: compiled and linked here with a `main` that only calls it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from tinyhil.codegen.exported_library import CALLER, Library
from tinyhil.errors import BuildError, DoesNotFit
from tinyhil.harness.build import elf_symbols
from tinyhil.harness.build.stack_depth import StackBound, call_bound
from tinyhil.processes import run

SHF_WRITE, SHF_ALLOC = 0x1, 0x2
DEADLINE_S = 120.0
SAID = re.compile(r"(?:\berror|/ld): (.*)$")  # by compiler or linker, behind paths of ours
FLAGS = ("-std=gnu++11", "-Os", "-ffunction-sections", "-fdata-sections", "-fno-exceptions", "-fno-rtti")
LINK = ("-nostartfiles", "-Wl,--gc-sections", "-Wl,-e,main", "-Wl,-u,main")


@dataclass(frozen=True, slots=True)
class Processor:
    """A core that sizes of exported libraries are measured for, and its compiler."""

    name: str
    core: str
    compiler: str
    flags: tuple[str, ...]


PROCESSORS = (
    Processor("ATmega328P, as on an Uno", "avr", "avr-g++", ("-mmcu=atmega328p",)),
    Processor(
        "Cortex-M3, as on a Due",
        "cortex-m3",
        "arm-none-eabi-g++",
        ("-mcpu=cortex-m3", "-mthumb", "--specs=nosys.specs"),
    ),
    Processor(
        "Cortex-M7, as on an H747",
        "cortex-m7",
        "arm-none-eabi-g++",
        ("-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard", "--specs=nosys.specs"),
    ),
    Processor(
        "Cortex-M0+, as on a Pico or G0B1",
        "cortex-m0plus",
        "arm-none-eabi-g++",
        ("-mcpu=cortex-m0plus", "-mthumb", "--specs=nosys.specs"),
    ),
    Processor(
        "Cortex-M4, as on a Nano 33 BLE, XIAO, L4R5",
        "cortex-m4",
        "arm-none-eabi-g++",
        ("-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "--specs=nosys.specs"),
    ),
    Processor(
        "Cortex-M33, as on a Pico 2, U575",
        "cortex-m33",
        "arm-none-eabi-g++",
        ("-mcpu=cortex-m33", "-mthumb", "-mfpu=fpv5-sp-d16", "-mfloat-abi=hard", "--specs=nosys.specs"),
    ),
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a program that calls one function; `ram_bytes` without stack, `stack` of one call."""

    flash_bytes: int
    ram_bytes: int
    stack: StackBound


def predict_sizes(library: Library, sources: Mapping[str, str], core: str) -> Sizes | None:
    """Of a program for a core that only calls `predict`; None where no compiler is here; BuildError if it does not
    compile or fits no chip of the core."""
    found = next((one for one in PROCESSORS if one.core == core and shutil.which(one.compiler) is not None), None)
    if found is None:
        return None
    with tempfile.TemporaryDirectory() as name:
        return measure(library, found, _written(sources, Path(name)), "predict")


def _written(sources: Mapping[str, str], folder: Path) -> Path:
    for path, text in sources.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def compilers_for(library: Library) -> list[Processor]:
    """The processors that the library is for and whose compiler is here."""
    wanted = [processor for processor in PROCESSORS if library.core in ("", processor.core)]
    return [processor for processor in wanted if shutil.which(processor.compiler) is not None]


def state_sizes(library: Library, sources: Mapping[str, str]) -> list[str]:
    """Markdown: flash and RAM for every processor whose compiler is here, or why it can not take the library;
    BuildError if no compiler is here, DoesNotFit if none takes it."""
    with tempfile.TemporaryDirectory() as name:
        folder = _written(sources, Path(name))
        rows, refused = list[str](), list[str]()
        for processor in compilers_for(library):
            try:
                rows.append(_row(library, processor, folder))
            except BuildError as error:
                refused.append(f"| {processor.name} | {processor.compiler} | {error} | |")
                reason = f"{processor.name}: {error}"
    if not rows and refused:
        raise DoesNotFit(f"{reason}; no processor whose compiler is here takes it")
    if not rows:
        compilers = ", ".join(dict.fromkeys(processor.compiler for processor in PROCESSORS))
        raise BuildError(f"--sizes: no compiler of these is here: {compilers}; hil doctor says how to get them")
    x = library.prefix
    return [
        "## Sizes",
        f"Of a program that only calls `{x}_run` or `{x}_predict`, `-Os`: flash with weights, RAM without stack, of it",
        "what is beyond the arena, and the deepest stack of one call, interrupts not counted. The start-up code of any",
        "program (some 130 B on an Uno) is beside these.",
        "",
        "| Processor | Compiler | `run`: flash, RAM, beyond the arena, stack | `predict`: the same |",
        "|---|---|---|---|",
        *rows,
        *refused,
        "",
    ]


def _row(library: Library, processor: Processor, folder: Path) -> str:
    cells = []
    for function, arena in (("run", library.run_bytes), ("predict", library.predict_bytes)):
        sizes = measure(library, processor, folder, function)
        own = 0 if library.arena == CALLER else arena
        stack = "unknown" if sizes.stack.limit_bytes is None else f"{sizes.stack.limit_bytes:,} B"
        cells.append(f"{sizes.flash_bytes:,} B, {sizes.ram_bytes:,} B, {sizes.ram_bytes - own:,} B, {stack}")
    version = _run([processor.compiler, "-dumpversion"])
    return f"| {processor.name} | {processor.compiler} {version.strip()} | {cells[0]} | {cells[1]} |"


def measure(library: Library, processor: Processor, folder: Path, function: str) -> Sizes:
    """The sizes of a program that calls `function`, whose library's sources are in `folder`."""
    x = library.prefix
    arena = "(void *)0x100, " if library.arena == CALLER else ""
    kinds = ("float", "float") if function == "predict" else (f"{x}_input", f"{x}_output")
    call = f"{x}_{function}({arena}(const {kinds[0]} *)0x200, ({kinds[1]} *)0x300)"
    main, program = folder / "main.cpp", folder / "program.elf"
    main.write_text(f'#include "{x}.h"\nint main() {{ return {call}; }}\n', encoding="utf-8")
    objects = [str(folder / "main.o"), str(folder / f"{x}.o")]
    for source, built in zip((main, folder / f"{x}.cpp"), objects, strict=True):
        _run([processor.compiler, *processor.flags, *FLAGS, "-c", str(source), "-o", built])
    linker = processor.compiler.replace("g++", "gcc")  # nothing of a C++ library is needed
    _run([linker, *processor.flags, *LINK, *objects, "-o", str(program)])
    return Sizes(*section_bytes(program), call_bound(program, processor.core, f"{x}_{function}"))


def section_bytes(program: Path) -> tuple[int, int]:
    """Flash and RAM of an ELF file; a section without a symbol of any size is how a linker script aligns what
    follows."""
    flash = ram = 0
    with program.open("rb") as stream:
        elf = ELFFile(stream)
        filled = {symbol.section for symbol in elf_symbols.entries(elf) if symbol.size_bytes}
        for number, section in enumerate(elf.iter_sections()):
            is_empty = section["sh_type"] == "SHT_NOBITS" and number not in filled
            if section["sh_flags"] & SHF_ALLOC and not is_empty:
                is_ram = bool(section["sh_flags"] & SHF_WRITE)
                ram += section["sh_size"] if is_ram else 0
                flash += section["sh_size"] if section["sh_type"] != "SHT_NOBITS" else 0
    return flash, ram


def _run(command: list[str]) -> str:
    try:
        done = run(command, DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise BuildError(f"{command[0]} gave no result after {DEADLINE_S:.0f} s") from None
    if done.returncode != 0:
        said = next(filter(None, map(SAID.search, done.stderr.splitlines())), None)
        raise BuildError(f"does not fit: {said[1] if said else done.stderr.strip()[-200:]}")
    return done.stdout
