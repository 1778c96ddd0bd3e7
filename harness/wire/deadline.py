"""Deadlines on a busy computer: time in which the board's process, or ours, waits for a processor does not count.

An emulated board is a process like others; beside many of them it stands still without being dead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

STEP_S = 0.02  # looked at no more often
LEAST_SHARE = 0.05  # of the time counts even if all of it is spent waiting: nothing waits for ever

Starved = Callable[[], float]


def starved_s(pid: int | str) -> float:
    """Seconds since its start that the thread of `pid` which has waited longest was ready to run and got no processor;
    0 if unknown. Threads wait at the same time: their sum would grow faster than the clock.

    Source: the second number of Linux' /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).
    """
    return max(map(_waited_s, Path(f"/proc/{pid}/task").glob("*/schedstat")), default=0.0)


def own_starved_s() -> float:
    """The same of the thread that asks: another one of ours may be kept busy by whoever is at the end of a wire."""
    return _waited_s(Path("/proc/thread-self/schedstat"))


def _waited_s(schedstat: Path) -> float:
    try:
        return 1e-9 * int(schedstat.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0


class Deadline:
    """`seconds` from now, or from the last `restart`, for the thread that asks.

    `board_starved`: what starved_s says of an emulated board.
    """

    def __init__(self, seconds: float, board_starved: Starved = lambda: 0.0) -> None:
        self.seconds = seconds
        self._board_starved = board_starved
        self._passed_s = 0.0
        self._looked_at, self._starved_s = time.monotonic(), self._starved()

    def restart(self) -> None:
        """Something has happened: all of the seconds are left again."""
        self._advance()
        self._passed_s = 0.0

    def left_s(self) -> float:
        """Seconds that are left; negative when it is over."""
        self._advance()
        return self.seconds - self._passed_s

    def is_over(self) -> bool:
        """No second is left, those aside in which a process waited for a processor."""
        return self.left_s() <= 0

    def _starved(self) -> float:
        return own_starved_s() + self._board_starved()

    def _advance(self) -> None:
        step_s = time.monotonic() - self._looked_at
        if step_s < STEP_S:
            return
        starved = self._starved()
        self._passed_s += max(step_s - max(starved - self._starved_s, 0.0), LEAST_SHARE * step_s)
        self._looked_at, self._starved_s = self._looked_at + step_s, starved
