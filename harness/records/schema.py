"""What records, golden records and the lines of partial files must be; all that reads them reads through here.

Keys that nobody computes with may be added; those below have these types, and no number is infinite.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, ValidationError, model_validator

from tinyhil import files
from tinyhil.errors import DataError

Count = Annotated[int, Field(ge=0)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Hex = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2})*$")]
Share = Annotated[FiniteFloat, Field(ge=0, le=1)]


class Part(BaseModel):
    """JSON types are taken as they are: no text for a number. What is not named here is left alone."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class Emulator(Part):
    name: Word
    truth: Word


class Latency(Part):
    unit: Word
    median: FiniteFloat
    clock_hz: Count


class Memory(Part):
    static_bytes: Count
    arena_bytes: Count
    heap_bytes: Count | None
    stack_bytes: Count | None


class Raw(Part):
    ticks: list[Count]
    instructions: list[FiniteFloat]
    inputs_crc32: list[Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]]
    outputs: list[Hex]
    saturations: list[Count]

    @model_validator(mode="after")
    def _one_of_each_per_sample(self) -> Raw:
        counts = {len(self.ticks), len(self.inputs_crc32), len(self.outputs), len(self.saturations)}
        if len(counts) > 1 or len(self.instructions) not in {0, *counts}:
            raise ValueError("the lists differ in length")
        return self


class Compiler(Part):
    name: Word
    version: Word


class Provenance(Part):
    compiler: Compiler
    model_sha256: Word


class Boot(Part):
    median: FiniteFloat


class Order(Part):
    board: Word
    model: Word
    format: Word = "fixed16"
    assignment: Word | None = None
    inputs: Word | None = None
    calibrate: Word | None = None
    samples: Annotated[int, Field(ge=1)] = 16


class Record(Part):
    """Of `hil run`; with `boots`, of `hil bench`; with `kind` and `order`, a golden one."""

    schema_version: Literal[1]
    board: Word
    emulator: Emulator | None
    model: Word
    format: Word
    samples: Count
    bit_exact: bool
    accuracy: Share | None
    flash_bytes: Count
    latency: Latency
    memory: Memory
    raw: Raw
    provenance: Provenance
    boots: list[Boot] = Field(default_factory=list)
    kind: Literal["bench", "golden"] | None = None
    order: Order | None = None


class PartialTrace(Part):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    instructions: Count
    cycles_min: Count
    cycles_max: Count


class PartialLine(Part):
    """One finished sample of an unfinished run."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    sample: Count
    output: Hex
    ticks: Annotated[int, Field(ge=0, lt=1 << 32)]
    saturations: Annotated[int, Field(ge=0, lt=1 << 32)]
    trace: PartialTrace | None


def read_record(path: Path) -> dict[str, Any]:
    """The record in a file, as it was written; DataError says where it is none."""
    data = files.read_json(path, "record")
    if not isinstance(data, dict) or "raw" not in data:
        raise DataError(f"{path}: not a record of `hil run`, `hil bench` or `hil golden`")
    try:
        Record.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: not a record of this version: {where}: {first['msg']}; measure again") from None
    return data
