"""What counts where time and memory disagree (memplan/arena/preference.py, codegen/transfer.py)."""

from __future__ import annotations

from dataclasses import dataclass

BALANCED, LATENCY, RAM = "balanced", "latency", "ram"
PREFERENCES = (BALANCED, LATENCY, RAM)


@dataclass(frozen=True, slots=True)
class Wish:
    """What counts, whether samples arrive while others are computed, and whether each must lie in one slot."""

    prefer: str = BALANCED
    overlapped: bool = False
    whole: bool = False
