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
    """Which emulator ran, and what its numbers mean."""

    name: Word
    fidelity: Word


class Latency(Part):
    """Ticks of a sample, in their unit."""

    unit: Word
    median: FiniteFloat
    clock_hz: Count


class Memory(Part):
    """Bytes of RAM, by what they are for."""

    static_bytes: Count
    arena_bytes: Count
    heap_bytes: Count | None
    stack_bytes: Count | None
    stack_limit_bytes: Count | None = None


class Raw(Part):
    """What each sample gave, in lists of one length."""

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
    """What compiled the firmware."""

    name: Word
    version: Word


class Provenance(Part):
    """What a record was made from."""

    compiler: Compiler
    model_sha256: Word


class Boot(Part):
    """Ticks from reset to HELLO."""

    median: FiniteFloat


class Order(Part):
    """The request that led to a record."""

    board: Word
    model: Word
    format: Word = "fixed16"
    assignment: Word | None = None
    inputs: Word | None = None
    calibrate: Word | None = None
    calibrate_by: Word | None = None
    samples: Annotated[int, Field(ge=1)] = 16


class Layer(Part):
    """One operation: kernel, operands, sizes, cost."""

    name: str
    kernel: Word
    output: str
    inputs: list[str]
    formats: dict[str, str]
    executions: Count
    elements: Count
    macs: Count | None
    weight_bytes: Count
    activation_bytes: Count
    saturations: Count
    ticks_per_mac_limit: FiniteFloat | None = None
    error: FiniteFloat | None = None
    sensitivity: FiniteFloat | None = None


class Planned(Part):
    """One buffer with its place."""

    name: str
    size_bytes: Count
    offset: Count
    region: str
    sections: list[list[int]]


class PlanOfRecord(Part):
    """The plan of memory, with its proof."""

    peak_bytes: Count
    lower_bound_bytes: Count
    proven: bool
    peaks: dict[str, Count] = Field(default_factory=dict)
    buffers: list[Planned] = Field(default_factory=list)
    steps: list[str] = Field(default_factory=list)
    witness: int | None = None
    certificate: str = ""
    products_again: float = 0.0


class Parts(Part):
    """Bytes of flash and RAM by part of the program."""

    flash: dict[str, int]
    ram: dict[str, int]


class Shown(Part):
    """A sample of the worst."""

    sample: Count
    error: FiniteFloat | None
    label: int | None
    shape: list[Count]
    values: list[FiniteFloat] | None


class Decisions(Part):
    """Confusion matrix and the samples decided worst."""

    confusion: list[list[Count]] | None
    worst: list[Shown]


class ProfiledOperation(Part):
    """Ticks of one operation."""

    name: str
    ticks: FiniteFloat
    instructions: FiniteFloat | None


class Profiled(Part):
    """Ticks of all operations, and of what lies outside of them."""

    operations: list[ProfiledOperation]
    outside: FiniteFloat
    events: list[Annotated[list[Count], Field(min_length=3, max_length=3)]] = Field(default_factory=list)


class Output(Part):
    """The tensor that a model gives, and its format."""

    tensor: str
    format: str


class Issue(Part):
    """One reason for a verdict below valid."""

    code: Word
    severity: Literal["degraded", "invalid"]
    text: str


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
    output: Output | None = None
    boots: list[Boot] = Field(default_factory=list)
    verdict: Literal["valid", "degraded", "invalid"] | None = None
    issues: list[Issue] = Field(default_factory=list)
    layers: list[Layer] = Field(default_factory=list)
    plan: PlanOfRecord | None = None
    parts: Parts | None = None
    decisions: Decisions | None = None
    profile: Profiled | None = None
    kind: Literal["bench", "golden"] | None = None
    order: Order | None = None


class PartialTrace(Part):
    """Instructions and cycles of what has run so far."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    instructions: Count
    cycles: Count
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


class UniformFormat(Part):
    """One format for all tensors: its quality, or why it can not be."""

    format: Word
    reason: str | None
    quality: Share | None = None
    accuracy: Share | None = None
    arena_bytes: Count | None = None
    latency_us: FiniteFloat | None = None
    flash_bytes: Count | None = None


class Tried(Part):
    """One trial of a search."""

    number: Count
    quality: Share
    arena_bytes: Count
    latency_us: FiniteFloat | None = None
    flash_bytes: FiniteFloat | None = None


class FrontPoint(Part):
    """One point of a Pareto front, with its assignment."""

    number: Count
    assignment_file: str
    quality: Share
    accuracy: Share | None
    disagreements: Count
    arena_bytes: Count
    ram_bytes: Count | None
    latency_us: FiniteFloat | None
    flash_bytes: Count | None


class TensorSensitivity(Part):
    """What rounding one tensor alone does to the outputs."""

    tensor: str
    kind: Word
    elements: Count
    errors: dict[str, FiniteFloat]


class Sensitivities(Part):
    """`others`: the format that all other tensors had."""

    others: Word
    samples: Count
    tensors: list[TensorSensitivity]


class Phase(Part):
    """Seconds of one phase of a search."""

    phase: str
    seconds: FiniteFloat
    processor_seconds: FiniteFloat


class Searched(Part):
    """What records of an answer and of a front share."""

    strategy: Word
    evaluations: FiniteFloat
    seconds: FiniteFloat
    samples: Count
    uniform: list[UniformFormat]
    tried: list[Tried] = Field(default_factory=list)
    sensitivity: Sensitivities | None = None
    phases: list[Phase] = Field(default_factory=list)


class Search(Searched):
    """Of `hil search`."""

    accuracy: Share | None


class Sweep(Searched):
    """Of `hil search --pareto`."""

    points: list[FrontPoint]


def read_search(path: Path) -> dict[str, Any]:
    """The record of a search, as it was written; DataError says where it is none."""
    data = files.read_json(path, "record")
    return _validated(path, Sweep if isinstance(data, dict) and "points" in data else Search, data)


def read_record(path: Path) -> dict[str, Any]:
    """The record in a file, as it was written; DataError says where it is none."""
    data = files.read_json(path, "record")
    if not isinstance(data, dict) or "raw" not in data:
        raise DataError(f"{path}: not a record of `hil run`, `hil bench` or `hil golden`")
    return _validated(path, Record, data)


def _validated(path: Path, kind: type[Part], data: Any) -> dict[str, Any]:
    try:
        kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(f"{path}: not a record of this version: {where}: {first['msg']}; measure again") from None
    found: dict[str, Any] = data
    return found
