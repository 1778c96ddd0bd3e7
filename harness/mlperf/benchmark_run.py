"""One benchmark on one board: modes carried out, the record of it, what is printed."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from tinyhil.errors import DataError
from tinyhil.formats.format import AFFINE
from tinyhil.harness.boards.fidelity import error_band
from tinyhil.harness.mlperf import accuracy, performance
from tinyhil.harness.mlperf.accuracy import Accuracy
from tinyhil.harness.mlperf.evaluation_sets import Evaluation, evaluation, quiet_input
from tinyhil.harness.mlperf.listening import HOP, SECONDS, Heard, listen, some_sound, sound_of
from tinyhil.harness.mlperf.runner_protocol import Device
from tinyhil.harness.mlperf.session import Ready, Running, switched_on
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say

PERFORMANCE, ACCURACY, ENERGY, STREAM = "performance", "accuracy", "energy", "stream"
QUIET_S = 0.3
EMULATED = "emulated: not a measurement, and no submission to MLCommons"


@dataclass(frozen=True, slots=True)
class Rules:
    """What is measured: `samples` are sent to the board in accuracy mode, `runs` of `seconds` in the others."""

    modes: tuple[str, ...] = (PERFORMANCE, ACCURACY)
    samples: int = 10
    runs: int = performance.RUNS
    seconds: float = performance.SECONDS
    audio: Path | None = None  # of stream mode

    @property
    def complete(self) -> bool:
        """Whether these are the official rules: so many runs, each so long."""
        return self.runs == performance.RUNS and self.seconds >= performance.SECONDS


def carry_out(ready: Ready, rules: Rules, boards: Boards, logs: Mapping[str, TextIO], say: Say) -> dict[str, Any]:
    """The record of a benchmark (docs/mlperf.md); `logs`: where the wire of each mode is written. HilError."""
    record = _head(ready)
    with switched_on(ready, boards, say) as running:
        with Device(running.connection, ready.board.baud) as device:
            device.settle(QUIET_S)
            device.check_image(ready.image.hash)
            if ready.wanted.sound:
                device.log = logs.get(STREAM)
                record[STREAM] = asdict(_stream(device, ready, rules, say))
                return {**record, "gate": None}
            if ready.wanted.energy:
                device.log = logs.get(ENERGY)
                record[ENERGY] = _energy(device, running, ready, rules, say)
            elif PERFORMANCE in rules.modes:
                device.log = logs.get(PERFORMANCE)
                record[PERFORMANCE] = _performance(device, ready, rules, say)
            if ACCURACY in rules.modes and not ready.wanted.energy:
                device.log = logs.get(ACCURACY)
                record[ACCURACY] = _accuracy(device, ready, rules, say)
        gate = performance.gate_of(running.pins, ready.board) if ready.emulated else None
        record["gate"] = None if gate is None else asdict(gate)
    return record


def _stream(device: Device, ready: Ready, rules: Rules, say: Say) -> Heard:
    assert ready.program is not None
    sound = some_sound(SECONDS) if rules.audio is None else sound_of(rules.audio)
    return listen(device, ready.program, sound[: rules.samples * HOP], say)


def _head(ready: Ready) -> dict[str, Any]:
    chip, emulator = ready.board.chip, ready.board.chip.emulator
    return {
        "benchmark": ready.benchmark.id,
        "board": ready.board.name,
        "title": ready.board.title,
        "chip": chip.name,
        "core": chip.core,
        "clock_hz": chip.clock_hz,
        "model": ready.opened.source.name,
        "model_sha256": ready.opened.model.sha256,
        **({} if ready.engine is None else {"engine": dict(ready.engine)}),
        "format": _format(ready),
        "image": ready.image.hash.hex(),
        "flash_bytes": ready.image.flash_bytes,
        "static_ram_bytes": ready.image.static_bytes,
        "ram_bytes": chip.ram_bytes,
        "chip_flash_bytes": chip.flash_bytes,
        "arena_bytes": ready.arena_bytes,
        "compiler": str(ready.image.compiler),
        "host": platform.platform(),
        "emulated": ready.emulated,
        "fidelity": emulator.fidelity if ready.emulated and emulator else "measured",
        "mark": EMULATED if ready.emulated else None,
    }


def _format(ready: Ready) -> str | None:
    """As it was asked for; beside the sound's, the one that the network's file has by itself. None: an engine's."""
    if ready.program is None:
        return None
    asked = str(ready.wanted.assignment or ready.wanted.format)
    formats = (tensor.format for tensor in ready.program.tensors.values() if ready.wanted.sound)
    own = sorted({f"int{fmt.bits}" for fmt in formats if fmt.domain == AFFINE})
    return f"{asked} front end, {' and '.join(own)} network" if own else asked


def _input(ready: Ready) -> bytes:
    try:
        return evaluation(ready.benchmark).raw[0].tobytes()
    except DataError:
        return quiet_input(ready.benchmark)


def _performance(device: Device, ready: Ready, rules: Rules, say: Say) -> dict[str, Any]:
    found = performance.measure(device, _input(ready), rules.runs, rules.seconds, say)
    cycles = ready.board.chip.clock_hz / found.throughput
    return {
        **asdict(found),
        "median_throughput": found.throughput,
        "latency_ms": 1000 / found.throughput,
        "cycles": cycles,
        "by_the_rules": rules.complete,
        "error_band": _error_band(ready),
    }


def _error_band(ready: Ready) -> str | None:
    emulator = ready.board.chip.emulator
    if not ready.emulated or emulator is None:
        return None
    return f"modelled cycles, {error_band(emulator)}"


def _energy(device: Device, running: Running, ready: Ready, rules: Rules, say: Say) -> dict[str, Any]:
    """The runs of energy mode, timed by the edges of its pin where an emulator sees them; a meter has the energy."""
    device.load(_input(ready))
    count = max(1, performance.LEAST_INFERENCES)
    taken: list[float] = []
    for number in range(rules.runs + 1):
        before = len(performance.pulses_s(running.pins, ready.board))
        device.infer(count, 0, performance.INFER_S)
        pulses = performance.pulses_s(running.pins, ready.board)[before:]
        if len(pulses) != 2:
            say(f"run {number}: {count} inferences; the pin's edges are for the meter on {ready.board.pulse}")
            continue
        seconds = pulses[1] - pulses[0]
        if number == 0:  # says how many are needed
            count = max(count, int(performance.MARGIN * rules.seconds * count / seconds) + 1)
            continue
        say(f"run {number} of {rules.runs}: {count} inferences, {seconds:.3f} s between edges")
        taken.append(seconds)
    return {
        "inferences": count,
        "seconds": taken,
        "pin": ready.board.pulse,
        "baud": ready.board.baud,
        "energy_uj": None,
    }


def _accuracy(device: Device, ready: Ready, rules: Rules, say: Say) -> dict[str, Any]:
    """Of an engine of somebody else's the metric is that of the inputs that the board was sent."""
    data = evaluation(ready.benchmark)
    sent = min(rules.samples, len(data.raw))
    from_board = accuracy.on_board(device, data.raw[:sent], lambda done, of: None)
    reference = ready.reported(data.raw)
    equal = None
    if reference is not None:
        equal = sum(accuracy.agrees(one, wanted) for one, wanted in zip(from_board, reference, strict=False))
        say(f"accuracy: {equal} of {sent} inputs reported as the reference reports them")
    judged = np.array(from_board) if reference is None else reference
    value = accuracy.score(ready.benchmark, judged, data.y[: len(judged)]) if len(judged) else None
    found = Accuracy(ready.benchmark.metric, value, len(judged), sent, equal, ready.benchmark.target)
    return {
        **asdict(found),
        "reached": found.reached,
        "data": data.name,
        "caveat": data.caveat,
        **_errors(judged, data, ready),
    }


def _errors(reference: np.ndarray, data: Evaluation, ready: Ready) -> dict[str, Any]:
    """Of a stream: wake words missed and heard where none is (class 0), by the spectrograms at hand."""
    if ready.benchmark.id != "sww01":
        return {}
    heard, right = reference.argmax(axis=1) == 0, data.y[: len(reference)] == 0
    return {"false_positives": int((heard & ~right).sum()), "false_negatives": int((~heard & right).sum())}


def table(record: dict[str, Any]) -> str:
    """For people."""
    about = f"emulated: {record['fidelity']}" if record["emulated"] else "measured"
    by = record["format"] or f"by {record['engine']['name']}"
    lines = [f"{record['benchmark']} ({record['model']}, {by}) on {record['board']} ({about})"]
    if PERFORMANCE in record:
        p = record[PERFORMANCE]
        rule = "" if p["by_the_rules"] else "; not by the rules: five runs of ten seconds"
        lines.append(
            f"performance  median {p['median_throughput']:.3f} inf./sec., {p['latency_ms']:.3f} ms, "
            f"{p['cycles']:,.0f} cycles ({len(p['seconds'])} runs of {min(p['seconds']):.3f} s{rule})"
        )
        if p["error_band"]:
            lines.append(f"             {p['error_band']}")
    if ENERGY in record:
        e = record[ENERGY]
        lines.append(
            f"energy       {len(e['seconds'])} runs of {e['inferences']} inferences, {e['baud']} Bd, pin {e['pin']}"
        )
    if ACCURACY in record:
        lines += _accuracy_lines(record[ACCURACY])
    if STREAM in record:
        s = record[STREAM]
        ms, answered = s["us_per_stride"] / 1000, f"{s['equal']} of {s['strides']} strides of 32 ms as the reference"
        lines.append(f"stream       {answered}, {ms:.3f} ms each: duty cycle {s['duty_cycle']:.3f}")
        lines.append(f"             wake word in {len(s['detections'])} strides")
    if record["gate"]:
        g = record["gate"]
        lines.append(
            f"gate         {g['count']} times high, {g['least']:,} to {g['most']:,} cycles, median {g['median']:,.0f}"
        )
    arena = "" if record["arena_bytes"] is None else f" (arena {record['arena_bytes']:,} B)"
    ram = f"{record['static_ram_bytes']:,} B of RAM{arena}"
    lines.append(f"memory       {record['flash_bytes']:,} B of flash, {ram}, stack not included")
    return "\n".join(lines)


def _accuracy_lines(found: dict[str, Any]) -> list[str]:
    value = "cannot be formed" if found["value"] is None else f"{found['value']:.4f}"
    target = "" if found["target"] is None else f", target {found['target']:.2f}"
    verdict = {True: " (reached)", False: " (MISSED)", None: ""}[found["reached"]]
    board = (
        "by the board" if found["equal"] is None else f"board {found['equal']} of {found['samples']} as the reference"
    )
    lines = [
        f"accuracy     {found['metric']} {value}{target}{verdict} on {found['of']} inputs of {found['data']}; {board}"
    ]
    return [*lines, f"             {found['caveat']}"] if found["caveat"] else lines
