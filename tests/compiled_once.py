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
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import in_memory  # noqa: F401  from here on temporary files lie there

from tinyhil.harness.build.pipeline import runtime_sources

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


def compiling(
    command: Sequence[str], unit: str, project: Path, made: Path, sources: Mapping[str, str | bytes] | None = None
) -> list[list[str]]:
    """Commands, run in `project`, that leave the object of `unit` at `made`: none where it was compiled before.

    `sources`: what lies in `project`, where that is known; else it is read."""
    made.parent.mkdir(parents=True, exist_ok=True)
    made.unlink(missing_ok=True)
    text_of = functools.partial(_text, project, sources)
    command, digest = [*command], hashlib.sha256()
    if "avr" not in command[0] and _takes_all_kernels(text_of, unit):  # avr-gcc 5.4 can not read back what it wrote
        command += with_kernels(command, sources)
    command += ["-I.", "-c", unit, "-o"]
    digest.update(repr(command).encode())
    for name, text in _texts(text_of, unit):
        digest.update(f"{name}\n{_digest(text)}".encode())
    object_file = Path(os.environ[VARIABLE]) / f"{digest.hexdigest()}.o"
    if object_file.is_file():
        shutil.copyfile(object_file, made)
        return []
    return [["sh", "-c", COMPILE, str(object_file), str(made), *command, str(made)]]


def with_kernels(command: Sequence[str], sources: Mapping[str, str | bytes] | None = None) -> list[str]:
    """Flags by which `command`, a compiler with all its flags, takes the kernels of `sources`, ours if there are none,
    as it has compiled them before; they stand before other folders of headers."""
    texts = (sources or runtime_sources()).items()
    headers = tuple((name, text) for name, text in texts if name.startswith(KERNELS) and isinstance(text, str))
    return [f"-I{_kernels(tuple(command), headers)}", "-include", "all.hpp"]


@functools.cache
def _kernels(command: tuple[str, ...], headers: tuple[tuple[str, str], ...]) -> Path:
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


def _text(project: Path, sources: Mapping[str, str | bytes] | None, name: str) -> str | None:
    """Of a file in `project`; None if it is not there."""
    if sources is None:
        return (project / name).read_text() if (project / name).is_file() else None
    text = sources.get(name)
    return text.decode() if isinstance(text, bytes) else text


def _takes_all_kernels(text_of: Callable[[str], str | None], unit: str) -> bool:
    """And defines nothing before that they may ask for."""
    text = text_of(unit) or ""
    return (
        f'#include "{KERNELS}/kernels.hpp"' in text
        and text_of(f"{KERNELS}/kernels.hpp") is not None
        and "#define" not in (text_of("model/model.hpp") or "")
        and "#define" not in text.partition(f"{KERNELS}/kernels.hpp")[0]
    )


def _texts(text_of: Callable[[str], str | None], unit: str) -> Iterator[tuple[str, str]]:
    """The unit, and of all files that it includes by name those of the project."""
    seen, todo = set[str](), [unit]
    while todo:
        name = todo.pop()
        if name in seen or (text := text_of(name)) is None:
            continue
        seen.add(name)
        yield name, text
        for included in _included(text):
            todo += [posixpath.normpath(f"{posixpath.dirname(name)}/{included}"), posixpath.normpath(included)]


@functools.lru_cache(512)
def _included(text: str) -> list[str]:
    return INCLUDE.findall(text)


@functools.lru_cache(512)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
