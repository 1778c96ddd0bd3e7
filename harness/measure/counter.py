"""Tick counters: at which clock, and whether one of 32 bits has gone round, as one of 64 bits tells of emulated boards.

On an attached board only the time tells (harness/wire/stream.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tinyhil.errors import DoesNotFit
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.wire import stream as wire
from tinyhil.harness.wire.protocol import Hello
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


def compare_clocks(hello: Hello, board: BoardSpec, say: Callable[[str], None]) -> None:
    """Say that a board runs at another clock than its entry sets up: seconds are counted at the board's."""
    if hello.clock_hz != board.chip.clock_hz:
        remedy = "; it takes a board whose `supply` is said" if board.lacks_supply else ""
        real, meant = (f"{hz / 1e6:g} MHz" for hz in (hello.clock_hz, board.chip.clock_hz))
        say(
            f"{board.name}: runs at {real}, not at the {meant} of its entry in the board file{remedy} "
            f"(`hil docs flashing`); times are those of {real}"
        )
