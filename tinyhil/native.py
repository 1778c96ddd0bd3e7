"""What is compiled on this machine: one place, built once under a lock, and no compiler outlives who started it."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tinyhil import files
from tinyhil.errors import BuildError
from tinyhil.processes import run

Notice = Callable[[str], None]


def to_stderr(line: str) -> None:
    """A notice where nobody else listens."""
    print(line, file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Library:
    """What to compile, and `title` for messages. `links`: what follows the sources on the command line; `suffix` is
    empty for a program. `key`: what else the result depends on, such as the processor."""

    title: str
    name: str
    sources: tuple[Path, ...]
    flags: tuple[str, ...]
    headers: tuple[Path, ...] = ()
    key: str = ""
    links: tuple[str, ...] = ()
    suffix: str = ".so"


def is_offline() -> bool:
    """Whether nothing may be downloaded: HIL_OFFLINE."""
    return os.environ.get("HIL_OFFLINE", "").lower() in ("1", "true", "yes")


def default_cache_dir() -> Path:
    """$HIL_CACHE, else ~/.cache/tinyhil. ConfigError if others may write to it: what it holds is executed."""
    setting = os.environ.get("HIL_CACHE")
    path = (Path(setting).expanduser() if setting else Path.home() / ".cache" / "tinyhil").absolute()
    with suppress(OSError):  # who writes into it says what is wrong
        return files.own_folder(path)
    return path


def compiled(library: Library, compiler: str, cache_dir: Path, notice: Notice) -> Path:
    """The library or program, compiled on first use, of which `notice` is told before and after; who is second waits.

    BuildError if the compiler fails or the cache can not be written. There is no time limit: a busy machine is slow.
    """
    path = cache_dir / f"{library.name}-{_fingerprint(library, compiler)}{library.suffix}"
    for place in (cache_dir, path.parent, path):
        files.require_own(place, BuildError)
    if path.exists():
        return path
    try:
        files.own_folder(path.parent, BuildError)
        with _alone(path, library.title, notice):
            if not path.exists():
                _build(library, compiler, path, notice)
    except OSError as error:
        reason = error.strerror or error
        raise BuildError(f"{library.title} can not be compiled into {cache_dir}: {reason}; set HIL_CACHE") from None
    return path


@contextmanager
def _alone(path: Path, title: str, notice: Notice) -> Iterator[None]:
    try:
        import filelock
    except ImportError:  # in tinyhil-memplan, which needs no package for it: both compile, and rename what is whole
        yield
        return
    lock = filelock.FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        notice(f"{title} is being compiled by another process; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _fingerprint(library: Library, compiler: str) -> str:
    digest = hashlib.sha256(repr((compiler, library.flags, library.links, platform.machine(), library.key)).encode())
    for source in (*library.sources, *library.headers):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _build(library: Library, compiler: str, path: Path, notice: Notice) -> None:
    """Compile next to the final name and rename."""
    notice(f"compiling {library.title}, once per machine")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        command = [*compiler.split(), *library.flags, "-o", str(made), *map(str, library.sources)]
        command += library.links
        returncode, text = run_watched(command)
        lines = [line for line in text.splitlines() if "error" in line] or text.splitlines()
        if returncode or not made.exists():
            reason = lines[0] if lines else "no output"
            raise BuildError(f"{command[0]} could not build {library.title} ({reason})")
        made.replace(path)
    notice(f"compiled {library.title} in {time.monotonic() - begin:.0f} s")


def run_watched(command: Sequence[str]) -> tuple[int, str]:
    """Exit code and error text of a program whose whole process group ends with this process, or with an exception."""
    if shutil.which(command[0]) is None:
        return 127, f"{command[0]}: not found"
    done = run(command, None, stdout=subprocess.DEVNULL)
    return done.returncode, done.stderr
