"""Finished samples of an unfinished run, on disk as they arrive, so that nothing is lost and a run can resume."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.protocol import Result


@dataclass(frozen=True, slots=True)
class SampleResult:
    """What one sample gave: raw output bytes, ticks, clipped values."""

    output: bytes
    ticks: int
    saturations: int


class PartialRun:
    """An append-only file of JSON lines; a torn last line (power cut) is ignored."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[int, SampleResult] = {}
        if path.is_file():
            for line in path.read_text(errors="replace").splitlines():
                try:
                    item = json.loads(line)
                    self.results[int(item["sample"])] = SampleResult(
                        bytes.fromhex(item["output"]), int(item["ticks"]), int(item["saturations"])
                    )
                except (ValueError, KeyError, TypeError):
                    continue

    @contextmanager
    def recording(self) -> Iterator[PartialRun]:
        """Open the file for `add`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as self._stream:
            yield self

    def add(self, sample: int, result: Result) -> None:
        """Keep one result, flushed to the file."""
        self.results[sample] = SampleResult(result.output, result.ticks, result.saturations)
        line = {
            "sample": sample,
            "output": result.output.hex(),
            "ticks": result.ticks,
            "saturations": result.saturations,
        }
        self._stream.write(json.dumps(line) + "\n")
        self._stream.flush()

    def discard(self) -> None:
        """Remove the file: the run is complete and recorded."""
        self.path.unlink(missing_ok=True)
