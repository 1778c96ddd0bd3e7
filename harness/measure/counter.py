"""Tick counters of 32 bits on emulated boards: what an emulator counts in 64 bits tells whether one has gone round.

On an attached board only the time tells (harness/wire/stream.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tinyhil.errors import DoesNotFit
from tinyhil.harness.wire import stream as wire
from tinyhil.harness.wire.trace import SampleTrace


def check_sample(board: str, index: int, trace: SampleTrace | None) -> None:
    """DoesNotFit if a sample took more cycles than the counter holds, where there is a trace of it."""
    if trace is not None and trace.cycles >= wire.COUNTER_TICKS:
        raise _gone_round(f"{board}: sample {index}", trace.cycles)


def check_session(
    board: str, ticks: Sequence[int], surroundings: Mapping[str, Any], forget: Callable[[], None]
) -> None:
    """The same of all samples of a session, which take about as long as each other: DoesNotFit, and nothing kept, if
    the emulator has executed more than their `ticks` tell of, by half a counter for each. What a board does between
    its samples is far less; it must not have waited in emulated time."""
    total = surroundings.get("cycles", surroundings.get("instructions", 0))
    untold = (int(total) - sum(ticks)) // len(ticks)
    if untold >= wire.COUNTER_TICKS // 2:
        forget()
        raise _gone_round(f"{board}: a sample", untold)


def _gone_round(what: str, cycles: int) -> DoesNotFit:
    return DoesNotFit(
        f"{what} took {cycles} cycles, but the board counts {wire.COUNTER_TICKS} and begins anew; use a smaller model"
    )
