"""Measured costs of operations and images, per board: results/costs/BOARD.jsonl, appended to, one line per fact.

A line names the firmware and the compiler it was measured with; lines of others are not used. A search keeps the lines
it has used, with the moment it came to know each, so that after an interruption it decides as before.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, RootModel, model_validator

from tinyhil import files
from tinyhil.codegen.kernel_calls import signature_of
from tinyhil.codegen.profile_calls import constant_bytes, number_of
from tinyhil.errors import ConfigError
from tinyhil.fields import Amount, Count, Exact, Real, Text, Word
from tinyhil.formats import named
from tinyhil.harness.build.pipeline import project_sources
from tinyhil.harness.build.toolchain import find_compiler
from tinyhil.harness.measure.operations import described, elements_of, executions_of, macs_of
from tinyhil.harness.measure.profile import OperationCost
from tinyhil.harness.records.partial import writing
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.program import Op, Program
from tinyhil.passes.chains import Chain, carried_out
from tinyhil.sealed import sealed, whole_lines
from tinyhil.search.costs import Described, Operation, Row, Run
from tinyhil.search.memory import Placement
from tinyhil.search.space import Candidate, Choice

Line = dict[str, Any]
RECALLED = 20  # of what others have measured: each is planned again


@dataclass(frozen=True, slots=True)
class Version:
    """What a measurement is true of. `model`: hash of the model file and of its ranges, on which scales depend, and
    what its schedule prefers."""

    board: str
    fidelity: str
    firmware: str
    compiler: str
    model: str

    @classmethod
    def of(cls, board: BoardSpec, fidelity: str, cache_dir: Path, model: str) -> Version:
        """Version of what `board` measures with this firmware's sources and this compiler."""
        text = json.dumps(project_sources([board]), sort_keys=True)
        firmware = hashlib.sha256(text.encode()).hexdigest()[:16]
        return cls(board.name, fidelity, firmware, str(find_compiler(board, cache_dir)), model)

    def as_json(self) -> Line:
        """The fields that every line of the table carries."""
        return asdict(self)


class FactLine(Exact):
    """What every line has; `phase` in the table of one search alone."""

    board: Word
    fidelity: Word
    firmware: Word
    compiler: Word
    model: Word
    phase: Count = 0


class OperationLine(FactLine):
    """What an operation takes."""

    kind: Literal["operation"]
    operation: Text
    kernel: Word
    formats: list[Word]
    size: Count
    executions: Annotated[int, Field(ge=1)]
    ticks: Amount
    signature: Text


def _of_known_formats(candidate: list[str]) -> list[str]:
    try:
        for text in candidate:
            named(_choice(text).format)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return candidate


class RunLine(FactLine):
    """What a whole candidate takes; `worst` None: it does not fit. `arena`: the bytes for which it computes again."""

    kind: Literal["run"]
    candidate: Annotated[list[Word], AfterValidator(_of_known_formats)]
    worst: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    summed: Amount
    outside: Real
    flash_bytes: Count
    signatures: list[Text]
    arena: Count | None = None

    @model_validator(mode="after")
    def _takes_time(self) -> RunLine:
        if self.worst is not None and not self.summed:
            raise ValueError("a run that took no time")
        return self


class Fact(RootModel[OperationLine | RunLine]):
    """Any line of the table."""


class CostTable:
    """The lines of one version in `path`, and those of one search in `own` with the `phase` in which each came."""

    def __init__(self, path: Path, own: Path, version: Version) -> None:
        self._path, self._own, self._version = path, own, version
        self._lines: list[Line] = [line for line in _read(own, version) if "phase" in line]
        self._shared = list(_read(path, version))
        self._keys = {_key(line) for line in self._shared}

    def known(self, candidate: Candidate, phase: int, arena: int | None = None) -> bool:
        """Whether the candidate has been measured up to `phase`; what other searches have measured is taken over, where
        it computed again for as many bytes of `arena`."""
        if self._run_of(self._lines, candidate, phase) is not None:
            return True
        line = self._run_of([line for line in self._shared if line.get("arena") == arena], candidate, phase)
        if line is None:
            return False
        rows = [row for row in self._shared if row["kind"] == "operation" and row["signature"] in line["signatures"]]
        self._keep([*rows, line], phase)
        return True

    def elsewhere(self) -> Iterator[Candidate]:
        """What ran in other searches: the fastest, and those of the least flash."""
        runs = [_run(line) for line in self._shared if line["kind"] == "run" and line["worst"] is not None]
        fastest, smallest = (sorted(runs, key=key)[:RECALLED] for key in (lambda r: r.worst, lambda r: r.flash_bytes))
        yield from dict.fromkeys(run.candidate for run in (*fastest, *smallest))

    def ran(self, candidate: Candidate, phase: int) -> bool:
        """Whether it is known and fits the board."""
        line = self._run_of(self._lines, candidate, phase)
        return line is not None and line["worst"] is not None

    def add(self, rows: list[Row], run: Run, signatures: list[str], phase: int, arena: int | None = None) -> None:
        """What a profile has found, into both files."""
        again = {} if arena is None else {"arena": arena}
        lines = [_row_line(row) for row in rows] + [{**_run_line(run, signatures), **again}]
        for line in lines:
            if _key(line) not in self._keys:
                self._keys.add(_key(line))
                _append(self._path, {**line, **self._version.as_json()})
        self._keep(lines, phase)

    def rows(self, phase: int) -> tuple[Row, ...]:
        """Operations measured up to `phase`, the first measurement of each."""
        found: dict[str, Row] = {}
        for line in self._lines:
            if line["kind"] == "operation" and line["phase"] <= phase:
                found.setdefault(_key(line), _row(line))
        return tuple(found.values())

    def runs(self, phase: int) -> tuple[Run, ...]:
        """Whole candidates measured up to `phase`, each once."""
        lines = [line for line in self._lines if line["kind"] == "run" and line["phase"] <= phase]
        return tuple({run.candidate: run for run in map(_run, lines)}.values())

    def _run_of(self, lines: list[Line], candidate: Candidate, phase: int) -> Line | None:
        wanted = _written(candidate)
        found = (line for line in lines if line["kind"] == "run" and line["candidate"] == wanted)
        return next((line for line in found if line.get("phase", phase) <= phase), None)

    def _keep(self, lines: list[Line], phase: int) -> None:
        for line in lines:
            stamped = {**line, **self._version.as_json(), "phase": phase}
            self._lines.append(stamped)
            _append(self._own, stamped)


def describer(place: Callable[[Candidate], Placement]) -> Callable[[Candidate], Described]:
    """What an image of a candidate would hold, remembered."""
    known: dict[Candidate, Described] = {}

    def describe(candidate: Candidate) -> Described:
        if candidate not in known:
            placed = place(candidate)
            program = placed.program
            times = executions_of(program, placed.plan)
            items = carried_out(program, placed.plan, program.body)
            operations = tuple(_operation(program, item, times[number_of(program, item)]) for item in items)
            known[candidate] = Described(operations, constant_bytes(program))
        return known[candidate]

    return describe


def rows_of(costs: tuple[OperationCost, ...], scale: float) -> list[Row]:
    """What a profile has found, times `scale`."""
    rows = []
    for cost in costs:
        size = cost.elements if cost.macs is None else cost.macs
        size //= cost.executions
        operation = Operation(cost.name, cost.kernel, cost.formats, cost.signature, size, cost.executions)
        rows.append(Row(operation, scale * cost.ticks / cost.executions))
    return rows


def _operation(program: Program, item: Op | Chain, times: int) -> Operation:
    name, kernel, formats = described(program, item)
    elements = elements_of(program, item, times)
    size = (macs_of(program, item, elements) or elements) // times
    return Operation(name, kernel, formats, signature_of(program, item), size, times)


def _read(path: Path, version: Version) -> Iterator[Line]:
    """The lines of this version that are as they were written."""
    if not path.is_file():
        return
    wanted = version.as_json().items()
    for fact in whole_lines(path, path.read_bytes().split(b"\n"), Fact):
        line = fact.root.model_dump(exclude_unset=True)
        if wanted <= line.items():
            yield line


def _append(path: Path, line: Line) -> None:
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.opened(path, "a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # of who died while writing: it would take this line with it
                    file.write(b"\n")
            file.write(sealed(line).encode() + b"\n")


def _key(line: Line) -> str:
    """Which fact a line states."""
    if line["kind"] == "run":
        return f"run {line['candidate']} {line.get('arena')}"
    return f"operation {line['operation']} {line['kernel']} {line['signature']}"


def _written(candidate: Candidate) -> list[str]:
    return [f"{choice.format}{choice.offset:+d}" if choice.offset else choice.format for choice in candidate]


def _choice(text: str) -> Choice:
    for sign in "+-":
        name, found, offset = text.rpartition(sign)
        if found and name:
            return Choice(name, int(sign + offset))
    return Choice(text)


def _row_line(row: Row) -> Line:
    operation = row.operation
    return {
        "kind": "operation",
        "operation": operation.name,
        "kernel": operation.kernel,
        "formats": list(operation.formats),
        "size": operation.size,
        "executions": operation.executions,
        "ticks": round(row.ticks, 2),
        "signature": operation.signature,
    }


def _row(line: Line) -> Row:
    operation = Operation(
        line["operation"],
        line["kernel"],
        tuple(line["formats"]),
        line["signature"],
        line["size"],
        line["executions"],
    )
    return Row(operation, line["ticks"])


def _run_line(run: Run, signatures: list[str]) -> Line:
    fits = run.worst != float("inf")
    return {
        "kind": "run",
        "candidate": _written(run.candidate),
        "worst": run.worst if fits else None,
        "summed": round(run.summed, 2),
        "outside": round(run.outside, 2),
        "flash_bytes": run.flash_bytes,
        "signatures": signatures,
    }


def _run(line: Line) -> Run:
    candidate = tuple(_choice(text) for text in line["candidate"])
    worst = float("inf") if line["worst"] is None else line["worst"]
    return Run(candidate, worst, line["summed"], line["outside"], line["flash_bytes"])
