"""What one run of the tests compiles once: objects of equal sources and flags, and the kernels' headers.

Nearly every image has the same start-up, hardware and wire, and every model includes all kernels. An object lies under
the hash of its command and of all texts that it is made of; one that the compiler had a word about is made again.
test_build.py holds that images built so are those of PlatformIO.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

VARIABLE = "TESTS_OBJECTS"  # the folder, of all workers of a run and of what they start
KERNELS = "firmware/kernels"
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
# Moved when it is whole: the other worker may look.
COMPILE = 'object=$0; made=$1; shift; "$@" 2>"$made.said"; code=$?; cat "$made.said"; [ $code != 0 ] || '
COMPILE += (
    '[ -s "$made.said" ] || { cp "$made" "$object.$$" && mv "$object.$$" "$object"; }; rm "$made.said"; exit $code'
)

if VARIABLE not in os.environ:
    os.environ[VARIABLE] = tempfile.mkdtemp(prefix="hil-objects-")
    atexit.register(shutil.rmtree, os.environ[VARIABLE], ignore_errors=True)


def compiling(command: Sequence[str], unit: str, project: Path, made: Path) -> list[list[str]]:
    """Commands, run in `project`, that leave the object of `unit` at `made`: none where it was compiled before."""
    made.parent.mkdir(parents=True, exist_ok=True)
    made.unlink(missing_ok=True)
    command, digest = [*command], hashlib.sha256()
    if "avr" not in command[0] and _takes_all_kernels(project, unit):  # avr-gcc 5.4 can not read back what it wrote
        command += with_kernels(command, project)
    command += ["-I.", "-c", unit, "-o"]
    for text in (repr(command), *_texts(project, unit)):
        digest.update(text.encode())
    object_file = Path(os.environ[VARIABLE]) / f"{digest.hexdigest()}.o"
    if object_file.is_file():
        shutil.copyfile(object_file, made)
        return []
    return [["sh", "-c", COMPILE, str(object_file), str(made), *command, str(made)]]


def with_kernels(command: Sequence[str], root: Path) -> list[str]:
    """Flags by which `command`, a compiler with all its flags, takes the kernels of `root` as it has compiled them
    before; they stand before other folders of headers."""
    headers = tuple((path.relative_to(root), path.read_text()) for path in sorted((root / KERNELS).rglob("*.hpp")))
    return [f"-I{_kernels(tuple(command), headers)}", "-include", "all.hpp"]


@functools.cache
def _kernels(command: tuple[str, ...], headers: tuple[tuple[Path, str], ...]) -> Path:
    key = hashlib.sha256(repr((command, headers)).encode()).hexdigest()
    folder = Path(os.environ[VARIABLE]) / key
    if folder.is_dir():
        return folder
    making = Path(tempfile.mkdtemp(dir=folder.parent))
    for name, text in headers:
        (making / name).parent.mkdir(parents=True, exist_ok=True)
        (making / name).write_text(text)
    (making / "all.hpp").write_text(f'#include "{KERNELS}/kernels.hpp"\n')
    called = [*command, "-Wno-error", "-I.", "-x", "c++-header", "all.hpp", "-o", "all.hpp.gch"]
    subprocess.run(called, cwd=making, check=True, capture_output=True)
    try:
        making.rename(folder)
    except OSError:  # the other worker was first
        shutil.rmtree(making)
    return folder


def _takes_all_kernels(project: Path, unit: str) -> bool:
    """And defines nothing before that they may ask for."""
    header, path = project / "model/model.hpp", project / unit
    return (
        (project / KERNELS / "kernels.hpp").is_file()
        and f'#include "{KERNELS}/kernels.hpp"' in path.read_text()
        and not (header.is_file() and "#define" in header.read_text())
        and "#define" not in path.read_text().partition(f"{KERNELS}/kernels.hpp")[0]
    )


def _texts(project: Path, unit: str) -> Iterator[str]:
    """The unit, and of all files that it includes by name those of the project."""
    seen, todo = set[Path](), [project / unit]
    while todo:
        path = todo.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = path.read_text()
        yield f"{path.relative_to(project)}\n{text}"
        for name in INCLUDE.findall(text):
            todo += [path.parent / name, project / name]
