"""`hil profile`: what every operation of a model costs on a board.

The firmware is that of `hil run` with a timed section of its own around each operation (docs/protocol.md, OPERATION).
What reading the clock costs is measured by empty operations at the start of every sample, and subtracted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tinyhil.codegen.body import OPERATIONS
from tinyhil.codegen.kernel_calls import signature_of
from tinyhil.codegen.profile_calls import EMPTY_PAIRS, empty_number, number_of
from tinyhil.errors import BoardDiffers, LinkError
from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.build.pipeline import Compiled
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.details import layers_of
from tinyhil.harness.measure.loop_limits import loop_limit
from tinyhil.harness.measure.operations import described, elements_of, executed, last_of, macs_of
from tinyhil.harness.measure.record import add_profile, store
from tinyhil.harness.measure.rounding_sensitivity import MOST_OF_A_PROFILE
from tinyhil.harness.measure.run import Outcome, Progress, run
from tinyhil.harness.measure.variant import Device, Reported, run_variant
from tinyhil.harness.records.figures import cold_first
from tinyhil.harness.records.verdict import issue_texts
from tinyhil.harness.settings.config import Boards
from tinyhil.harness.wire.protocol import Timed
from tinyhil.harness.wire.trace import END
from tinyhil.language.program import Op, Program, walk
from tinyhil.notice import Say
from tinyhil.passes.chains import Chain, carried_out

OPERATION_TAG = 0x10000  # firmware/wire/session.cpp: above the numbers of samples


@dataclass(frozen=True, slots=True)
class OperationCost:
    """One operation: `ticks` and `instructions` per sample (mean), over all its `executions`, of which `macs` products
    are summed (None: no layer) and `elements` results written. `signature`: all that decides its code. `limit`: cycles
    or instructions per product that the best loop known for its operands takes on this core (loop_limits.py)."""

    name: str
    output: str
    kernel: str
    formats: tuple[str, ...]
    signature: str
    executions: int
    elements: int
    macs: int | None
    ticks: float
    instructions: float | None
    limit: float | None = None

    @property
    def best_loop(self) -> float | None:
        """The limit, or what this operation itself takes where its kernel has found a better loop."""
        spent = self.per_product
        return self.limit if self.limit is None or spent is None else min(self.limit, spent)

    @property
    def per_product(self) -> float | None:
        """Instructions per product where they are counted, else ticks; None for what is no layer."""
        spent = self.ticks if self.instructions is None else self.instructions
        return spent / self.macs if self.macs else None


@dataclass(frozen=True, slots=True)
class Profile:
    """`outside`: ticks per sample between operations (loops, rows of the input, the copy of the output). `events`:
    number, ticks and ticks outside so far of each operation of the first sample, in order. `whole`: those
    of the same samples on the image without a profile, `worst` the most of one of them. `reading`: of one reading."""

    board: str
    model: str
    format: str
    unit: str
    fidelity: str
    samples: int
    operations: tuple[OperationCost, ...]
    outside: float
    events: tuple[tuple[int, int, int], ...]
    whole: float
    worst: int
    whole_instructions: float | None
    reading: float
    clock_hz: int
    flash_bytes: int
    record: str
    accelerator: dict[str, Any] | None = None  # of boards that are one, as in the record
    issues: tuple[str, ...] = ()  # why the record is not valid
    warm: float | None = None  # mean ticks of the other samples, where the first alone found nothing in a cache

    @property
    def summed(self) -> float:
        """Ticks per sample of all operations and of what lies outside of them; the whole run takes `whole`."""
        return sum(operation.ticks for operation in self.operations) + self.outside

    def as_json(self) -> dict[str, Any]:
        """As the record has it, with the sum and by how many ticks the whole run differs."""
        return {**asdict(self), "summed": self.summed, "difference": self.whole - self.summed}


def profile(request: Request, boards: Boards, cache_dir: Path, say: Say, progress: Progress) -> Profile:
    """Run as `hil run` does, then the same samples on firmware that times every operation."""
    return profile_run(run(request, boards, cache_dir, say, progress), boards, cache_dir, say)


def profile_run(outcome: Outcome, boards: Boards, cache_dir: Path, say: Say) -> Profile:
    """The costs behind a run. BoardDiffers if one of the two images computes other integers than the reference."""
    require_equal(outcome, outcome.outputs, "")
    record, path = store(outcome)
    device = Device(outcome.request, outcome.place, boards, cache_dir, say)
    reported = run_variant(device, outcome.compiled, OPERATIONS, outcome.integers)
    output = outcome.compiled.program.tensors[outcome.compiled.program.output]
    dtype = storage_dtype(output.format)
    outputs = np.array([np.frombuffer(result.output, dtype) for result in reported.results], np.int64)
    require_equal(outcome, outputs, ", profiled")
    costs, outside, reading = read_costs(outcome.compiled, reported)
    costs = with_limits(costs, outcome.compiled.program, outcome.board.chip.core)
    traces = outcome.traces
    is_cold = cold_first([*map(int, outcome.ticks)], [trace.instructions for trace in traces or ()])
    found = Profile(
        board=outcome.board.name,
        model=outcome.source.name,
        format=record["format"],
        unit=record["latency"]["unit"],
        fidelity=record["latency"]["fidelity"],
        samples=len(reported.results),
        operations=costs,
        outside=outside,
        events=events_of(reported, outcome.compiled.program, len(reported.results)),
        whole=float(outcome.ticks.mean()),
        worst=int(outcome.ticks.max()),
        warm=float(outcome.ticks[1:].mean()) if is_cold else None,
        whole_instructions=float(np.mean([trace.instructions for trace in traces])) if traces else None,
        reading=reading,
        clock_hz=outcome.clock_hz,
        flash_bytes=outcome.image.flash_bytes,
        record=str(path),
        accelerator=record["accelerator"],
        issues=tuple(issue_texts(record)),
    )
    if all(layer["sensitivity"] is None for layer in record["layers"]):
        record["layers"] = layers_of(outcome, MOST_OF_A_PROFILE)
    add_profile(record, path, found.as_json())
    return found


def with_limits(costs: Sequence[OperationCost], program: Program, core: str) -> tuple[OperationCost, ...]:
    """Costs with what each operation's loop could take at best on this core."""
    by_output = {op.output: op for op in walk(program.body)}
    return tuple(replace(cost, limit=loop_limit(core, program, by_output[cost.output])) for cost in costs)


MOST_EVENTS = 20_000  # that are kept


def events_of(reported: Reported, program: Program, samples: int) -> tuple[tuple[int, int, int], ...]:
    """The operations of the first sample as they came; () where they are too many to keep."""
    found = [message for message in reported.messages if isinstance(message, Timed)]
    first = found[EMPTY_PAIRS : len(found) // samples]
    begin = found[EMPTY_PAIRS - 1].outside
    if len(first) > MOST_EVENTS:
        return ()
    return tuple((message.operation, message.ticks, message.outside - begin) for message in first)


def require_equal(outcome: Outcome, outputs: np.ndarray, which: str) -> None:
    """BoardDiffers unless `outputs` (samples, elements) are those of the reference."""
    equal = (outputs == outcome.reference.outputs).all(axis=1)
    if not equal.all():
        sample = int(np.flatnonzero(~equal)[0])
        raise BoardDiffers(
            f"{outcome.board.name}{which}: {int((~equal).sum())} of {len(equal)} samples are not those of the host; "
            f"`hil diff --sample {sample}` names the tensor"
        )


def read_costs(compiled: Compiled, reported: Reported) -> tuple[tuple[OperationCost, ...], float, float]:
    """The operations in order, ticks outside of them per sample, and ticks of one reading of the clock.

    LinkError if a frame was lost.
    """
    program, empty = compiled.program, empty_number(compiled.program)
    order = [empty] * EMPTY_PAIRS + list(executed(program, compiled.plan, program.body))
    found = [message for message in reported.messages if isinstance(message, Timed)]
    if [message.operation for message in found] != order * len(reported.results):
        raise LinkError("the profile lacks operations: a frame was lost; try again")
    starts = range(0, len(found), len(order))
    reading = median(found[start + pair].ticks for start in starts for pair in range(EMPTY_PAIRS))
    between = median(found[start + 1].outside - found[start].outside for start in starts)
    samples = len(reported.results)
    outside = sum(result.ticks - len(order) * between for result in reported.results) / samples
    ticks: Counter[int] = Counter()
    for message in found:
        ticks[message.operation] += message.ticks
    executions = Counter(order)
    instructions = _instructions(reported.trace, empty)
    costs = []
    for item in carried_out(program, compiled.plan, program.body):
        number = number_of(program, item)
        times = executions[number]
        net = ticks[number] / samples - times * reading
        counted = instructions[number] / samples if instructions else None
        costs.append(_cost(program, item, times, net, counted))
    return tuple(costs), outside, reading


def _cost(program: Program, item: Op | Chain, times: int, ticks: float, instructions: float | None) -> OperationCost:
    name, kernel, formats = described(program, item)
    elements = elements_of(program, item, times)
    return OperationCost(
        name=name,
        output=last_of(item).output,
        kernel=kernel,
        formats=formats,
        signature=signature_of(program, item),
        executions=times,
        elements=elements,
        macs=macs_of(program, item, elements),
        ticks=ticks,
        instructions=instructions,
    )


def _instructions(trace: str, empty: int) -> dict[int, float]:
    """Instructions per operation over all samples, from an emulator's trace; {} without one."""
    spent: Counter[int] = Counter()
    times: Counter[int] = Counter()
    begin = 0
    for line in trace.splitlines():
        tag, instructions = (int(field) for field in line.split()[:2])
        if not tag & END:
            begin = instructions
            continue
        number = (tag & ~END) - OPERATION_TAG
        if 0 <= number <= empty:
            spent[number] += instructions - begin
            times[number] += 1
    if not times[empty]:
        return {}
    reading = spent[empty] / times[empty]
    return {number: count - times[number] * reading for number, count in spent.items()}
