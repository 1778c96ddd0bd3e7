"""What records and golden records must be. All that reads one reads it through here, and what comes out is fit for
every consumer: verdicts, reports, comparisons, exports, charts.

Keys that nobody computes with may be added; those below have these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from tinyhil import files
from tinyhil.errors import DataError
from tinyhil.fields import (
    Amount,
    Count,
    Crc,
    Hex,
    Part,
    Real,
    Share,
    Single,
    Span,
    Text,
    Whole,
    Word,
    first_fault,
)
from tinyhil.harness.records.search_schema import Search, Sweep
from tinyhil.quoting import printable


class Emulator(Part):
    """Which emulator ran, and what its numbers mean."""

    name: Word
    fidelity: Word


class Latency(Part):
    """Ticks of a sample, in their unit."""

    unit: Word
    median: Amount
    clock_hz: Count
    min: Amount = 0
    p95: Amount = 0
    max: Amount = 0
    median_us: Amount | None = None
    instructions: Amount = 0
    low: Amount = 0
    high: Amount = 0
    fidelity: Word = "unknown"
    mode: Word = "quiet"

    @model_validator(mode="after")
    def _a_band_has_two_ends(self) -> Latency:
        if ("low" in self.model_fields_set) != ("high" in self.model_fields_set):
            raise ValueError("low without high, or the other way round")
        if "low" in self.model_fields_set and not self.clock_hz:
            raise ValueError("a band of times without a clock")
        return self


class Memory(Part):
    """Bytes of RAM, by what they are for."""

    static_bytes: Count
    arena_bytes: Count
    heap_bytes: Count | None
    stack_bytes: Count | None
    stack_limit_bytes: Count | None = None
    stack_limit_unknown: str = ""
    copied_bytes: Count = 0
    input_bytes: Count = 0
    total_bytes: Count | None = None
    limit_bytes: Count | None = None


class Raw(Part):
    """What each sample gave, in lists of one length."""

    ticks: list[Count]
    instructions: list[Real]
    inputs_crc32: list[Crc]
    outputs: list[Hex]
    saturations: list[Count]

    @model_validator(mode="after")
    def _one_of_each_per_sample(self) -> Raw:
        counts = {len(self.ticks), len(self.inputs_crc32), len(self.outputs), len(self.saturations)}
        if len(counts) > 1 or len(self.instructions) not in {0, *counts}:
            raise ValueError("the lists differ in length")
        if len({len(row) for row in self.outputs}) > 1:
            raise ValueError("outputs of samples differ in length")
        return self


class Compiler(Part):
    """What compiled the firmware."""

    name: Word
    version: Word


class Provenance(Part):
    """What a record was made from."""

    compiler: Compiler
    model_sha256: Word
    command: Text | None = None
    utc: Text | None = None
    tinyhil: Text | None = None
    commit: Text | None = None
    dirty: bool | None = None
    python: Text | None = None
    graph: Text | None = None
    image_hash: Text | None = None
    port: Text | None = None
    instance: Text | None = None
    serial_number: Text | None = None


class Data(Part):
    """The samples that were streamed."""

    name: Word
    sha256: Text | None = None
    source: Text | None = None


class Boot(Part):
    """Ticks from reset to HELLO."""

    median: Amount


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
    prefer: Word | None = None
    states: list[Word] | None = None
    steps: Annotated[int, Field(ge=1)] | None = None
    ram: Annotated[int, Field(ge=1)] | None = None


class Layer(Part):
    """One operation: kernel, operands, sizes, cost."""

    number: Count
    name: Text
    kernel: Word
    output: Text
    inputs: list[Text]
    formats: dict[str, Text]
    executions: Count
    elements: Count
    macs: Count | None
    weight_bytes: Count
    activation_bytes: Count
    saturations: Count
    ticks_per_mac_limit: Real | None = None
    error: Real | None = None
    sensitivity: Real | None = None


class Planned(Part):
    """One buffer with its place, and the instants [first, last + 1) in which it lives."""

    name: Text
    size_bytes: Count
    offset: Count
    region: Text
    sections: list[Span]


class PlanOfRecord(Part):
    """The plan of memory, with its proof."""

    peak_bytes: Count
    lower_bound_bytes: Count
    proven: bool
    peaks: dict[str, Count] = Field(default_factory=dict)
    buffers: list[Planned] = Field(default_factory=list)
    steps: list[Text] = Field(default_factory=list)
    witness: Count | None = None
    certificate: Text = ""
    products_again: Amount = 0.0
    prefer: Word | None = None


class Parts(Part):
    """Bytes of flash and RAM by part of the program."""

    flash: dict[str, Count]
    ram: dict[str, Count]


class Shown(Part):
    """A sample of the worst."""

    sample: Count
    error: Amount | None
    class_: Whole | None = Field(None, alias="class")
    float_class: Whole | None = None
    label: Whole | None
    shape: list[Annotated[int, Field(ge=0, le=1 << 20)]] = Field(max_length=8)
    values: list[Single] | None


class DecidedBy(Part):
    """What names the class: so many elements of the output, the largest of them; `above`: what one alone must exceed,
    None where it is the class itself."""

    elements: Count
    above: Real | None


class Decisions(Part):
    """Confusion matrix and the samples decided worst; names of classes by number, as far as the model has any."""

    confusion: list[list[Count]] | None
    worst: list[Shown]
    names: list[Text] = Field(default=[], max_length=100)

    @model_validator(mode="after")
    def _a_square(self) -> Decisions:
        if self.confusion is not None and {len(row) for row in self.confusion} - {len(self.confusion)}:
            raise ValueError("the confusion matrix is no square")
        return self


class ProfiledOperation(Part):
    """Ticks of one operation."""

    name: Text
    ticks: Real
    instructions: Real | None


class Profiled(Part):
    """Ticks of all operations, and of what lies outside of them."""

    operations: list[ProfiledOperation]
    outside: Real
    events: list[Annotated[list[Count], Field(min_length=3, max_length=3)]] = Field(default_factory=list)


class Output(Part):
    """The tensor that a model gives, and its format."""

    tensor: Text
    format: Text


class FloatCheck(Part):
    """What was compared with the float model."""

    samples: Count
    tensors: Count
    unchecked: list[Text]


class Degraded(Part):
    """A tensor that is further from the float model than its formats explain."""

    tensor: Text
    node: Text
    format: Text
    error: Amount
    allowed: Amount


class Link(Part):
    """How the wire was used, and what was lost on it."""

    attempts: Count = 1
    damaged_frames: Count | None = None
    rx_overruns: Count | None = None


class Issue(Part):
    """One reason for a verdict below valid."""

    code: Word
    severity: Literal["degraded", "invalid"]
    text: Text


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
    data: Data | None = None
    equal_samples: Count = 0
    float_accuracy: Share | None = None
    disagreements: Count | None = None
    decided_by: DecidedBy | None = None  # not said by earlier versions
    largest_output_error: Amount | None = None
    saturations: Count | None = None
    input_saturations: Count | None = None
    input_beyond: Count | None = None
    input_elements: Count | None = None
    float_check: FloatCheck | None = None
    degraded: list[Degraded] = Field(default_factory=list)
    flash_limit_bytes: Count | None = None
    flaky: bool = False
    link: Link = Link()
    wall_seconds: dict[str, Amount] = Field(default_factory=dict)
    assignment: dict[str, Text] = Field(default_factory=dict)
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

    @model_validator(mode="after")
    def _profiled_operations_are_layers(self) -> Record:
        numbers = {layer.number for layer in self.layers}
        if self.profile is not None and any(event[0] not in numbers for event in self.profile.events):
            raise ValueError("profile.events: an operation that is none of the layers")
        return self


class Run(Record):
    """Of `hil run`, whole: what tables of runs and exported libraries show."""

    data: Data
    equal_samples: Count
    float_accuracy: Share | None
    disagreements: Count
    flaky: bool


def read_record(path: Path, kind: type[Record] = Record) -> dict[str, Any]:
    """The record in a file, as it was written; DataError says where it is none."""
    return _fit(str(path), kind, files.read_json(path, "record"))


def read_any(path: Path) -> dict[str, Any]:
    """A record of a run, a bench, a profile, golden, or of a search, which alone has a `strategy`."""
    data = files.read_json(path, "record")
    if not isinstance(data, dict) or "strategy" not in data:
        return _fit(str(path), Record, data)
    return _fit(str(path), Sweep if "points" in data else Search, data)


def required(record: Mapping[str, Any], what: str) -> dict[str, Any]:
    """A record that somebody has in memory, once it is seen to be one; `what` names it. DataError if it is none."""
    return _fit(what, Record, dict(record) if isinstance(record, Mapping) else record)


def _fit(where: str, kind: type[Part], data: Any) -> dict[str, Any]:
    if isinstance(data, dict) and isinstance(engine := data.get("engine"), dict):
        name = printable(str(engine.get("name")), 40)
        raise DataError(
            f"{where}: measured of {name}, not of tinyhil: `hil watch` shows it, `board.firmware()` in pytest holds it"
        )
    if not isinstance(data, dict) or not {"raw", "strategy"} & data.keys():
        raise DataError(
            f"{where}: not a record of `hil run`, `hil bench`, `hil golden` or `hil search`; of a sweep give the folder"
        )
    if "strategy" in data and issubclass(kind, Record):
        raise DataError(f"{where}: not a record of a run but of a search; `hil report` shows it")
    try:
        kind.model_validate(data)
    except ValidationError as error:
        raise DataError(f"{where}: not a record of this version: {first_fault(error)}; measure again") from None
    found: dict[str, Any] = data
    return found
