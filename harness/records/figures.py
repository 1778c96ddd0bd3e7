"""What two records are compared by: one flat view of a run's record, a bench's, or a golden one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyhil.harness.records.verdict import degraded_by, invalid_because

CANDIDATES = "candidates"  # folder of a search, with what it has tried on boards
ASSIGNED = re.compile(r" --assignment ('[^']+'|\S+)")
PLANNED = re.compile(r"--(?:prefer|ram) \w+")
INPUT_MOVED = "with the sample in one of them, beside it in the other: static RAM tells"
FIRST = 1.02  # times the slowest other sample: a first one that is slower is said
FEW = 30  # samples, of which a percentage says too much
SIZES = ("flash_bytes", "static_bytes", "arena_bytes", "heap_bytes")


@dataclass(frozen=True, slots=True)
class Figures:
    """Per sample: `inputs` (CRC-32), `outputs` (hexadecimal), `saturations`, `ticks`, `instructions` (may be empty).

    `boot_medians` are those of a bench, one per reset; `emulator` is None for a physical board and for this computer.
    `invalid`: why the record may not be believed; empty if it may.
    """

    board: str
    model: str
    format: str
    emulator: str | None
    compiler: str
    model_sha256: str
    unit: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    saturations: tuple[int, ...]
    ticks: tuple[int, ...]
    instructions: tuple[int, ...]
    sizes: Mapping[str, int | None]
    has_input: bool | None
    stack_bytes: int | None
    stack_limit_bytes: int | None
    stack_limit_unknown: str
    accuracy: float | None
    bit_exact: bool
    boot_medians: tuple[float, ...]
    median_ticks: float
    clock_hz: int | None
    invalid: str
    data: str = ""  # SHA-256 of the samples' file
    by: str = ""  # " by FOLDER/FILE" of an assignment
    degraded: tuple[str, ...] | None = None  # by what its decisions are doubtful; None: not known

    @property
    def key(self) -> tuple[str, str, str]:
        """What it was measured of: board, model, format."""
        return self.board, self.model, self.format

    @property
    def exact_time(self) -> bool:
        """Whether two measurements of the same program must give the same ticks."""
        return self.emulator is not None


def figures(record: Mapping[str, Any]) -> Figures:
    """The figures of a record."""
    raw, memory, provenance = record["raw"], record["memory"], record["provenance"]
    compiler = provenance["compiler"]
    return Figures(
        board=record["board"],
        model=record["model"],
        format=record["format"],
        emulator=record["emulator"]["name"] if record["emulator"] else None,
        compiler=f"{compiler['name']} {compiler['version']}",
        model_sha256=provenance["model_sha256"],
        unit=record["latency"]["unit"],
        inputs=tuple(raw["inputs_crc32"]),
        outputs=tuple(raw["outputs"]),
        saturations=tuple(raw["saturations"]),
        ticks=tuple(raw["ticks"]),
        instructions=tuple(raw["instructions"]),
        sizes={"flash_bytes": record["flash_bytes"], **{name: memory[name] for name in SIZES[1:]}},
        has_input=has_input(record),
        stack_bytes=memory["stack_bytes"],
        stack_limit_bytes=memory.get("stack_limit_bytes"),
        stack_limit_unknown=memory.get("stack_limit_unknown", ""),
        accuracy=record["accuracy"],
        bit_exact=record["bit_exact"],
        boot_medians=tuple(boot["median"] for boot in record.get("boots", ())),
        median_ticks=record["latency"]["median"],
        clock_hz=record["latency"].get("clock_hz"),
        invalid=invalid_because(record),
        data=str((record.get("data") or {}).get("sha256") or ""),
        by=formats_by(record),
        degraded=degraded_by(record),
    )


def slow_first(ticks: Sequence[int]) -> bool:
    """Whether the first sample is slow, and no other."""
    return len(ticks) > 1 and ticks[0] > FIRST * max(ticks[1:])


def cold_first(ticks: Sequence[int], instructions: Sequence[int] | None) -> bool:
    """Whether it is, for as few instructions as others: after a reset nothing is in a cache."""
    return slow_first(ticks) and bool(instructions) and not slow_first(instructions or ())


def has_input(record: Mapping[str, Any]) -> bool | None:
    """Whether its arena holds the sample, too; None where that is not known."""
    beside = record["memory"].get("input_bytes")
    return None if beside is None else beside == 0


def input_moved(before: bool | None, now: bool | None) -> bool:
    """Whether of two arenas one alone holds the sample, as `has_input` says: they are of different things."""
    return {before, now} == {True, False}


def formats_by(record: Mapping[str, Any]) -> str:
    """ " by FOLDER/FILE" of the assignment that gave a run its formats; empty without one."""
    command = str((record.get("provenance") or {}).get("command"))
    return "".join(f" by {'/'.join(Path(name.strip(chr(39))).parts[-2:])}" for name in ASSIGNED.findall(command))


def planned_with(record: Mapping[str, Any]) -> str:
    """ " --prefer ram" or " --ram 464" as the command of a run has it; empty without."""
    command = str((record.get("provenance") or {}).get("command"))
    return "".join(f" {option}" for option in PLANNED.findall(command))


def title_of(record: Mapping[str, Any]) -> str:
    """What it is of, in a line."""
    return f"{record['model']} on {record['board']}, {record['format']}{formats_by(record)}"


def is_candidate(path: Path, folder: Path) -> bool:
    """`path`, below `folder`, is of what a search has tried, no run that anybody asked for."""
    return CANDIDATES in path.relative_to(folder).parts


def share_of(accuracy: float, samples: int, digits: int = 1) -> str:
    """A share of samples in percent, of few of them in numbers: five samples make no percentage."""
    return f"{accuracy * samples:.0f} of {samples}" if samples < FEW else f"{100 * accuracy:.{digits}f} %"


def at_worst(memory: Mapping[str, Any]) -> int | None:
    """Bytes of static RAM and the deepest stack that there can be; None where that is not known."""
    stack: int | None = memory.get("stack_limit_bytes")
    return None if stack is None else int(memory["static_bytes"]) + stack
