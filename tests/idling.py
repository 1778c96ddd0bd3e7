"""Does a process wait, or keep a processor busy? Judged by how often it has waited, whatever else the machine does."""

from __future__ import annotations

import os
from pathlib import Path

from hil_command import wait_until


def check_idle(pid: int, waits: int, processor_s: float) -> None:
    """It waits `waits` times more for its host, and takes at most `processor_s` of processor for that."""
    first, used_s = times_waited(pid), processor_seconds(pid)

    def spent_s() -> float:
        return processor_seconds(pid) - used_s

    wait_until(lambda: times_waited(pid) >= first + waits or spent_s() > processor_s)
    assert spent_s() <= processor_s, f"{times_waited(pid) - first} waits"


def times_waited(pid: int) -> int:
    """How often it has given the processor away to wait for something."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime
