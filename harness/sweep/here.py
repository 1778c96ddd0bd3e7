"""Cells on this machine: so many processes at once, and never two on one board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from tinyhil.harness.sweep.cell import Cell, MakeOrder, Outcome
from tinyhil.harness.sweep.worker import Workers


@dataclass(frozen=True, slots=True)
class Here:
    """`jobs`: processes at once."""

    jobs: int
    boards: frozenset[str] = frozenset()

    def outcomes(self, cells: Sequence[Cell], order: MakeOrder) -> Iterator[tuple[Cell, Outcome]]:
        """Every cell with its outcome as it comes."""
        workers, waiting = Workers(), list(cells)
        running: dict[Future[Outcome], Cell] = {}
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                while waiting or running:
                    for cell in _startable(waiting, running.values(), self.jobs - len(running)):
                        waiting.remove(cell)
                        running[pool.submit(workers.carry_out, order(cell))] = cell
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield running.pop(future), future.result()
            finally:
                workers.end()  # before the pool waits for those who follow them


def _startable(waiting: Sequence[Cell], running: Sequence[Cell] | Any, free: int) -> list[Cell]:
    """The first `free` cells whose boards nobody uses."""
    busy = {name for cell in running for name in cell.locks}
    found: list[Cell] = []
    for cell in waiting:
        if len(found) == free:
            break
        if busy.isdisjoint(cell.locks):
            found.append(cell)
            busy.update(cell.locks)
    return found
