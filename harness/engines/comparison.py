"""`hil compare --engines`: models x boards x engines as one table, what we lose first."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.codegen.benchmark import codes_at
from tinyhil.errors import ConfigError, HilError
from tinyhil.harness.engines.engine_run import run_engine
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.registry import OURS, engine_named
from tinyhil.harness.job.job import Request, open_model
from tinyhil.harness.measure.record import store
from tinyhil.harness.measure.run import run

SAMPLES, SEED = 4, 0
BESIDE = "+"  # between files that hold one network in several languages
SIZES = ("RAM", "arena", "stack", "static", "flash")
COLUMNS = ("network", "board", "engine", "cycles", *SIZES, "decides otherwise", "largest difference", "equal to ours")
QUOTED = {"cycles": "cycles", "RAM": "bytes of RAM", "flash": "bytes of flash"}


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared. `models`: files, those of one network joined by `+`. `inputs`: None: noise."""

    engines: tuple[str, ...]
    models: tuple[str, ...]
    boards: tuple[str, ...]
    source: Path | None = None
    inputs: Path | None = None
    samples: int = SAMPLES
    format: str = "int8"
    results: Path = Path("results")


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement; `record` None: `why` it could not be."""

    network: str
    board: str
    engine: str
    record: Mapping[str, Any] | None
    why: str = ""

    def figure(self, name: str) -> float | None:
        """Cycles, RAM or flash, as far as it is known."""
        if self.record is None:
            return None
        memory = self.record["memory"]
        known = {
            "cycles": self.record["latency"]["median"],
            "RAM": memory["total_bytes"],
            "arena": memory["arena_bytes"],
            "stack": memory["stack_bytes"],
            "static": memory["static_bytes"],
            "flash": self.record["flash_bytes"],
        }
        found = known[name]
        return None if found is None else float(found)


def measure(contest: Contest, bench: Bench) -> list[Cell]:
    """Every cell, in the order of models, boards, engines. ConfigError for an unknown engine; what fails in a cell is
    said in it."""
    for name in contest.engines:
        if name != OURS:
            engine_named(name)
    if not (contest.engines and contest.models and contest.boards):
        raise ConfigError("--engines, --models and --boards: name at least one of each")
    cells = []
    for network in contest.models:
        for board in contest.boards:
            for engine in contest.engines:
                bench.say(f"{Path(network.split(BESIDE)[0]).stem} on {board} by {engine}")
                try:
                    record = _measured(contest, network.split(BESIDE), board, engine, bench)
                    cells.append(Cell(Path(network.split(BESIDE)[0]).stem, board, engine, record))
                except HilError as error:
                    cells.append(Cell(Path(network.split(BESIDE)[0]).stem, board, engine, None, str(error)))
    return cells


def _measured(contest: Contest, files: Sequence[str], board: str, engine: str, bench: Bench) -> Mapping[str, Any]:
    reads = None if engine == OURS else engine_named(engine).reads
    model = next((one for one in files if reads is None or Path(one).suffix in reads), files[0])
    with tempfile.TemporaryDirectory(prefix="hil-contest-") as folder:
        inputs = contest.inputs or _noise(model, Path(folder), contest.samples)
        request = Request(board, model, contest.format, inputs=inputs, samples=contest.samples, results=contest.results)
        if engine != OURS:
            return run_engine(engine, contest.source, request, bench)[0]
        outcome = run(replace(request, load="direct"), bench.boards, bench.cache_dir, lambda line: None, bench.progress)
        return store(outcome)[0]


def _noise(model: str, folder: Path, samples: int) -> Path:
    """Standard normal numbers, or any codes where the model takes codes."""
    graph = open_model(model).model.graph
    shape = (samples, *graph.shapes[graph.inputs[0]][1:])
    codes = codes_at(graph, "FromCodes")
    random = np.random.default_rng(SEED)
    x = random.standard_normal(shape) if codes is None else random.integers(codes.least, codes.most + 1, shape)
    path = folder / f"noise-{SEED}.npz"
    np.savez(path, x=x.astype(np.float32))
    return path


def ordered(cells: Sequence[Cell]) -> list[Cell]:
    """Groups of a network on a board; those first in which we take most beside the fastest."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.network, cell.board), []).append(cell)

    def behind(group: list[Cell]) -> float:
        ours = next((cell.figure("cycles") for cell in group if cell.engine == OURS), None)
        others = [f for cell in group if cell.engine != OURS and (f := cell.figure("cycles")) is not None]
        return -(ours / min(others)) if ours is not None and others else 0.0

    ranked = sorted(groups.values(), key=behind)
    return [cell for group in ranked for cell in sorted(group, key=lambda cell: cell.figure("cycles") or np.inf)]


def losses(cells: Sequence[Cell]) -> list[str]:
    """A line for every figure in which another engine takes less than ours."""
    found = []
    for ours in (cell for cell in cells if cell.engine == OURS):
        for name, unit in QUOTED.items():
            mine = ours.figure(name)
            others = [cell for cell in cells if (cell.network, cell.board) == (ours.network, ours.board)]
            for cell in others:
                theirs = cell.figure(name)
                if cell.engine != OURS and mine is not None and theirs is not None and theirs < mine:
                    where = f"{ours.network} on {ours.board}"
                    found.append(f"lost: {where}: {cell.engine} takes {theirs:,.0f} {unit}, tinyhil {mine:,.0f}")
    return found


def table(cells: Sequence[Cell]) -> str:
    """Markdown. Cycles of emulated boards with the band in which the chip's lie; what failed below it, a line each."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for cell in ordered(cells):
        if cell.record is not None:
            lines.append(f"| {' | '.join([*_row(cell), _equal(cell, cells)])} |")
    failed = [f"{cell.network} on {cell.board} by {cell.engine}: {cell.why}" for cell in cells if cell.record is None]
    return "\n".join([*losses(cells), *([""] if losses(cells) else []), *lines, *([""] if failed else []), *failed])


def _row(cell: Cell) -> list[str]:
    assert cell.record is not None
    record, latency = cell.record, cell.record["latency"]
    cycles = f"{latency['median']:,.0f}"
    if "low" in latency:
        cycles += f" ({latency['low']:,.0f} to {latency['high']:,.0f})"
    sizes = [_text(cell.figure(name)) for name in SIZES]
    other = "" if record["disagreements"] is None else f"{record['disagreements']} of {record['samples']}"
    largest = "" if record["largest_output_error"] is None else f"{record['largest_output_error']:.3g}"
    return [cell.network, cell.board, cell.engine, cycles, *sizes, other, largest]


def _equal(cell: Cell, cells: Sequence[Cell]) -> str:
    """In how many samples every byte of the output is ours; empty unless both are of int8."""
    where = (cell.network, cell.board, OURS)
    ours = next((one.record for one in cells if (one.network, one.board, one.engine) == where), None)
    if cell.engine == OURS or ours is None or cell.record is None:
        return ""
    if ours["format"] != "int8" or not str(cell.record["output"]).startswith("int8"):
        return ""
    pairs = list(zip(ours["raw"]["outputs"], cell.record["raw"]["outputs"], strict=False))
    return f"{sum(left == right for left, right in pairs)} of {len(pairs)}"


def _text(figure: float | None) -> str:
    return "" if figure is None else f"{figure:,.0f}"
