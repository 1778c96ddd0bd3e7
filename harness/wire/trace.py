"""The emulator's trace of timed sections -> exact instructions and cycle bounds per sample.

Each line is `tag instructions cycles cycles_min cycles_max`, cumulative; the tag is the sample's number at the start of
a section and has its highest bit set at the end. Sections with the tag CALIBRATION are empty and give the overhead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

END = 0x80000000
CALIBRATION = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class SampleTrace:
    """Instructions, modelled cycles and bounds of these, of one inference."""

    instructions: int
    cycles: int
    cycles_min: int
    cycles_max: int


class TraceReader:
    """Follows a trace while it is written: the emulator flushes it before it tells the host anything."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._overhead = [0, 0, 0, 0]
        self._begin = [0, 0, 0, 0]
        self._last_tag: int | None = None
        self._samples: list[list[int]] = []

    def sample(self, index: int) -> SampleTrace | None:
        """What the sample computed as number `index` took; None if there is no trace of it."""
        self._read()
        return SampleTrace(*self._samples[index]) if index < len(self._samples) else None

    def _read(self) -> None:
        if not self._path.is_file():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._position)
            lines = stream.read().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                break
            self._position += len(line)
            tag, *now = (int(field) for field in line.split())
            self._take(tag, now)

    def _take(self, tag: int, now: list[int]) -> None:
        if not tag & END:
            self._begin = now
            return
        spent = [b - a for a, b in zip(self._begin, now, strict=True)]
        if tag & ~END == CALIBRATION:  # a reset: what came before was another session
            self._overhead, self._last_tag, self._samples = spent, None, []
            return
        if tag != self._last_tag:
            self._samples.append([0, 0, 0, 0])
            self._last_tag = tag
        net = [a - b for a, b in zip(spent, self._overhead, strict=True)]
        self._samples[-1] = [a + b for a, b in zip(self._samples[-1], net, strict=True)]
