"""What an error becomes for the user: one line and an exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path

from tinyhil import errors
from tinyhil.quoting import printable

# As the dynamic linker and the threading module say it
NO_ROOM = re.compile(r"failed to map segment|cannot allocate memory|can't start new thread", re.IGNORECASE)
WRAPPED = re.compile(r"\bKeyboardInterrupt\b")  # by pydantic, while it builds a class
RESUMED = ("run", "profile", "search", "sweep", "train")


def failure(error: BaseException, command: str = "run") -> tuple[str, int]:
    """The line and the exit code of an error that ended `hil COMMAND`; what nobody foresaw goes into a log, too."""
    if isinstance(error, errors.HilError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt) or WRAPPED.search(str(error)):
        more = "; what is finished is kept and the same command resumes" if command in RESUMED else ""
        return f"interrupted{more}", errors.EXIT_INTERRUPTED
    if isinstance(error, MemoryError) or (isinstance(error, ImportError | RuntimeError) and NO_ROOM.search(str(error))):
        return "out of memory; use fewer samples or a smaller model", errors.EXIT_USAGE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        remedy = "; make room" if error.errno == errno.ENOSPC else ""
        return f"{where}{error.strerror or error}{remedy}", errors.EXIT_USAGE
    what = printable(f"{type(error).__name__}: {error}".splitlines()[0], 200)
    if where := _in_own_code(error):
        return f"{where}: {what}; all that Python says of it: {defect(error)}", errors.EXIT_USAGE
    return f"a defect of hil: {what}; please report it with {defect(error)}", errors.EXIT_DEFECT


def _in_own_code(error: BaseException) -> str:
    """`file, line N` of the user's own code that raised it, or called what did; empty where none has."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith(errors.OWN_CODE):
            found = f"{frame.f_code.co_filename}, line {line}"
    return found


def defect(error: BaseException | None) -> str:
    """Write what Python knows of an error that nobody foresaw into a file; the file's name."""
    from tinyhil.native import default_cache_dir

    text = "".join([f"hil {sys.argv[1:]}\n", *traceback.format_exception(error)]) if error else ""
    folders: list[Path | None] = [None]
    with suppress(errors.HilError):
        folders.insert(0, default_cache_dir() / "defects")
    for folder in folders:
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(".log", time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime()), folder)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
            return name
        except OSError:
            continue
    return "no log: neither the cache nor the folder for temporary files can be written"
