"""What a run of the tests writes beside the cache lies in memory, where there is room for it.

Hundreds of projects of 175 files each, and the compilers' own files: a disk's journal takes the system twice as long.
Removed at the end, unless a test has failed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30  # 0.7 GB are written
VARIABLE = "TESTS_FILES"  # of all workers of a run


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
        os.environ[VARIABLE] = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="hil-tests-", dir=MEMORY)
        tempfile.tempdir = None
        atexit.register(lambda: shutil.rmtree(os.environ.get(VARIABLE, ""), ignore_errors=True))


def keep() -> str:
    """Leave the files where they are; says where."""
    return os.environ.pop(VARIABLE, tempfile.gettempdir())


begin()
