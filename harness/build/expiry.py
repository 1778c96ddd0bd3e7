"""Old builds leave the cache: those unused for long, then the least recently used while all are too large."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

import filelock

MOST_BYTES = 2_000_000_000
MOST_DAYS = 30.0
DAY_S = 86400.0
KEEP_S = DAY_S  # a run may still read its image; no run lasts a day without building or reading it again
MARK = "used"


def mark_used(project: Path) -> None:
    """Remember that this build was used now."""
    with contextlib.suppress(OSError):  # a cache that can only be read is never pruned
        (project / MARK).touch()


def prune_daily(cache_dir: Path) -> None:
    """Prune the projects of a cache, at most once a day: looking at all of them takes a while."""
    stamp = cache_dir / "pruned"
    with contextlib.suppress(OSError):
        if time.time() - stamp.stat().st_mtime < DAY_S:
            return
    with contextlib.suppress(OSError):
        stamp.touch()
        prune(cache_dir / "projects")


def prune(projects: Path, most_bytes: int = MOST_BYTES, most_days: float = MOST_DAYS) -> list[Path]:
    """Remove old projects; those removed. What is locked or was used within a day stays."""
    now = time.time()
    known = sorted((_last_use(path), path) for path in projects.iterdir() if path.is_dir())
    sizes = {path: _size_bytes(path) for _, path in known}
    total, removed = sum(sizes.values()), []
    for used, path in known:  # oldest first
        age_s = now - used
        if age_s < KEEP_S or (age_s < most_days * DAY_S and total <= most_bytes):
            continue
        if _remove(path):
            total -= sizes[path]
            removed.append(path)
    return removed


def _last_use(project: Path) -> float:
    for path in (project / MARK, project):  # projects of older versions have no mark
        with contextlib.suppress(OSError):
            return path.stat().st_mtime
    return time.time()


def _size_bytes(project: Path) -> int:
    total = 0
    for folder, _, names in os.walk(project):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total


def _remove(project: Path) -> bool:
    """Under the lock of its builds. The lock file itself stays: somebody may be waiting for it."""
    try:
        with filelock.FileLock(f"{project}.lock", timeout=0):
            shutil.rmtree(project)
    except (filelock.Timeout, OSError):
        return False
    return True
