"""A program of an engine that runs on this computer, compiled of its sources once for a state of the checkout."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import filelock

from tinyhil import files
from tinyhil.errors import BuildError
from tinyhil.harness.build.toolchain import clean_environment
from tinyhil.harness.engines.engine import Task, tree_hash
from tinyhil.harness.engines.objects import engine_folder
from tinyhil.processes import run

TOOL_S = 1800.0
CXX_TOOL = "sudo apt-get install g++"


@dataclass(frozen=True, slots=True)
class HostTool:
    """`units` are made of a folder for generated files, in which the tool will be; `remedy`: where it can not be."""

    name: str
    source: Path
    units: Callable[[Path], Sequence[Path]]
    includes: Callable[[Path], Sequence[Path]]
    libraries: tuple[str, ...] = ()
    remedy: str = CXX_TOOL


def tool_of(tool: HostTool, task: Task) -> Path:
    """The program. BuildError names what failed."""
    folder = engine_folder(task) / f"{tool.name}-{tree_hash(tool.source)[:16]}"
    files.own_folder(folder, BuildError)
    with filelock.FileLock(f"{folder}.lock"):
        path = folder / tool.name
        if not path.is_file():
            _compile(tool, task, folder, path)
        return path


def said(command: list[str], task: Task, remedy: str) -> str:
    """What a command prints. BuildError with the first line of what it complains of."""
    name = Path(command[0]).name
    try:
        done = run(command, TOOL_S, env=clean_environment())
    except subprocess.TimeoutExpired:
        raise BuildError(f"{name}: no end within {TOOL_S:.0f} s; {task.model}") from None
    except OSError as error:
        raise BuildError(f"{name} does not run: {error.strerror}; run: {remedy}") from None
    if done.returncode:
        printed = (done.stderr + done.stdout).splitlines()
        lines = [line for line in printed if "rror" in line or "atal" in line]
        why = (lines or printed[-1:] or ["no message"])[0]
        raise BuildError(f"{name}: {Path(command[-1]).name}: {why.strip()[:200]}")
    return done.stdout


def _compile(tool: HostTool, task: Task, folder: Path, path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        raise BuildError(f"{tool.name}: g++ is not installed; run: {tool.remedy}")
    task.say(f"{tool.name}: compiling it, which takes a minute or two")
    units = tool.units(folder)
    includes = [f"-I{one}" for one in tool.includes(folder)]
    objects: list[str] = []
    for unit in units:
        objects.append(str(folder / f"{unit.stem}-{len(objects)}.o"))
        said([compiler, "-std=c++20", "-O1", "-w", *includes, "-c", str(unit), "-o", objects[-1]], task, tool.remedy)
    partial = folder / f"{tool.name}.tmp"
    said([compiler, *objects, "-o", str(partial), *tool.libraries], task, tool.remedy)
    partial.replace(path)
