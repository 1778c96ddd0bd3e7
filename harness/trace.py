"""The emulator's trace of timed sections -> exact instructions and cycle bounds per sample.

Each line is `tag instructions cycles cycles_min cycles_max`, cumulative; the tag is the sample's number at the start of a
section and has its highest bit set at the end. Sections with the tag CALIBRATION are empty and give the overhead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

END = 0x80000000
CALIBRATION = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class SampleTrace:
    """Instructions and modelled cycle bounds of one inference."""

    instructions: int
    cycles_min: int
    cycles_max: int


def read_trace(path: Path) -> list[SampleTrace]:
    """One entry per sample in the order of computation; empty if the emulator wrote no trace."""
    overhead = [0, 0, 0]
    samples: list[list[int]] = []
    begin: list[int] = []
    last_tag = None
    for line in path.read_text().splitlines() if path.is_file() else ():
        tag, instructions, _, low, high = (int(field) for field in line.split())
        now = [instructions, low, high]
        if not tag & END:
            begin = now
            continue
        spent = [b - a for a, b in zip(begin, now, strict=True)]
        if tag & ~END == CALIBRATION:
            overhead, last_tag, samples = spent, None, []  # a reset: what came before was another session
            continue
        spent = [a - b for a, b in zip(spent, overhead, strict=True)]
        if tag != last_tag:
            samples.append([0, 0, 0])
            last_tag = tag
        samples[-1] = [a + b for a, b in zip(samples[-1], spent, strict=True)]
    return [SampleTrace(*sums) for sums in samples]
