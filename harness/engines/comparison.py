"""`hil compare --engines`: models x boards x engines as one table, what we lose first."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.codegen.benchmark import codes_at
from tinyhil.errors import BoardDiffers, ConfigError, HilError
from tinyhil.harness.engines.difference import diff_engines
from tinyhil.harness.engines.engine_run import run_engine
from tinyhil.harness.engines.firmware_run import Bench
from tinyhil.harness.engines.registry import engine_named
from tinyhil.harness.engines.standing import OURS, Row
from tinyhil.harness.job.job import Request, Streamed, open_model
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.measure.record import store
from tinyhil.harness.measure.run import run
from tinyhil.harness.records.verdict import invalid_because

SAMPLES, SEED = 4, 0
ONE_STEP = Streamed(steps=1)
BESIDE = "+"  # between files that hold one network in several languages


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared. `models`: files, those of one network joined by `+`. `inputs`: None: noise. `tensors`: say the
    first tensor that an engine has otherwise than ours, too, by this computer."""

    engines: tuple[str, ...]
    models: tuple[str, ...]
    boards: tuple[str, ...]
    source: Path | None = None
    inputs: Path | None = None
    samples: int = SAMPLES
    format: str = "int8"
    results: Path = Path("results")
    tensors: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement; `record` None: `why` it could not be. `first`: the first tensor that is not as ours."""

    network: str
    board: str
    engine: str
    record: Mapping[str, Any] | None
    why: str = ""
    first: str = ""


def measure(contest: Contest, bench: Bench) -> list[Cell]:
    """Every cell, in the order of models, boards, engines. ConfigError, BoardError or ModelError for an engine, board
    or file that there is not; what fails in a cell is said in it."""
    _require_known(contest, bench)
    cells = []
    for network in contest.models:
        first: dict[str, str] = {}
        for board in contest.boards:
            for engine in contest.engines:
                bench.say(f"{Path(network.split(BESIDE)[0]).stem} on {board} by {engine}")
                cell = _cell(contest, network.split(BESIDE), board, engine, bench)
                if contest.tensors and cell.record is not None and engine != OURS and engine not in first:
                    first[engine] = first_tensor(contest, network, engine, bench)
                cells.append(replace(cell, first=first.get(engine, "")))
    return cells


def _require_known(contest: Contest, bench: Bench) -> None:
    if not (contest.engines and contest.models and contest.boards):
        raise ConfigError("--engines, --models and --boards: name at least one of each")
    for name in contest.engines:
        if name != OURS:
            engine_named(name)
    for board in contest.boards:
        bench.boards.board(board.partition("@")[0])
    for network in contest.models:
        for file in network.split(BESIDE):
            find_model(file)


def _cell(contest: Contest, files: Sequence[str], board: str, engine: str, bench: Bench) -> Cell:
    name = Path(files[0]).stem
    try:
        with _asked(contest, files, board, engine) as request:
            return Cell(name, board, engine, _measured(contest, request, engine, bench))
    except HilError as error:
        return Cell(name, board, engine, None, str(error))


@contextmanager
def _asked(contest: Contest, files: Sequence[str], board: str, engine: str) -> Iterator[Request]:
    """Of the file that the engine reads, with inputs as long as it lasts. A network with states computes one step from
    where they begin, unless the inputs show how many a sample has."""
    reads = None if engine == OURS else engine_named(engine).reads
    model = next((one for one in files if reads is None or Path(one).suffix in reads), files[0])
    with tempfile.TemporaryDirectory(prefix="hil-contest-") as folder:
        inputs, steps = contest.inputs, None
        if inputs is None:
            inputs, steps = _noise(model, Path(folder), contest.samples), ONE_STEP.steps
        asked = Request(board, model, contest.format, inputs=inputs, samples=contest.samples, results=contest.results)
        yield replace(asked, steps=steps)


def _measured(contest: Contest, request: Request, engine: str, bench: Bench) -> Mapping[str, Any]:
    """BoardDiffers for a record of ours that is invalid: no figure of it counts."""
    if engine != OURS:
        return run_engine(engine, contest.source, request, bench)[0]
    outcome = run(replace(request, load="direct"), bench.boards, bench.cache_dir, lambda line: None, bench.progress)
    record = store(outcome)[0]
    if why := invalid_because(record):
        raise BoardDiffers(f"{record['board']}: {record['model']} is invalid: {why}")
    return record


def first_tensor(contest: Contest, network: str, engine: str, bench: Bench) -> str:
    """The first tensor that an engine has otherwise than ours, by this computer, or why it is not known."""
    try:
        with _asked(contest, network.split(BESIDE), "host", engine) as request:
            found = diff_engines((OURS, engine), contest.source, request, 0, bench)
    except HilError as error:
        return f"not known: {error}"
    return "none" if found.first is None else found.first.tensor


def _noise(model: str, folder: Path, samples: int) -> Path:
    """Standard normal numbers, or any codes where the model takes codes."""
    graph = open_model(model, None, ONE_STEP).model.graph
    shape = (samples, *graph.shapes[graph.inputs[0]][1:])
    codes = codes_at(graph, "FromCodes")
    random = np.random.default_rng(SEED)
    x = random.standard_normal(shape) if codes is None else random.integers(codes.least, codes.most + 1, shape)
    path = folder / f"noise-{SEED}.npz"
    np.savez(path, x=x.astype(np.float32))
    return path


def rows_of(cells: Sequence[Cell]) -> list[Row]:
    """The figures of cells, for standing.py and for files: JSON types, None where something is not known."""
    return [_row(cell, cells) for cell in cells]


def _row(cell: Cell, cells: Sequence[Cell]) -> Row:
    where = {"network": cell.network, "board": cell.board, "engine": cell.engine, "why": cell.why, "first": cell.first}
    record: Mapping[str, Any] = cell.record or {"latency": {}, "memory": {}}
    latency, memory = record["latency"], record["memory"]
    return {
        **where,
        "cycles": latency.get("median"),
        "low": latency.get("low"),
        "high": latency.get("high"),
        "RAM": memory.get("total_bytes"),
        "arena": memory.get("arena_bytes"),
        "stack": memory.get("stack_bytes"),
        "static": memory.get("static_bytes"),
        "flash": record.get("flash_bytes"),
        "samples": record.get("samples"),
        "disagreements": record.get("disagreements"),
        "largest": record.get("largest_output_error"),
        "equal": _equal(cell, cells),
    }


def _equal(cell: Cell, cells: Sequence[Cell]) -> int | None:
    """In how many samples every byte of the output is ours; None unless both are of int8."""
    where = (cell.network, cell.board, OURS)
    ours = next((one.record for one in cells if (one.network, one.board, one.engine) == where), None)
    if cell.engine == OURS or ours is None or cell.record is None:
        return None
    if ours["format"] != "int8" or not str(cell.record["output"]).startswith("int8"):
        return None
    return sum(a == b for a, b in zip(ours["raw"]["outputs"], cell.record["raw"]["outputs"], strict=False))
