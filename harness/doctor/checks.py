"""One line of the doctor's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "missing", "old", "warn", "optional"]


@dataclass(frozen=True, slots=True)
class Check:
    """`missing` and `old` prevent emulated runs; `warn` and `optional` do not, and `--fix` leaves out the latter.
    `remedy` is a line to type. `boards`: those that alone lack it; empty: every run does."""

    name: str
    status: Status
    found: str = ""
    remedy: str = ""
    boards: tuple[str, ...] = ()
