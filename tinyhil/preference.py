"""What counts where time and memory disagree (memplan/arena/placement_preference.py, memplan/arena/transfer.py)."""

from __future__ import annotations

from dataclasses import dataclass

BALANCED, LATENCY, RAM, LEAST = "balanced", "latency", "ram", "least"
PREFERENCES = (BALANCED, LATENCY, RAM, LEAST)


@dataclass(frozen=True, slots=True)
class Wish:
    """What counts, whether samples arrive while others are computed, whether each must lie in one slot and outlive its
    inference there, and how many bytes arena and input may take, if that was said. `arena_bytes`: where the arena would
    take more, as little as possible is computed again; a search has found that it then takes no more, with the sample
    where it lies there, or without it (`input_apart`)."""

    prefer: str = BALANCED
    overlapped: bool = False
    whole: bool = False
    keeps_input: bool = False
    ram_bytes: int | None = None
    arena_bytes: int | None = None
    input_apart: bool = False


def planned_by(prefer: str | None) -> str:
    """Behind bytes of RAM, wherever they are said: which plan they are of; empty where none was preferred."""
    return "" if prefer is None else f" (--prefer {prefer})"
