"""What a run of the tests writes beside the cache lies in memory, where there is room for it.

Hundreds of projects of 175 files each, and the compilers' own files: a disk's journal takes the system twice as long.
Removed at the end; if a test has failed, by a later run.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30  # 0.7 GB are written
NAME, VARIABLE = "hil-tests", "TESTS_FILES"  # of all workers of a run


def has_room() -> bool:
    """Whether programs may be written into memory and run there."""
    try:
        found = os.statvfs(MEMORY)
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return False
    (available,) = [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")] or [0]
    return not found.f_flag & os.ST_NOEXEC and min(found.f_bavail * found.f_frsize, available) >= ROOM_BYTES


def begin() -> None:
    """Once a run, by whoever comes first; who has said where temporary files belong is obeyed."""
    if VARIABLE not in os.environ and "TMPDIR" not in os.environ and has_room():
        with contextlib.suppress(FileNotFoundError):  # another run is clearing, too
            clear()
        prefix = f"{NAME}-{os.getpid()}-"
        os.environ[VARIABLE] = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix=prefix, dir=MEMORY)
        tempfile.tempdir = None
        atexit.register(end, os.getpid())


def clear() -> None:
    """Of runs that failed or were killed the last one's files stay."""
    found = {path: os.path.getmtime(path) for path in MEMORY.glob(f"{NAME}-*-*") if path.exists()}
    for path in sorted(found, key=lambda path: found[path])[:-1]:
        if not Path("/proc", path.name.split("-")[-2]).exists():
            shutil.rmtree(path, ignore_errors=True)


def end(owner: int) -> None:
    """Not by a process that was forked from the one that began."""
    if os.getpid() == owner and VARIABLE in os.environ:
        shutil.rmtree(os.environ[VARIABLE], ignore_errors=True)


def keep() -> str:
    """Leave the files where they are; says where."""
    return os.environ.pop(VARIABLE, tempfile.gettempdir())


begin()
