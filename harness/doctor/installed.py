"""What is installed, too old or missing, and the command that fixes it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tinyhil.errors import EXIT_GATE, EXIT_OK, BoardError
from tinyhil.harness.boards.flash import OPENOCD_MINIMUM
from tinyhil.harness.boards.heal import find_uhubctl
from tinyhil.harness.build.emulators import check_emulator
from tinyhil.harness.build.toolchain import PACKAGES, default_cache_dir
from tinyhil.harness.doctor import serial_ports
from tinyhil.harness.doctor.checks import Check
from tinyhil.harness.doctor.extras import extras
from tinyhil.harness.settings.config import BoardSpec, load_boards
from tinyhil.processes import run

if TYPE_CHECKING:
    from rich.console import Console

PYTHON_MINIMUM = (3, 11)
DISTRIBUTION = "tinyhil"
COMPILER_MINIMUM = {"avr-gcc": (5, 4), "arm-none-eabi-gcc": (10,), "g++": (9,)}
# program: (options with which it prints its version, Debian package, what it is for). Emulated boards are flashed too.
FLASHERS = {
    "avrdude": (("-?",), "avrdude", "Unos, emulated ones too"),
    "bossac": (("--help",), "bossa-cli", "Dues, emulated ones too"),
    "stm32flash": (("/dev/null",), "stm32flash", "an H747 by serial, emulated ones too"),
    "openocd": (("--version",), "openocd", "an attached H747, by ST-LINK"),
}
# program: (first version, first one after, what to know of those in between)
DOUBTFUL = {
    "bossac": (((1, 8), (1, 9, 2), "its --reset loses a Due's boot bit (BOSSA #125): hil leaves it out, do so too"),),
    "openocd": (((0,), OPENOCD_MINIMUM, "too old: sudo apt-get install openocd (0.12 or newer)"),),
}
APT = "sudo apt-get install "
STYLES = {"ok": "green", "warn": "yellow", "optional": "dim", "old": "red", "missing": "red"}
VERSION = re.compile(r"\d+(?:\.\d+)+")


def checks() -> list[Check]:
    """What is installed, tried out one after another."""
    return [
        _python(),
        *_packages(),
        *(_compiler(name) for name in COMPILER_MINIMUM),
        _platformio(),
        *_emulators(),
        _data_set(),
        *(_flasher(name) for name in FLASHERS),
        _optiboot(),
        _uhubctl(),
        *serial_ports.checks(),
        *extras(DISTRIBUTION),
    ]


def exit_code(results: Iterable[Check]) -> int:
    """0 if emulated runs are possible."""
    return EXIT_GATE if any(check.status in ("missing", "old") for check in results) else EXIT_OK


def lines_to_type(results: Iterable[Check]) -> list[str]:
    """What gets all that is missing or too old, as `| sh` can type it: one line of apt-get, which asks nothing, then
    the other commands, each once; what no command can do as a remark. Not what is optional: some of it is large."""
    packages: dict[str, None] = {}
    others: dict[str, None] = {}
    for check in results:
        if check.status in ("ok", "optional") or not check.remedy:
            continue
        _, apt, names = check.remedy.partition(APT)
        if apt:
            packages |= dict.fromkeys(re.findall(r"^[^(;,]*", names)[0].split())
        elif re.match(r"(\S*python\S* -m )?pip install |make ", check.remedy):
            others[check.remedy] = None
        else:
            others[f"# {check.name}: {check.remedy}"] = None
    return [*([_apt_line(packages)] if packages else []), *others]


def _apt_line(packages: Iterable[str]) -> str:
    """Root of a container has no sudo; its lists of packages are empty."""
    sudo = "" if getattr(os, "geteuid", lambda: 1)() == 0 else "sudo "
    install = f"{sudo}apt-get install -y --no-install-recommends {' '.join(packages)}"
    return f"{sudo}apt-get update && {install}"


def report(results: Sequence[Check], console: Console) -> None:
    """Print the checks as a table, and whether emulated runs are ready."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("what", "status", "found", "remedy"):
        table.add_column(heading, overflow="fold")
    for check in results:
        status = Text(check.status, STYLES[check.status])
        table.add_row(Text(check.name), status, Text(check.found), Text(check.remedy))
    console.print(table)
    console.print(verdict(results, emulated_boards()))


def verdict(results: Iterable[Check], boards: Sequence[str]) -> str:
    """Which of the emulated `boards` run as it is, apart from what others lack."""
    bad = [check for check in results if check.status in ("missing", "old")]
    if not bad:
        return "emulated runs: ready"
    lacking = {name for check in bad for name in check.boards or boards}
    ready = [name for name in boards if name not in lacking]
    if not ready:
        return f"emulated runs: {len(bad)} thing(s) to fix, see above"
    others = ", ".join(name for name in boards if name in lacking) or "this computer as a board"
    return f"emulated runs: ready on {', '.join(ready)}; only for {others}: {len(bad)} thing(s) to fix, see above"


def emulated_boards() -> list[str]:
    """Those that run in emulators of ours."""
    entries = load_boards().entries.values()
    return [spec.name for spec in entries if spec.chip.emulator is not None and spec.chip.emulator.kind == "process"]


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info >= PYTHON_MINIMUM:
        return Check("Python", "ok", f"{version} {sys.executable}")
    return Check("Python", "old", version, f"install Python {'.'.join(map(str, PYTHON_MINIMUM))} or newer")


def _packages() -> list[Check]:
    """The distributions tinyhil declares that are absent or too old (all present: one line)."""
    from packaging.requirements import Requirement

    try:
        declared = [Requirement(text) for text in importlib.metadata.requires(DISTRIBUTION) or ()]
    except importlib.metadata.PackageNotFoundError:
        return [Check("Python packages", "missing", f"{DISTRIBUTION} is not installed", "make setup")]
    found = []
    needed = [r for r in declared if r.marker is None or r.marker.evaluate({"extra": ""})]
    for requirement in needed:
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            found.append(Check(requirement.name, "missing", "", f"pip install '{requirement}'"))
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            found.append(Check(requirement.name, "old", version, f"pip install '{requirement}'"))
    return found or [Check("Python packages", "ok", f"all {len(needed)}")]


def _output_of(command: Sequence[str]) -> str:
    """What a program prints, whatever its exit code: many print their version with the help text."""
    try:
        return run(command, 20, stderr=subprocess.STDOUT).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _compiler(name: str) -> Check:
    package, debian = PACKAGES[name]
    install = f"sudo apt-get install {debian}"
    private = default_cache_dir() / "platformio" / "packages" / (package or "none") / "bin" / name
    path = shutil.which(name) or (str(private) if private.is_file() else None)
    boards = tuple(spec.name for spec in load_boards().entries.values() if spec.chip.compiler == name)
    if path is None:
        return Check(name, "missing", "", install, boards)
    text = _output_of([path, "-dumpfullversion", "-dumpversion"]).split()
    version = text[0] if text else "?"
    found = f"{version} {path}"
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < COMPILER_MINIMUM[name]:
        minimum = ".".join(map(str, COMPILER_MINIMUM[name]))
        return Check(name, "old", found, f"need {minimum}: {install}", boards)
    lacking = _missing_library(name, path)
    if lacking:
        return Check(name, "missing", f"{found}, no {lacking}", install, boards)
    return Check(name, "ok", found, boards=boards)


def _missing_library(name: str, path: str) -> str | None:
    """The C library comes in a package of its own; without it the compiler alone is of no use."""
    probe = {"avr-gcc": "libm.a", "arm-none-eabi-gcc": "nano.specs"}.get(name)
    # gcc prints the bare name again when it does not find the file
    arguments = ["-mmcu=atmega328p"] if name == "avr-gcc" else []
    if probe and _output_of([path, *arguments, f"-print-file-name={probe}"]).strip() == probe:
        return "avr-libc" if name == "avr-gcc" else "newlib"
    return None


def _platformio() -> Check:
    for package in ("platformio", "scons"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return Check("PlatformIO", "missing", f"no {package}", f"{sys.executable} -m pip install {package}")
    found = f"{importlib.metadata.version('platformio')}, SCons {importlib.metadata.version('scons')}"
    return Check("PlatformIO", "ok", found)


def _emulators() -> list[Check]:
    """What `hil run` would say of each emulator."""
    named: dict[tuple[str, str], list[BoardSpec]] = {}
    for spec in load_boards().entries.values():
        if spec.chip.emulator:
            named.setdefault((spec.chip.emulator.kind, spec.chip.emulator.program), []).append(spec)
    found = []
    for (kind, program), specs in named.items():
        boards = [spec.name for spec in specs]
        found.append(_emulator(specs[0], boards) if kind == "process" else _emulator_in_path(program, boards))
    return found


def _emulator(spec: BoardSpec, boards: list[str]) -> Check:
    name = f"emulator of {', '.join(boards)}"
    try:
        return Check(name, "ok", check_emulator(spec.chip))
    except BoardError as error:
        why, _, remedy = str(error).partition("; type: ")
        return Check(name, "missing", why, remedy, tuple(boards))


def _emulator_in_path(program: str, boards: list[str]) -> Check:
    name, path = f"emulator of {', '.join(boards)}", shutil.which(program)
    if path is None:
        return Check(name, "warn", f"no {program}", f"sudo apt-get install {program}")
    version = VERSION.search(_output_of([path, "--version"]))
    return Check(name, "ok", f"{version.group(0) if version else '?'} {path}")


def _data_set() -> Check:
    """Absent data are no obstacle: a run downloads them, or takes the windows that ship with tinyhil and says so."""
    from tinyhil.data import har_archive, har_download

    setting = os.environ.get("HIL_DATA")
    places = [default_cache_dir() / har_download.PARSED_FILE]
    if setting:
        places += [Path(setting, "small", "har6_subset.npz"), Path(setting, "har6_subset.npz")]
        archive = har_archive.find(Path(setting)) if Path(setting).is_dir() else None
        places += [Path(setting)] if archive is not None else []
    found = next((place for place in places if place.exists()), None)
    if found:
        return Check("UCI HAR data", "ok", str(found))
    return Check(
        "UCI HAR data", "warn", "not here", "HIL_DATA=/path/to/data, else downloaded, else 119 windows that ship"
    )


def _optiboot() -> Check:
    from tinyhil.harness.boards.boot_loader import SOURCE

    name = "Optiboot source"
    if SOURCE.is_file():
        return Check(name, "ok", str(SOURCE))
    return Check(name, "warn", "needed to flash an emulated Uno", "sudo apt-get install arduino-core-avr")


def _uhubctl() -> Check:
    """Only `hil boards heal` uses it, and only where a bench file names a power switch."""
    name = "uhubctl"
    path = find_uhubctl()
    if path is None:
        return Check(name, "warn", "needed to switch USB power", "sudo apt-get install uhubctl")
    version = VERSION.search(_output_of([path, "-v"]))
    return Check(name, "ok", f"{version.group(0) if version else '?'} {path}")


def _flasher(name: str) -> Check:
    options, debian, purpose = FLASHERS[name]
    path = shutil.which(name)
    if path is None:
        return Check(name, "warn", f"needed for {purpose}", f"sudo apt-get install {debian}")
    version = VERSION.search(_output_of([path, *options]))
    found = f"{version.group(0) if version else '?'} {path}"
    for first, end, remedy in DOUBTFUL.get(name, ()):
        if version and first <= tuple(map(int, version.group(0).split("."))) < end:
            return Check(name, "warn", found, remedy)
    return Check(name, "ok", found)
