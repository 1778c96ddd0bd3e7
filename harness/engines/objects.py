"""Sources of an engine -> one archive: each is compiled once for a compiler, its flags and a state of the checkout."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BuildError
from tinyhil.harness.build.toolchain import clean_environment
from tinyhil.harness.engines.engine import Task, tree_hash
from tinyhil.harness.settings.assets import asset
from tinyhil.processes import run

COMPILE_S = 600.0
WORKERS = 2
CXX_HEADERS = "sudo apt-get install libstdc++-arm-none-eabi-newlib"
SHARED = ("-O2", "-g0", "-w", "-ffunction-sections", "-fdata-sections", "-fno-strict-aliasing", "-ffp-contract=off")
CXX = ("-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-use-cxa-atexit")


@dataclass(frozen=True, slots=True)
class Recipe:
    """`flags` of all files, beside those of the board's core; `std` of C++ and of C."""

    flags: tuple[str, ...]
    cxx: str = "-std=c++17"
    c: str = "-std=gnu11"


def engine_folder(task: Task) -> Path:
    """Where what is made for engines is put: `engines` in the cache. BuildError if it is not ours."""
    folder = task.cache_dir / "engines"
    files.own_folder(folder, BuildError)
    return folder


def header_of_bench(task: Task) -> str:
    """The flag by which generated sources find firmware/bench/hil_bench.h: a copy in the cache, the same whatever
    checkout of ours compiles them, else every object would be made anew for each."""
    content = (asset("firmware") / "bench" / "hil_bench.h").read_bytes()
    root = engine_folder(task) / f"bench-{hashlib.sha256(content).hexdigest()[:16]}"
    for folder in (root, root / "firmware", root / "firmware" / "bench"):
        files.own_folder(folder, BuildError)
    files.write_bytes(root / "firmware" / "bench" / "hil_bench.h", content)
    return f"-I{root}"


def archive(task: Task, units: Sequence[tuple[Path, Recipe]]) -> bytes:
    """An archive of all `units`, of the checkout or generated in the cache. BuildError names what failed."""
    folder = engine_folder(task)
    state = tree_hash(task.source)
    with ThreadPoolExecutor(WORKERS) as pool:
        made = list(pool.map(lambda unit: _object(task, unit[0], unit[1], folder, state), units))
    path = folder / f"{hashlib.sha256(' '.join(map(str, made)).encode()).hexdigest()[:16]}.a"
    ar = Path(str(task.compiler.path).removesuffix("gcc").removesuffix("g++") + "ar")
    path.unlink(missing_ok=True)
    _run([str(ar), "rcsD", str(path), *map(str, made)], task)
    return path.read_bytes()


def _object(task: Task, source: Path, recipe: Recipe, folder: Path, state: str) -> Path:
    chip = task.board.chip
    compiler = str(task.compiler.path)
    is_cxx = source.suffix in (".cc", ".cpp")
    driver = compiler.removesuffix("gcc") + "g++" if is_cxx and compiler.endswith("gcc") else compiler
    language = (recipe.cxx, *CXX) if is_cxx else ("-x", "c", recipe.c) if source.suffix == ".c" else ()
    flags = [*chip.machine.split(), *SHARED, *language, *recipe.flags]
    identity = [str(task.compiler), *flags, source.name, state, hashlib.sha256(source.read_bytes()).hexdigest()]
    path = folder / f"{source.stem}-{hashlib.sha256(chr(0).join(identity).encode()).hexdigest()[:16]}.o"
    if not path.is_file():
        partial = path.with_suffix(f".{id(path)}.tmp")
        _run([driver, *flags, "-c", str(source), "-o", str(partial)], task)
        partial.replace(path)
    return path


def _run(command: list[str], task: Task) -> None:
    try:
        done = run(command, COMPILE_S, env=clean_environment())
    except subprocess.TimeoutExpired:
        raise BuildError(f"{task.source}: no end of {command[0]} within {COMPILE_S:.0f} s") from None
    except OSError as error:
        raise BuildError(f"{command[0]} does not run: {error.strerror}") from None
    if done.returncode:
        printed = done.stderr.splitlines()
        lines = [line for line in printed if "error" in line] or printed or ["no message"]
        missing = re.search(r"fatal error: \w+: No such file", lines[0])
        remedy = f"; run: {CXX_HEADERS}" if missing else ""
        raise BuildError(
            f"{task.board.name}: {Path(command[-3]).name} of {task.source} is not compiled: {lines[0]}{remedy}"
        )
