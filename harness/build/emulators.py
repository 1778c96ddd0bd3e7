"""The emulators: C programs that ship as sources and are compiled into the cache when they are first needed.

In a checkout `make` leaves them beside their sources, and those are used; else those of the distribution
tinyhil-emulators, if it was made of the same sources.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BoardError, BuildError
from tinyhil.harness.settings.assets import asset
from tinyhil.harness.settings.config import ChipSpec
from tinyhil.native import Library, Notice, compiled
from tinyhil.processes import run

PACKAGED = "tinyhil_emulators"  # the distribution of compiled ones
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-g", "-std=gnu11")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the sources of one folder become a program; the Makefile beside them says the same.

    `headers`: (what must be there, how to get it). `flags` and `links` know where that is.
    """

    headers: tuple[tuple[str, str], ...]
    flags: Callable[[], tuple[str, ...]]
    links: Callable[[], tuple[str, ...]]


def _unicorn() -> Path:
    found = importlib.util.find_spec("unicorn")
    if found is None or found.origin is None:
        raise BoardError(f"the emulator needs the package unicorn; type: {sys.executable} -m pip install unicorn")
    return Path(found.origin).resolve().parent


def _unicorn_links() -> tuple[str, ...]:
    folder = _unicorn() / "lib"
    return (str(folder / "libunicorn.so.2"), f"-Wl,-rpath,{folder}")


SIMAVR = "sudo apt-get install libsimavr-dev libelf-dev"
RECIPES = {
    "uno": Recipe(
        (("simavr/sim_avr.h", SIMAVR), ("libelf.h", SIMAVR)),
        lambda: (),
        lambda: ("-Wl,-Bstatic", "-lsimavr", "-Wl,-Bdynamic", "-lelf", "-lutil"),
    ),
    "cortexm": Recipe(
        (("unicorn/unicorn.h", f"{sys.executable} -m pip install --force-reinstall unicorn"),),
        lambda: (f"-I{_unicorn() / 'include'}",),
        _unicorn_links,
    ),
}


def compiled_emulator(chip: ChipSpec, cache_dir: Path, notice: Notice) -> Path:
    """The emulator of `chip`, compiled on first use, of which `notice` is told; BoardError says how to get it."""
    beside = _beside(chip)
    if beside is not None:
        return beside
    ready = packaged(_folder(chip), Path(_program(chip)).name)
    if isinstance(ready, Path):
        return ready
    if ready:
        notice(ready)
    compiler, library = _library(chip)
    try:
        return compiled(library, compiler, cache_dir, notice)
    except BuildError as error:
        raise BoardError(f"{error}; `hil doctor` says what is missing") from None


def check_emulator(chip: ChipSpec) -> str:
    """Where the emulator of `chip` is or what will be compiled; BoardError if it is not there and can not be made."""
    beside = _beside(chip)
    if beside is not None:
        return str(beside)
    ready = packaged(_folder(chip), Path(_program(chip)).name)
    if isinstance(ready, Path):
        return str(ready)
    compiler, library = _library(chip)
    recipe = RECIPES[_folder(chip).name]
    for header, remedy in recipe.headers:
        if not _has_header(compiler, recipe.flags(), header):
            raise BoardError(f"{library.title} can not be compiled: no {header}; type: {remedy}")
    return f"compiled on first use by {compiler}"


def _library(chip: ChipSpec) -> tuple[str, Library]:
    """The compiler, and what it is to compile."""
    folder = _folder(chip)
    recipe = RECIPES[folder.name]
    compiler = next((name for name in COMPILERS if shutil.which(name)), None)
    if compiler is None:
        raise BoardError(f"the emulator of {chip.name} needs a C compiler; type: sudo apt-get install gcc")
    library = Library(
        title=f"the emulator of {chip.name}",
        name=f"emulators/{Path(_program(chip)).name}",
        sources=tuple(sorted(folder.glob("*.c"))),
        flags=(*FLAGS, *recipe.flags()),
        headers=tuple(sorted(folder.glob("*.h"))),
        links=recipe.links(),
        suffix="",
    )
    return compiler, library


def _program(chip: ChipSpec) -> str:
    if chip.emulator is None:
        raise BoardError(f"{chip.name} has no emulator; attach a board or use --board host")
    return chip.emulator.program


def _folder(chip: ChipSpec) -> Path:
    """Where its sources are."""
    relative = Path(_program(chip)).parent.parent
    return asset(relative.parts[0]).joinpath(*relative.parts[1:])


def _beside(chip: ChipSpec) -> Path | None:
    """The program beside its sources, if it is there and none of them is newer; one that has no recipe, if it is
    there."""
    relative = Path(_program(chip))
    program = asset(relative.parts[0]).joinpath(*relative.parts[1:])
    is_there = os.access(program, os.X_OK) and program.is_file()
    if program.parent.parent.name in RECIPES:
        sources = program.parent.parent.glob("*.[ch]")
        newest = max((path.stat().st_mtime_ns for path in sources), default=0)
        return program if is_there and program.stat().st_mtime_ns >= newest else None
    if is_there:
        return program
    raise BoardError(f"the emulator of {chip.name} is not there ({program}); install tinyhil again")


def packaged(folder: Path, program: str) -> Path | str | None:
    """The program in tinyhil-emulators; why it is not used, where that was made of other sources; None without it."""
    found = importlib.util.find_spec(PACKAGED)
    if found is None or found.origin is None:
        return None
    place = Path(found.origin).resolve().parent
    built = place / "bin" / program
    if not built.is_file():
        return None
    digests = files.read_json(place / "sources.json", "list of sources")
    if not isinstance(digests, dict) or digests.get(folder.name) != digest(folder):
        return f"{built} was made of other sources than this tinyhil has; it is compiled anew"
    return built


def digest(folder: Path) -> str:
    """SHA-256 over names and contents of a folder's C sources (as emulators/hatch_build.py has it)."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.[ch]"), key=lambda path: path.name):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def _has_header(compiler: str, flags: tuple[str, ...], header: str) -> bool:
    command = [compiler, *flags, "-E", "-x", "c", "-include", header, os.devnull]
    return run(command, None).returncode == 0
