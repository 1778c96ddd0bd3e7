"""Sources -> image: one project directory per content, PlatformIO for chips, g++ for the host.

The directory's name is the hash of everything that determines the image, so a directory that holds a finished
build is that build: it is read, and nothing is started.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import filelock

from tinyhil import files, time_limit
from tinyhil.codegen.model import Source
from tinyhil.errors import BuildError, DataError
from tinyhil.harness.build.build_log import explain
from tinyhil.harness.build.expiry import mark_used, prune_daily
from tinyhil.harness.build.image import Image, read_contents
from tinyhil.harness.build.platformio import defines
from tinyhil.harness.build.scripts import script
from tinyhil.harness.build.toolchain import (
    Compiler,
    clean_environment,
    find_compiler,
    platformio_command,
    platformio_environment,
)
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.notice import Say
from tinyhil.processes import run
from tinyhil.quoting import plain_path

DEADLINE_S = 600.0  # a first build may download a compiler; one without takes a second or two
FULL = (errno.ENOSPC, errno.EDQUOT)
LEAST_FREE_BYTES = 1 << 20  # with less a disk is full, whatever a compiler says: its log may be there, too
STAMP = "built.json"
LOG = "build.log"
HOST_FLAGS = (
    *("-std=gnu++14", "-O2", "-g", "-Wall", "-Wextra", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"),
    *(
        "-ffunction-sections",
        "-fdata-sections",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-Wl,--gc-sections",
        "-Wl,--build-id=none",
    ),
)

Step = list[str] | Path  # a command, or the ELF file that is given its identity


@dataclass(frozen=True, slots=True)
class Recipe:
    """One build: where, for what, with which compiler, and the files it must leave behind."""

    project_dir: Path
    board: BoardSpec
    compiler: Compiler
    cache_dir: Path
    elf: Path
    load_path: Path


def build(sources: Mapping[str, Source], board: BoardSpec, *, cache_dir: Path, log: Say) -> Image:
    """The image of `sources` (project-relative path -> content) for `board`; built only if it is not there yet.

    BuildError if it fails or another build holds the project.
    """
    compiler = find_compiler(board, cache_dir)
    recipe = _recipe(sources, board, compiler, cache_dir)
    try:
        for place in (recipe.project_dir.parent, recipe.project_dir):
            files.own_folder(place, BuildError)
        for place in (recipe.elf, recipe.load_path):
            files.require_own(place, BuildError)
        with filelock.FileLock(f"{recipe.project_dir}.lock", timeout=DEADLINE_S):
            changed = _write_sources(sources, recipe.project_dir)
            rebuilt = changed or not _is_built(recipe)
            if rebuilt:
                _build_anew(sources, recipe, log)
            mark_used(recipe.project_dir)
    except filelock.Timeout as error:
        raise BuildError(
            f"{board.name}: another build holds {recipe.project_dir}.lock for over {DEADLINE_S:.0f} s"
        ) from error
    except OSError as error:
        raise cache_full(cache_dir, error) from None
    if rebuilt:
        prune_daily(cache_dir)
    return _image(recipe, rebuilt)


def cache_full(cache_dir: Path, error: OSError) -> BuildError:
    """What to say when the cache takes no more: room helps a full one alone."""
    where = error.filename or cache_dir
    remedy = "make room in the cache, or set" if error.errno in FULL else "set"
    return BuildError(f"{where}: {error.strerror or error}; {remedy} HIL_CACHE to another folder")


def _recipe(sources: Mapping[str, Source], board: BoardSpec, compiler: Compiler, cache_dir: Path) -> Recipe:
    identity = {
        "sources": {path: hashlib.sha256(files.as_bytes(content)).hexdigest() for path, content in sources.items()},
        "board": board.name,
        "defines": defines(board),
        "clock_hz": board.chip.clock_hz,
        "compiler": str(compiler),
        "host_flags": HOST_FLAGS if board.is_host else [],
    }
    key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
    project = Path(plain_path(cache_dir, "PlatformIO", BuildError)) / "projects" / key
    if board.is_host:
        executable = project / "build" / "firmware"
        return Recipe(project, board, compiler, cache_dir, executable, executable)
    output = project / ".pio" / "build" / board.name
    return Recipe(project, board, compiler, cache_dir, output / "firmware.elf", output / f"firmware.{board.chip.load}")


def _write_sources(sources: Mapping[str, Source], project: Path) -> bool:
    """Make the source tree equal to `sources`; True if anything had to change. Equal files keep their time stamps."""
    changed, folders = False, set[str]()
    for name, content in sources.items():
        if name.startswith("/") or ".." in name.split("/"):
            raise BuildError(f"source path {name!r} leads out of the project")
        path, data = project / name, files.as_bytes(content)
        if not _holds(path, data):
            if (folder := name.rpartition("/")[0]) not in folders:
                path.parent.mkdir(parents=True, exist_ok=True)
                folders.add(folder)
            path.write_bytes(data)
            changed = True
    for folder in ("firmware", "model"):
        for place, _, names in os.walk(project / folder):
            inside = os.path.relpath(place, project)
            for name in [] if inside.endswith("__pycache__") else names:
                if f"{inside}/{name}" not in sources:
                    os.unlink(os.path.join(place, name))
                    changed = True
    return changed


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except (FileNotFoundError, NotADirectoryError):
        return False


def _build_anew(sources: Mapping[str, Source], recipe: Recipe, log: Say) -> None:
    # SCons does not notice outputs that were altered: none may be left.
    for path in (recipe.project_dir / STAMP, recipe.elf, recipe.load_path):
        path.unlink(missing_ok=True)
    board = recipe.board
    log(f"{board.name}: compiling with {recipe.compiler}")
    started = time.monotonic()
    steps = (_host_steps if board.is_host else _platformio_steps)(sources, recipe)
    environment = clean_environment() if board.is_host else platformio_environment(recipe.cache_dir)
    output = _run_all(steps, environment, recipe)
    for line in output.splitlines():
        if ": warning: " in line:
            log(line)
    if not (recipe.elf.is_file() and recipe.load_path.is_file()):
        raise BuildError(f"{board.name}: the build left no {recipe.load_path.name}; log: {recipe.project_dir / LOG}")
    stamp = recipe.project_dir / STAMP
    files.write_text(stamp, json.dumps(_digests(recipe), indent=1))
    log(f"{board.name}: built in {time.monotonic() - started:.1f} s")


def _platformio_steps(_sources: Mapping[str, Source], recipe: Recipe) -> list[Step]:
    return [[*platformio_command(), "run", "-d", str(recipe.project_dir), "-e", recipe.board.name]]


def _host_steps(sources: Mapping[str, Source], recipe: Recipe) -> list[Step]:
    board = recipe.board
    units = sorted(
        name
        for name in sources
        if name == "firmware/main.cpp"
        or PurePosixPath(name).match("firmware/wire/*.cpp")
        or PurePosixPath(name).match(f"firmware/hal/{board.chip.hal}/*.cpp")
        or PurePosixPath(name).match("model/*.cpp")
    )
    definitions = [f"-D{name}" for name in (f"F_CPU={board.chip.clock_hz}L", *defines(board))]
    recipe.elf.parent.mkdir(exist_ok=True)
    compiler, elf = str(recipe.compiler.path), str(recipe.elf)
    engines = sorted(name for name in sources if PurePosixPath(name).match("model/*.a"))
    compile_and_link = [compiler, *HOST_FLAGS, *definitions, "-I.", *units, *engines, "-o", elf, "-lm"]
    return [compile_and_link, recipe.elf]


def _run_all(steps: list[Step], environment: dict[str, str], recipe: Recipe) -> str:
    """Take the steps in the project directory, output kept in build.log; the error of the first that fails."""
    log_path = recipe.project_dir / LOG
    deadline = time.monotonic() + DEADLINE_S
    with files.opened(log_path, "w") as stream:
        for step in steps:
            code = _run(step, environment, stream.fileno(), recipe.project_dir, deadline)
            if code is None:
                raise BuildError(f"{recipe.board.name}: no result after {DEADLINE_S:.0f} s; log: {log_path}")
            if code != 0:
                text = log_path.read_text(encoding="utf-8", errors="replace")
                is_full = shutil.disk_usage(recipe.project_dir).free < LEAST_FREE_BYTES
                why = errno.ENOSPC if is_full else None
                why = next((code for code in (errno.EROFS, *FULL) if os.strerror(code) in text), why)
                if why is not None:
                    raise cache_full(recipe.cache_dir, OSError(why, os.strerror(why)))
                raise explain(text, log_path, recipe.elf.parent, recipe.board)
    return log_path.read_text(encoding="utf-8", errors="replace")


def _run(step: Step, environment: dict[str, str], out: int, cwd: Path, deadline: float) -> int | None:
    """Exit code, or None if the deadline has passed; a limit of time that somebody has set ends it, too."""
    time_limit.check()
    if isinstance(step, Path):
        return _identified(step, out)
    try:
        left_s = time_limit.seconds_left(deadline - time.monotonic())
        return run(step, left_s, cwd=cwd, env=environment, stdout=out, stderr=subprocess.STDOUT).returncode
    except subprocess.TimeoutExpired:
        time_limit.check()
        return None


def _identified(elf: Path, out: int) -> int:
    try:
        os.write(out, f"image {script('image_hash').patch(str(elf)).hex()}\n".encode())
    except Exception as error:  # the script's own class, and those of a damaged file
        os.write(out, f"error: image_hash: {elf}: {error}\n".encode())
        return 1
    return 0


def _digests(recipe: Recipe) -> dict[str, str]:
    """By file name: a cache may be moved, and be reached by several paths."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (recipe.elf, recipe.load_path)}


def _is_built(recipe: Recipe) -> bool:
    try:
        stamp = files.read_json(recipe.project_dir / STAMP, "stamp")
        return {Path(path).name: digest for path, digest in stamp.items()} == _digests(recipe)
    except (OSError, DataError, AttributeError):
        return False


def _image(recipe: Recipe, rebuilt: bool) -> Image:
    contents = read_contents(recipe.elf)
    compiler = recipe.compiler
    if compiler.path is None:  # PlatformIO has downloaded it meanwhile
        compiler = find_compiler(recipe.board, recipe.cache_dir)
    return Image(
        board=recipe.board.name,
        project_dir=recipe.project_dir,
        elf=recipe.elf,
        load_path=recipe.load_path,
        hash=contents.hash,
        flash_bytes=contents.flash_bytes,
        static_bytes=contents.static_bytes,
        symbols=contents.symbols,
        compiler=compiler,
        rebuilt=rebuilt,
        copied_bytes=contents.copied_bytes,
    )
