"""Which compiler and which PlatformIO a build uses, checked before anything slow is started."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BuildError, ConfigError
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.native import default_cache_dir as default_cache_dir
from tinyhil.native import is_offline
from tinyhil.processes import run

REGISTRY = "https://api.registry.platformio.org/"
REGISTRY_DEADLINE_S = 1.0
POLICIES = ("auto", "path", "package")
PACKAGES = {  # compiler: (PlatformIO package or none, Debian packages)
    "avr-gcc": ("toolchain-atmelavr", "gcc-avr avr-libc binutils-avr"),
    "arm-none-eabi-gcc": ("toolchain-gccarmnoneeabi", "gcc-arm-none-eabi libnewlib-arm-none-eabi"),
    "g++": (None, "g++"),
}
# These would change what a build produces without being part of its sources.
UNWANTED_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "LANGUAGE")
QUIET_PLATFORMIO = {
    "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
    "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true",
    "PLATFORMIO_SETTING_DISABLE_UDEV_RULES_CHECK": "yes",
    "PLATFORMIO_SETTING_CHECK_PRUNE_SYSTEM_THRESHOLD": "0",
    "PLATFORMIO_DISABLE_PROGRESSBAR": "true",
    "PLATFORMIO_DISABLE_COLOR": "true",
}


@dataclass(frozen=True, slots=True)
class Compiler:
    """`path` is None while PlatformIO has still to download the package; `version` then says which."""

    name: str
    version: str
    origin: str
    path: Path | None

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.origin})"


def core_dir(cache_dir: Path) -> Path:
    """PlatformIO's core directory of our own, never the user's ~/.platformio: what is put into it is ours to keep."""
    return cache_dir / "platformio"


def policy() -> str:
    """Where compilers are taken from, by HIL_TOOLCHAIN; ConfigError if that names no policy."""
    chosen = os.environ.get("HIL_TOOLCHAIN") or "auto"
    if chosen not in POLICIES:
        raise ConfigError(f"HIL_TOOLCHAIN is {chosen!r}, must be one of {', '.join(POLICIES)}")
    return chosen


def registry_answers(deadline_s: float = REGISTRY_DEADLINE_S) -> bool:
    """True if PlatformIO's registry answers in time. A thread, because name lookup has no time-out of its own."""
    if is_offline():
        return False
    answered = threading.Event()

    def ask() -> None:
        try:
            urllib.request.urlopen(REGISTRY, timeout=deadline_s).close()
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                return
        except OSError:
            return
        answered.set()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(deadline_s)
    return answered.is_set()


@functools.lru_cache
def version_of(program: Path) -> str:
    """The version a compiler prints of itself; BuildError if it does not run."""
    try:
        printed = run([program, "-dumpfullversion", "-dumpversion"], 20).stdout.split()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{program} does not run: {error}") from error
    if not printed:
        raise BuildError(f"{program} does not say its version")
    return printed[0]


def find_compiler(board: BoardSpec, cache_dir: Path) -> Compiler:
    """The compiler that building for `board` will use, by the same rules as firmware/platform/platform.py.

    BuildError says how to get it.
    """
    name = board.chip.compiler
    package, debian = PACKAGES[name]
    chosen = policy() if package else "path"
    if package and chosen != "path":
        installed = core_dir(cache_dir) / "packages" / package / "bin" / name
        if installed.is_file():
            files.require_own(installed, BuildError)
            return Compiler(name, version_of(installed), "PlatformIO", installed)
    in_path = shutil.which(name)
    if in_path and chosen != "package":
        return Compiler(name, version_of(Path(in_path)), "PATH", Path(in_path))
    if package and chosen != "path" and registry_answers():
        return Compiler(name, f"of {package}", "PlatformIO, to be downloaded", None)
    place = "not used by HIL_TOOLCHAIN=package" if chosen == "package" else "not in PATH"
    network = "" if chosen == "path" else ", and PlatformIO's registry does not answer"
    raise BuildError(f"{board.name}: compiler {name} is {place}{network}; run: sudo apt-get install {debian}")


def clean_environment() -> dict[str, str]:
    """The environment for compilers: nothing in it changes the result, messages are English."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PLATFORMIO_") and k not in UNWANTED_VARIABLES}
    return inherited | {"LC_ALL": "C.UTF-8"}


def platformio_environment(cache_dir: Path) -> dict[str, str]:
    """Settings with which PlatformIO makes no connection unless a package has to be downloaded.

    Its build engine comes from the interpreter's own SCons: firmware/platform/platform.py puts a stand-in for the
    package tool-scons into a private core directory.
    """
    own = {"PLATFORMIO_CORE_DIR": str(core_dir(cache_dir)), "HIL_TOOLCHAIN": policy()}
    return clean_environment() | QUIET_PLATFORMIO | own


def platformio_command() -> list[str]:
    """`python -m platformio` of the first interpreter that has both PlatformIO and SCons.

    BuildError if PlatformIO is missing.
    """
    if importlib.util.find_spec("platformio") and importlib.util.find_spec("SCons"):
        return [sys.executable, "-m", "platformio"]
    other = Path.home() / ".platformio" / "penv" / "bin" / "python"
    if other.is_file() and _has_platformio(other):
        return [str(other), "-m", "platformio"]
    raise BuildError(f"PlatformIO is missing; run: {sys.executable} -m pip install platformio scons")


def _has_platformio(python: Path) -> bool:
    code = "from importlib.util import find_spec as f; raise SystemExit(not (f('platformio') and f('SCons')))"
    return run([python, "-c", code], 20).returncode == 0
