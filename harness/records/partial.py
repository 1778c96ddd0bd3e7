"""Finished samples of an unfinished run, on disk as they arrive, so that nothing is lost and a run can resume."""

from __future__ import annotations

import errno
import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, TextIO

from pydantic import Field

from tinyhil import files
from tinyhil.errors import ConfigError
from tinyhil.fields import Count, Exact, Hex
from tinyhil.harness.wire.protocol import Result
from tinyhil.harness.wire.trace import SampleTrace
from tinyhil.sealed import sealed, whole_lines

Word32 = Annotated[int, Field(ge=0, lt=1 << 32)]


class TraceLine(Exact):
    """Instructions and cycles of one sample."""

    instructions: Count
    cycles: Count
    cycles_min: Count
    cycles_max: Count


class PartialLine(Exact):
    """One finished sample of an unfinished run."""

    sample: Count
    output: Hex
    ticks: Word32
    saturations: Word32
    trace: TraceLine | None


@dataclass(frozen=True, slots=True)
class SampleResult:
    """What one sample gave: raw output bytes, ticks, clipped values, and what the emulator's trace says of it."""

    output: bytes
    ticks: int
    saturations: int
    trace: SampleTrace | None = None


def _lock(stream: TextIO) -> None:
    """OSError if another process holds it. Without such locks (Windows) equal runs must not run at the same time."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


class PartialRun:
    """An append-only file of JSON lines; a torn last line (power cut) is ignored.

    The file is locked while the run lasts: an equal run at the same time takes `<name>.2.partial.jsonl`, and so on.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.results: dict[int, SampleResult] = {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self.path, self._stream = _claim(folder, name)
            if (held := self.path.read_bytes()) and not held.endswith(b"\n"):
                self._stream.write("\n")  # a torn line would take the next one with it
            self._adopt_orphans(folder, name)
        self._read(self.path)

    def _adopt_orphans(self, folder: Path, name: str) -> None:
        """Take over what equal runs that have died since left behind: into our own file first, then theirs goes."""
        for path in sorted(folder.glob(f"{name}*.partial.jsonl")):
            if path == self.path:
                continue
            with files.opened(path, "a") as stream:
                try:
                    _lock(stream)
                except OSError:
                    continue  # alive
                self._stream.write(path.read_text(encoding="utf-8", errors="replace").rstrip("\n") + "\n")
                self._stream.flush()
                path.unlink(missing_ok=True)

    def _read(self, path: Path) -> None:
        with path.open("rb") as lines:
            for line in whole_lines(path, lines, PartialLine):
                self._take(line)

    def __enter__(self) -> PartialRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """An empty file goes. One of a complete run stays locked until its record is on disk: `discard`."""
        if error is None and self.results:
            return
        if not self.results:
            self.path.unlink(missing_ok=True)
        with writing(self.path.parent):
            self._stream.close()

    def discard(self) -> None:
        """The record is on disk: now finished samples may go, and with them the lock that kept others from them."""
        self.path.unlink(missing_ok=True)
        self._stream.close()

    def keep(self, samples: int, output_bytes: int) -> None:
        """Leave out what no sample of this run can have given."""
        fitting = {i: r for i, r in self.results.items() if i < samples and len(r.output) == output_bytes}
        self.results = fitting

    def add(self, sample: int, result: Result, trace: SampleTrace | None) -> None:
        """Keep one result, flushed to the file."""
        self.results[sample] = SampleResult(result.output, result.ticks, result.saturations, trace)
        line = {
            "sample": sample,
            "output": result.output.hex(),
            "ticks": result.ticks,
            "saturations": result.saturations,
            "trace": asdict(trace) if trace else None,
        }
        with writing(self.path.parent):
            self._stream.write(sealed(line) + "\n")
            self._stream.flush()

    def forget(self) -> None:
        """None of the results can be trusted: throw them away, on disk too."""
        self.results.clear()
        with writing(self.path.parent):
            self._stream.truncate(0)

    def _take(self, line: PartialLine) -> None:
        t = line.trace
        trace = SampleTrace(t.instructions, t.cycles, t.cycles_min, t.cycles_max) if t else None
        self.results[line.sample] = SampleResult(bytes.fromhex(line.output), line.ticks, line.saturations, trace)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """What fails in this block is the results folder's fault. ConfigError if the folder can not be written."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"results folder {folder} can not be written: {error.strerror}; choose another with --results"
        ) from None


def require_writable(folder: Path) -> None:
    """ConfigError unless files can be made in the results folder, or it in what there is of its parents."""
    with writing(folder):
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        tempfile.TemporaryFile(dir=there).close()


def _claim(folder: Path, name: str) -> tuple[Path, TextIO]:
    """The first file of this name that no living run has locked, open for appending."""
    for number in itertools.count(1):
        path = folder / (f"{name}.partial.jsonl" if number == 1 else f"{name}.{number}.partial.jsonl")
        stream = files.opened(path, "a")
        try:
            _lock(stream)
        except OSError as error:
            stream.close()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            continue
        if path.exists() and os.path.samestat(path.stat(), os.fstat(stream.fileno())):
            return path, stream
        stream.close()  # its owner has just finished and removed it: that one is free, the next will do as well
    raise AssertionError("itertools.count ends never")
