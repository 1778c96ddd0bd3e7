"""Compiles the programs into the wheel and names the oldest glibc on which they run."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = {"uno": "unosim", "cortexm": "armsim"}
FLAGS = ("-O2", "-std=gnu11", "-s")
OLDEST = 17  # manylinux2014


def digest(folder: Path) -> str:
    """SHA-256 over names and contents of a folder's C sources, as tinyhil computes it."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.[ch]"), key=lambda path: path.name):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def compile_program(folder: Path, out: Path) -> None:
    """What the Makefile beside the sources does; Unicorn is found beside this package when it is installed."""
    origin = importlib.util.find_spec("unicorn").origin
    unicorn = Path(origin).resolve().parent
    before = {"uno": (), "cortexm": (f"-I{unicorn / 'include'}",)}[folder.name]
    links = {
        "uno": ("-Wl,-Bstatic", "-lsimavr", "-Wl,-Bdynamic", "-Wl,--as-needed", "-lelf", "-lutil"),
        "cortexm": (str(unicorn / "lib" / "libunicorn.so.2"), "-Wl,-rpath,$ORIGIN/../../unicorn/lib"),
    }[folder.name]
    sources = sorted(map(str, folder.glob("*.c")))
    subprocess.run([os.environ.get("CC", "cc"), *FLAGS, *before, *sources, "-o", str(out), *links], check=True)


def glibc_of(programs: list[Path]) -> int:
    """The minor version of the glibc 2 that the programs ask for."""
    text = "".join(
        subprocess.run(["objdump", "-T", str(one)], check=True, capture_output=True, text=True).stdout
        for one in programs
    )
    return max(OLDEST, *(int(found) for found in re.findall(r"GLIBC_2\.(\d+)", text)))


class CustomBuildHook(BuildHookInterface):
    """Adds `bin/` and `sources.json` to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; a failure ends the build."""
        self.folder = tempfile.TemporaryDirectory(prefix="tinyhil-emulators-")
        out, root = Path(self.folder.name), Path(self.root)
        programs = []
        for name, program in PROGRAMS.items():
            compile_program(root / name, out / program)
            programs.append(out / program)
            build_data["force_include"][str(out / program)] = f"tinyhil_emulators/bin/{program}"
        sources = {name: digest(root / name) for name in PROGRAMS}
        (out / "sources.json").write_text(json.dumps(sources) + "\n", encoding="utf-8")
        build_data["force_include"][str(out / "sources.json")] = "tinyhil_emulators/sources.json"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{glibc_of(programs)}_{platform.machine()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The programs are in the wheel."""
        self.folder.cleanup()
