"""A firmware of others that speaks MLPerf Tiny's protocol: `name`, `profile`, `db`, `infer`.

On an emulator its cycles are counted between the lines of its two timestamps, elsewhere its own clock is all there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.errors import DataError, DeviceCrashed, HilError, LinkError, LinkTimeout
from tinyhil.harness.boards import attached, simulated
from tinyhil.harness.boards.connection import LINES, Connection, Session
from tinyhil.harness.boards.fidelity import fidelity_of
from tinyhil.harness.engines.firmware_file import FirmwareFile
from tinyhil.harness.engines.measurement import Asked, EngineName, Measurement
from tinyhil.harness.engines.port import Port
from tinyhil.harness.job.inputs import Inputs
from tinyhil.harness.measure.talk import log_folder
from tinyhil.harness.mlperf.benchmarks import BENCHMARKS, Benchmark
from tinyhil.harness.mlperf.runner_protocol import Device, Inference
from tinyhil.harness.records.bench_stats import ticks_spread

BUDGET = 2_000_000_000  # instructions; the slowest image needs a fifth
BUDGET_SPENT = "instruction budget"  # as the emulator says
ANSWER_S = 600.0
GREETING_S, QUIET_S = 20.0, 0.5
SLACK_CYCLES = 4000  # around the inferences, between the two timestamps
MICROSECONDS = "microseconds"


@dataclass(frozen=True, slots=True)
class Counts:
    """How often it infers for a sample, and before that for its caches; what it may take of an emulator."""

    inferences: int = 2
    warm_up: int = 1
    budget: int = BUDGET
    answer_s: float = ANSWER_S


TWICE = Counts()


@dataclass(frozen=True, slots=True)
class Lap:
    """Of one inference. `instructions` None: its own clock counted, `ticks` are microseconds."""

    ticks: float
    instructions: float | None


def measured(asked: Asked, firmware: FirmwareFile, inputs: Inputs | None, counts: Counts) -> Measurement:
    """Every sample, else one of noise, on which no time depends. DeviceCrashed, LinkTimeout, LinkError or DataError."""
    place = asked.place
    totals: Mapping[str, Any] = {}
    with log_folder(firmware.image.project_dir) as logs:
        if asked.port is not None:
            with attached.connect(asked.board, asked.port) as board:
                name, benchmark, sent, answers = _spoken(board, asked, inputs, counts)
            clock_hz, laps = 0, [_own(answer) for answer in answers]
        else:
            name, benchmark, sent, answers, totals = _emulated(asked, firmware, inputs, counts, logs)
            clock_hz = int(totals["clock_hz"])
            laps = _laps(logs / LINES, answers, clock_hz)
    ticks = [lap.ticks for lap in laps]
    instructions = [lap.instructions for lap in laps if lap.instructions is not None]
    return Measurement(
        engine=EngineName(name, None, {firmware.path.name: firmware.sha256}),
        input=Port("float32") if benchmark.values is None else None,
        output=Port("float32"),
        sent=sent,
        outputs=[np.array(answer.results, "<f4").tobytes() for answer in answers],
        reals=None if benchmark.values is None else np.array([answer.results for answer in answers], np.float32),
        latency=_latency(asked, place.port is None, ticks, instructions, clock_hz),
        ticks=[round(tick) for tick in ticks],
        instructions=[round(count) for count in instructions],
        image=firmware.image if firmware.known else None,
        identity=firmware.sha256[:16],
        surroundings=totals,
    )


Spoken = tuple[str, Benchmark, list[bytes], list[Inference]]


def _spoken(board: Connection, asked: Asked, inputs: Inputs | None, counts: Counts) -> Spoken:
    with Device(board, asked.board.baud) as device:
        _wait_for(device, asked, counts)
        name, model = device.name(), device.model()
        benchmark = next((one for one in BENCHMARKS if model[:2] == one.id[:2]), None)
        if benchmark is None:
            raise LinkError(f"{board.port}: says it is {model!r}, which is none of MLPerf Tiny's benchmarks")
        sent = _raw(benchmark, inputs)
        answers = []
        for raw in sent:
            device.load(raw)
            answers.append(device.infer(counts.inferences, counts.warm_up, counts.answer_s))
    return name, benchmark, sent, answers


def _wait_for(device: Device, asked: Asked, counts: Counts) -> None:
    """Until the board is known to listen. An emulated one starts, and greets, when its port is opened."""
    if asked.port is None:
        device.greeting(min(GREETING_S, counts.answer_s))
    else:
        device.settle(QUIET_S)


def _emulated(
    asked: Asked, firmware: FirmwareFile, inputs: Inputs | None, counts: Counts, logs: Path
) -> tuple[str, Benchmark, list[bytes], list[Inference], Mapping[str, Any]]:
    """With the emulator's totals. What the emulator knows of an end goes before what the wire tells."""
    session = Session(firmware.image.load_path, logs, watch_lines=True, budget=counts.budget, foreign=True)
    problem: HilError | None = None
    found: Spoken | None = None
    with simulated.connect(asked.board, session) as board:
        try:
            found = _spoken(board, asked, inputs, counts)
        except HilError as error:
            problem = error
        totals = board.finish()
        try:
            board.alive()
        except DeviceCrashed as error:
            if error.pc is not None:  # else it has only ended, as it was asked to
                raise
    if totals.get("why") == BUDGET_SPENT:
        raise LinkTimeout(f"{asked.board.name}: no end within {counts.budget:,} instructions")
    if problem is not None or found is None:
        assert problem is not None
        raise problem
    return *found, totals


def _raw(benchmark: Benchmark, inputs: Inputs | None) -> list[bytes]:
    """What the runner sends for each sample: its real numbers as the bytes that mean the nearest."""
    if inputs is None:
        raw = np.random.default_rng(0).integers(0, 256, benchmark.count, np.uint8)
        return [raw.tobytes() if benchmark.values is not None else (raw / np.float32(64) - 2).astype("<f4").tobytes()]
    x = inputs.x.reshape(len(inputs.x), -1)
    if x.shape[1] != benchmark.count:
        raise DataError(f"{inputs.name}: {x.shape[1]} numbers per sample, {benchmark.id} takes {benchmark.count}")
    if benchmark.values is None:
        return [row.astype("<f4").tobytes() for row in x]
    order = np.argsort(benchmark.values, kind="stable")
    known = benchmark.values[order].astype(np.float64)
    middles = (known[1:] + known[:-1]) / 2
    return [order[np.searchsorted(middles, row)].astype(np.uint8).tobytes() for row in x]


def _own(answer: Inference) -> Lap:
    """By the firmware's clock. LinkError without two timestamps."""
    if answer.elapsed_us is None:
        raise LinkError("the firmware tells no time: is it an image for energy mode?")
    return Lap(answer.elapsed_us / answer.count, None)


def _laps(lines: Path, answers: Sequence[Inference], clock_hz: int) -> list[Lap]:
    """Between the end of the line with the first timestamp and the start of that with the second; LinkError where the
    firmware's own clock disagrees."""
    said = [line.split(" ", 4) for line in lines.read_text(errors="replace").splitlines()]
    starts = [i for i, words in enumerate(said) if words[4].startswith("m-infer-start")]
    found = []
    for start, answer in zip(starts, answers, strict=False):
        laps = [words for words in said[start:] if words[4].startswith("m-lap-us")][:2]
        if len(laps) < 2:
            raise LinkError("the firmware tells no time: is it an image for energy mode?")
        cycles, instructions = (int(laps[1][i]) - int(laps[0][i + 2]) for i in (0, 1))
        own = _own(answer).ticks * answer.count * clock_hz / 1e6
        if abs(own - cycles) > SLACK_CYCLES + 0.01 * cycles:
            raise LinkError(f"its own clock says {own:,.0f} cycles, the emulator {cycles:,}: its clock is not modelled")
        found.append(Lap(cycles / answer.count, instructions / answer.count))
    return found


def _latency(
    asked: Asked, emulated: bool, ticks: Sequence[float], instructions: Sequence[float], clock_hz: int
) -> dict[str, Any]:
    """The key `latency`. On a real board microseconds of the firmware's own clock, whose rate it does not tell."""
    known: dict[str, Any] = {
        "unit": asked.board.chip.tick if emulated else MICROSECONDS,
        **ticks_spread(ticks, clock_hz if emulated else int(1e6)),
        "clock_hz": clock_hz if emulated else None,
        "fidelity": fidelity_of(asked.board, emulated),
        "mode": "quiet",
    }
    if instructions:
        known["instructions"] = float(np.median(instructions))
        emulator = asked.board.chip.emulator
        if emulator is not None and emulator.error is not None:
            known["low"], known["high"] = (known["median"] * (1 + side * emulator.error) for side in (-1, 1))
    return known
