"""Locks on boards across processes: who holds one, until when, and which board did not answer the last time.

A run holds a kernel lock (filelock), so a process that is killed leaves nothing locked; beside it lies who it is.
A reservation (`hil boards lock`) outlives its process and ends by itself. Both are small files in one folder.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import filelock
from pydantic import AfterValidator, Field, FiniteFloat, TypeAdapter, ValidationError

from tinyhil import files
from tinyhil.errors import BoardError, ConfigError, DataError
from tinyhil.harness.settings.bench_file import Locks
from tinyhil.notice import Say
from tinyhil.quoting import printable

POLL_S = 0.1
END_S = 20.0  # an interrupted run keeps its samples and switches its board off
MOST_BYTES = 10_000
Line = Annotated[str, AfterValidator(lambda text: printable(text, 300))]  # it is shown, and others have written it
Time = Annotated[FiniteFloat, Field(ge=0, lt=1 << 40)]


@dataclass(frozen=True, slots=True)
class Claim:
    """Who uses or reserves a board. Times are seconds since 1970; `started` tells a process from a later namesake."""

    owner: Line
    what: Line
    since: Time
    expires: Time
    pid: Annotated[int, Field(ge=-1, lt=1 << 31)] = 0
    started: Line = ""

    def describe(self, board: str) -> str:
        """One clause for messages."""
        clock = time.strftime("%H:%M:%S", time.localtime(self.expires))
        if self.pid == 0:
            note = f" ({self.what})" if self.what else ""
            return f"{board} is reserved by {self.owner} until {clock}{note}"
        late = f", overdue since {clock}" if time.time() > self.expires else ""
        return f"{board} is in use by {self.owner}, process {self.pid} ({self.what}){late}"


@dataclass(frozen=True, slots=True)
class Wedged:
    """A board that failed its last run and has not answered since."""

    why: Line
    since: Time


CLAIMS, WEDGED = TypeAdapter(Claim), TypeAdapter(Wedged)


class LockFolder:
    """All locks of a bench."""

    def __init__(self, settings: Locks) -> None:
        self.settings = settings
        self.path = Path(settings.folder).expanduser() if settings.folder else default_folder()

    @contextmanager
    def hold(self, names: Sequence[str], board: str, wait_s: float, say: Say) -> Iterator[None]:
        """Hold all locks `names` while the block runs; BoardError names the owner after `wait_s` of waiting."""
        deadline = time.monotonic() + wait_s
        with contextlib.ExitStack() as stack:
            for name in sorted(names):  # the same order everywhere: no two processes wait for each other
                stack.enter_context(self._hold_one(name, board, deadline, say))
            yield

    @contextmanager
    def _hold_one(self, name: str, board: str, deadline: float, say: Say) -> Iterator[None]:
        lock = filelock.FileLock(self._file(name, "lock"), timeout=0)
        announced = False
        while (obstacle := self._try(lock, name)) is not None:
            if time.monotonic() >= deadline:
                raise BoardError(f"{obstacle.describe(board)}; wait longer with --wait, or see `hil boards`")
            if not announced:
                say(f"{obstacle.describe(board)}; waiting up to {deadline - time.monotonic():.0f} s")
                announced = True
            time.sleep(POLL_S)
        try:
            self._write(name, "holder", asdict(self._claim()))
            yield
        finally:
            self._file(name, "holder").unlink(missing_ok=True)
            lock.release()

    def _try(self, lock: filelock.BaseFileLock, name: str) -> Claim | None:
        """Take the lock; else who is in the way."""
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            now = time.time()
            return self.holder(name) or Claim("somebody", "just starting or ending", now, now + POLL_S, pid=-1)
        except OSError as error:
            raise ConfigError(f"lock folder {self.path} can not be used: {error.strerror}; `hil docs bench`") from None
        reserved = self.reservation(name)
        if reserved is None or reserved.owner == owner():
            return None
        lock.release()
        return reserved

    def holder(self, name: str) -> Claim | None:
        """The living process that uses the board now."""
        claim = self._read_claim(name, "holder")
        return claim if claim and started(claim.pid) == claim.started != "" else None

    def reservation(self, name: str) -> Claim | None:
        """A reservation that has not expired."""
        claim = self._read_claim(name, "reserved")
        return claim if claim and claim.expires > time.time() else None

    def reserve(self, names: Sequence[str], board: str, seconds: float, note: str) -> Claim:
        """Keep others away for `seconds`, or until `release`; BoardError if somebody else has reserved it."""
        now = time.time()
        mine = Claim(owner(), note, now, now + seconds)
        with self._changing():
            for name in names:
                other = self.reservation(name)
                if other and other.owner != mine.owner:
                    raise BoardError(f"{other.describe(board)}; `hil boards unlock --force` takes it away")
            for name in names:
                self._write(name, "reserved", asdict(mine))
        return mine

    def release(self, names: Sequence[str], board: str, force: bool) -> bool:
        """End a reservation, with `force` another's too; whether there was one.

        BoardError if somebody else holds the board.
        """
        with self._changing():
            found = [claim for claim in map(self.reservation, names) if claim]
            for claim in found:
                if claim.owner != owner() and not force:
                    raise BoardError(f"{claim.describe(board)}; --force takes it away")
            for name in names:
                self._file(name, "reserved").unlink(missing_ok=True)
        return bool(found)

    def mark_wedged(self, names: Sequence[str], why: str) -> None:
        """Note under each of a board's names why it no longer answers (300 characters), and when."""
        for name in names:
            self._write(name, "wedged", asdict(Wedged(" ".join(why.split())[:300], time.time())))

    def clear_wedged(self, names: Sequence[str]) -> None:
        """Forget the note: the board has answered again."""
        for name in names:
            self._file(name, "wedged").unlink(missing_ok=True)

    def wedged(self, names: Sequence[str]) -> Wedged | None:
        """The first readable note under these names; None: the board is thought to be well."""
        for name in names:
            with contextlib.suppress(ValidationError):
                return WEDGED.validate_python(self._read(name, "wedged"))
        return None

    def _changing(self) -> filelock.BaseFileLock:
        """Reservations are changed by one process at a time."""
        return filelock.FileLock(self._file("reservations", "lock"), timeout=10)

    def _claim(self) -> Claim:
        now, pid = time.time(), os.getpid()
        return Claim(owner(), _command(), now, now + self.settings.expiry_s, pid, started(pid))

    def _file(self, name: str, kind: str) -> Path:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"lock folder {self.path} can not be made: {error.strerror}; `hil docs bench`") from None
        return self.path / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name)[:150]}.{kind}"

    def _write(self, name: str, kind: str, data: dict[str, Any]) -> None:
        try:
            files.write_text(self._file(name, kind), json.dumps(data) + "\n")
        except OSError as error:
            raise ConfigError(
                f"lock folder {self.path} can not be written: {error.strerror}; see `hil docs bench`"
            ) from None

    def _read(self, name: str, kind: str) -> Any:
        try:
            return files.read_json(self._file(name, kind), "lock file", MOST_BYTES)
        except DataError:  # none, or not of ours
            return None

    def _read_claim(self, name: str, kind: str) -> Claim | None:
        try:
            return CLAIMS.validate_python(self._read(name, kind))
        except ValidationError:
            return None


def default_folder() -> Path:
    """In the user's state folder: the same for every cache and bench file, so that equal boards mean equal locks."""
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "tinyhil" / "locks"


def owner() -> str:
    """$HIL_OWNER (a CI job, say), else user@machine."""
    setting = os.environ.get("HIL_OWNER")
    if setting:
        return "".join(c for c in setting if c.isprintable())[:80]
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):
        user = str(os.getuid()) if hasattr(os, "getuid") else "somebody"
    return f"{user}@{platform.node()}"


def started(pid: int) -> str:
    """When a process of this machine was started, in the kernel's ticks; empty if there is none, or it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""


def end_holder(claim: Claim, board: str) -> None:
    """End the process that holds a board, as Ctrl-C would; BoardError if it is not ours to end or does not."""
    try:
        os.kill(claim.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise BoardError(f"{claim.describe(board)}; it belongs to somebody else") from None
    deadline = time.monotonic() + END_S
    while started(claim.pid) == claim.started:
        if time.monotonic() > deadline:
            raise BoardError(f"{claim.describe(board)}; it did not end within {END_S:.0f} s")
        time.sleep(POLL_S)


def _command() -> str:
    words = ["hil", *sys.argv[1:]] if Path(sys.argv[0]).stem in ("hil", "cli") else [Path(sys.argv[0]).name or "python"]
    return " ".join(words)[:100]
