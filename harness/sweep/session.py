"""`hil sweep`: what is known already is read, what is not is computed, all of it becomes one table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tinyhil.errors import ConfigError
from tinyhil.harness.settings.config import Boards
from tinyhil.harness.sweep.cell import Cell, MakeOrder, Outcome, cells_of
from tinyhil.harness.sweep.file import read_sweep
from tinyhil.harness.sweep.here import Here
from tinyhil.harness.sweep.table import Row
from tinyhil.harness.sweep.work import finished
from tinyhil.notice import Say


class Executor(Protocol):
    """Carries out cells somewhere. `boards`: those that it has and this machine need not have."""

    @property
    def boards(self) -> frozenset[str]:
        """Names of boards that it reaches."""

    def outcomes(self, cells: Sequence[Cell], order: MakeOrder) -> Iterator[tuple[Cell, Outcome]]:
        """Each cell with what became of it, as they finish."""


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What the user asked for; the fields are options of `hil sweep`. `boards_file`, `bench_file`: as given, for the
    processes that carry out cells. `jobs` None: one per processor of this machine."""

    file: Path
    results: Path = Path("results")
    boards_file: Path | None = None
    bench_file: Path | None = None
    jobs: int | None = None
    scheduler: str | None = None
    worker_timeout_s: float = 300.0

    def executor(self, say: Say) -> Executor:
        """This machine, or the workers of a scheduler; ConfigError for both at once."""
        if self.scheduler is None:
            return Here(self.jobs or os.cpu_count() or 1)
        if self.jobs is not None:
            raise ConfigError(
                "--jobs is for processes here; a scheduler's workers say themselves how many they run: leave out one"
            )
        from tinyhil.harness.sweep.farm import Farm

        return Farm(self.scheduler, self.worker_timeout_s, say)


@dataclass(frozen=True, slots=True)
class Swept:
    """A row per cell, in the order of the file; `known` of them were there before."""

    rows: tuple[Row, ...]
    known: int

    @property
    def failed(self) -> int:
        """Cells that gave no record."""
        return sum(row.error is not None for row in self.rows)


def run_sweep(request: SweepRequest, boards: Boards, executor: Executor, say: Say) -> Swept:
    """Every cell, each computed once in all sweeps of this results folder. ConfigError for faults of the file; what
    fails later is the failure of its cell."""
    sweep = read_sweep(request.file, boards)
    cells = cells_of(sweep, request.file.resolve().parent, boards, executor.boards)
    found: dict[str, Mapping[str, Any]] = {}
    for cell in cells:
        outcome = finished(folder_of(request, cell), cell.key)
        if outcome is not None:
            found[cell.key] = outcome
    known = len(found)
    todo = [cell for cell in cells if cell.key not in found]
    say(f"{request.file.name}: {len(cells)} cells, {known} of them finished before")
    for number, (cell, outcome) in enumerate(executor.outcomes(todo, lambda cell: order_of(request, cell)), 1):
        found[cell.key] = outcome
        said = outcome["error"] or f"{outcome['seconds']:.1f} s"
        say(f"{number} of {len(todo)}: {cell.title}: {said}")
    rows = [Row.of(cell, found[cell.key], folder_of(request, cell)) for cell in cells]
    return Swept(tuple(rows), known)


def folder_of(request: SweepRequest, cell: Cell) -> Path:
    """Its files, under its key: other sweeps find them there."""
    return request.results / "sweep" / cell.key[:24]


def order_of(request: SweepRequest, cell: Cell) -> dict[str, Any]:
    """What a worker of this machine is told."""
    files = {"boards_file": request.boards_file, "bench_file": request.bench_file}
    given = {name: None if path is None else str(path.resolve()) for name, path in files.items()}
    return {**cell.order, **given, "key": cell.key, "folder": str(folder_of(request, cell).resolve())}
