"""The record of a run: one JSON object whose top-level keys are a public interface (docs/results.md)."""

from __future__ import annotations

import binascii
import datetime
import hashlib
import itertools
import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil import files
from tinyhil.agreement import Agreement
from tinyhil.errors import ModelError
from tinyhil.formats.clipping import METHODS
from tinyhil.formats.codec import storage_dtype
from tinyhil.harness.boards.fidelity import fidelity_of
from tinyhil.harness.boards.locate import Place
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.stack_depth import stack_bound
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure import details
from tinyhil.harness.measure.run import Outcome
from tinyhil.harness.records.accelerator_costs import accelerator_of
from tinyhil.harness.records.bench_stats import ticks_spread
from tinyhil.harness.records.partial import writing
from tinyhil.harness.records.verdict import verdict_of
from tinyhil.harness.settings.assets import asset, in_checkout
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.wire.trace import SampleTrace
from tinyhil.language.program import Program, Role
from tinyhil.memplan.arena.row_costs import products_again
from tinyhil.processes import run
from tinyhil.references.classes import classes_of, deciding, threshold
from tinyhil.references.reference import dequantize_outputs

SCHEMA_VERSION = 1


def make_record(outcome: Outcome, detailed: bool = True) -> dict[str, Any]:
    """Everything worth knowing about a run, in JSON types. Accuracies are fractions from 0 to 1.

    `detailed`: with what only a report shows (harness/measure/details.py).
    """
    graph = outcome.compiled.model.graph
    classes = classes_of(graph, dequantize_outputs(outcome.compiled.program, outcome.outputs))
    float_classes = classes_of(graph, outcome.float_outputs)
    equal = (outcome.outputs == outcome.reference.outputs).all(axis=1)
    equal &= outcome.saturations == outcome.reference.saturations
    labels = outcome.inputs.y
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "board": outcome.board.name,
        "emulator": emulator_of(outcome.board, outcome.request) if outcome.emulated else None,
        "model": outcome.source.name,
        "data": {
            "name": outcome.inputs.name,
            "source": outcome.inputs.source,
            "sha256": outcome.inputs.sha256,
            "calibration": dict(outcome.ranges.source),
        },
        "format": outcome.compiled.formats,
        "samples": len(classes),
        "bit_exact": bool(equal.all() and len(equal) > 0),
        "equal_samples": int(equal.sum()),
        "accuracy": None if labels is None else float((classes == labels).mean()),
        "float_accuracy": None if labels is None else float((float_classes == labels).mean()),
        "disagreements": int((classes != float_classes).sum()),
        "decided_by": _decided_by(outcome),
        "largest_output_error": _largest_error(outcome),
        "explained_output_error": outcome.agreement.explained_output_error,
        "float_check": _float_check(outcome.agreement),
        "degraded": [asdict(finding) for finding in outcome.agreement.findings],
        "saturations": int(outcome.saturations.sum()),
        "input_saturations": outcome.input_saturations,
        "input_beyond": _beyond(outcome),
        "input_elements": int(outcome.integers.shape[1]),
        "latency": _latency(outcome),
        "accelerator": accelerator_of(outcome.board, outcome.compiled.program),
        "memory": _memory(outcome),
        "flash_bytes": outcome.image.flash_bytes,
        "flash_limit_bytes": outcome.board.chip.flash_bytes,
        "flaky": outcome.attempts > 1,
        "link": _link(outcome),
        "wall_seconds": outcome.wall_seconds,
        "assignment": formats_of(outcome.compiled.program),
        "output": _output(outcome.compiled.program),
        "plan": _plan(outcome),
        "raw": _raw(outcome),
        "provenance": _provenance(outcome),
    }
    if detailed:
        record["layers"] = details.layers_of(outcome)
        record["plan"] |= details.memory_of(outcome)
        record["parts"] = details.image_of(outcome)
        record["decisions"] = details.decisions_of(outcome, classes, float_classes)
    return {**record, **verdict_of(record)}


def _float_check(agreed: Agreement) -> dict[str, Any]:
    """What was compared with the float model, operation by operation."""
    unchecked = [*agreed.unchecked, *agreed.saturated]
    return {"samples": agreed.samples, "tensors": len(agreed.checked), "unchecked": unchecked}


def _raw(outcome: Outcome) -> dict[str, Any]:
    """Per sample: what went in (CRC-32 of its integers), what came out (hexadecimal, as on the wire), and its cost."""
    rows = np.ascontiguousarray(outcome.integers, "<i8").reshape(len(outcome.integers), -1)
    output = outcome.compiled.program.tensors[outcome.compiled.program.output]
    storage = storage_dtype(output.format)
    return {
        "ticks": outcome.ticks.tolist(),
        "instructions": [trace.instructions for trace in outcome.traces],
        "inputs_crc32": [f"{binascii.crc32(row.tobytes()):08x}" for row in rows],
        "outputs": [row.astype(storage).tobytes().hex() for row in outcome.outputs],
        "saturations": outcome.saturations.tolist(),
    }


def store(outcome: Outcome) -> tuple[dict[str, Any], Path]:
    """Make and write the record; only then the finished samples on disk have done their duty."""
    record = make_record(outcome)
    path = write_record(record, outcome.request.results)
    outcome.partial.discard()
    return record, path


def add_profile(record: dict[str, Any], path: Path, profile: Mapping[str, Any]) -> None:
    """What each operation took, into a record that lies at `path` already."""
    record["profile"] = {
        key: profile[key] for key in ("operations", "outside", "events", "whole", "reading", "samples")
    }
    record["provenance"]["command"] = record["provenance"]["command"].replace("hil run", "hil profile", 1)
    files.write_text(path, json.dumps(record, indent=1) + "\n")


def write_record(record: Mapping[str, Any], results: Path) -> Path:
    """Store under results/<board>/<model>/<utc>-<hash>.json; returns the path."""
    stamp = record["provenance"]["utc"].replace(":", "").replace("-", "")
    folder = results / record["board"] / record["model"]
    stem = f"{stamp}-{record['provenance']['image_hash'][:8]}"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        path = _reserve(folder, stem)
        try:
            files.write_text(path, json.dumps(record, indent=1) + "\n")
        except OSError:
            path.unlink()
            raise
    return path


def _reserve(folder: Path, stem: str) -> Path:
    """A new empty file; equal runs may end in the same second."""
    for number in itertools.count(1):
        path = folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")
        try:
            path.open("x").close()
            return path
        except FileExistsError:
            continue
    raise AssertionError("itertools.count ends never")


def _largest_error(outcome: Outcome) -> float:
    real = dequantize_outputs(outcome.compiled.program, outcome.outputs)
    return float(np.abs(real - outcome.float_outputs).max())


def _decided_by(outcome: Outcome) -> dict[str, Any]:
    graph = outcome.compiled.model.graph
    return {"elements": deciding(graph, outcome.float_outputs.shape[1]), "above": threshold(graph)}


def _beyond(outcome: Outcome) -> int | None:
    """Elements of the inputs beyond the range that was calibrated; None where they have a range each, none, or one that
    was cut."""
    graph, is_cut = outcome.compiled.model.graph, outcome.ranges.by != METHODS[0]
    if is_cut or len(graph.inputs) != 1 or graph.parts or outcome.compiled.program.columns is not None:
        return None
    with suppress(ModelError):
        low, high = outcome.ranges.ends(graph.inputs[0])
        x = np.asarray(outcome.inputs.x)
        return int(((x < low) | (x > high)).sum())
    return None


def emulator_of(board: BoardSpec, request: Request) -> dict[str, Any]:
    """The key `emulator` of a record of an emulated board."""
    emulator = board.chip.emulator
    assert emulator is not None
    name = Path(emulator.program).name
    return {"name": name, "fidelity": emulator.fidelity, "uart": request.uart, "realtime": request.realtime}


def _latency(outcome: Outcome) -> dict[str, Any]:
    mode, emulated = outcome.request.mode, outcome.emulated
    return latency_of(outcome.board, outcome.ticks, outcome.traces, outcome.clock_hz, mode, emulated=emulated)


def latency_of(
    board: BoardSpec, ticks: np.ndarray, traces: Sequence[SampleTrace], clock_hz: int, mode: str, *, emulated: bool
) -> dict[str, Any]:
    """The key `latency` of a record."""
    is_count = board.chip.tick == "instructions"  # which take no known time
    latency: dict[str, Any] = {
        "unit": board.chip.tick,
        **ticks_spread(ticks, None if is_count else clock_hz),
        "clock_hz": clock_hz,
        "fidelity": fidelity_of(board, emulated),
        "mode": mode,
    }
    if traces:
        latency["instructions"] = float(np.median([t.instructions for t in traces]))
        latency["model_min"] = float(np.median([t.cycles_min for t in traces]))
        latency["model_max"] = float(np.median([t.cycles_max for t in traces]))
        latency["low"], latency["high"] = _band(board, latency)
    return latency


def _band(board: BoardSpec, latency: Mapping[str, Any]) -> tuple[float, float]:
    """Cycles between which the chip's median lies as far as is known: the model's error, or else its bounds."""
    emulator = board.chip.emulator
    error = emulator.error if emulator is not None else None
    if error is None:
        return latency["model_min"], latency["model_max"]
    return latency["median"] * (1 - error), latency["median"] * (1 + error)


def _memory(outcome: Outcome) -> dict[str, Any]:
    chip, stats = outcome.board.chip, outcome.stats
    known = stats.stack_bytes is not None and stats.heap_bytes is not None
    static, bound = outcome.image.static_bytes, stack_bound(outcome.image, chip.core)
    return {
        "arena_bytes": outcome.compiled.plan.peak_bytes,
        "input_bytes": outcome.compiled.transfers[outcome.board.name].input_bytes,
        "static_bytes": static,
        "stack_bytes": stats.stack_bytes,
        "stack_limit_bytes": bound.limit_bytes,
        "stack_limit_unknown": bound.unknown,
        "heap_bytes": stats.heap_bytes,
        "total_bytes": static + (stats.stack_bytes or 0) + (stats.heap_bytes or 0) if known else None,
        "limit_bytes": chip.ram_bytes,
        "copied_bytes": outcome.image.copied_bytes,
    }


def _link(outcome: Outcome) -> dict[str, Any]:
    transfer = outcome.compiled.transfers[outcome.board.name]
    return {
        "streamed": transfer.streamed,
        "slots": transfer.slots,
        "chunk_bytes": transfer.chunk_bytes,
        "damaged_frames": outcome.stats.damaged_frames,
        "rx_overruns": outcome.stats.rx_overruns,
        "attempts": outcome.attempts,
        "load": outcome.request.load if outcome.emulated else None,
    }


def formats_of(program: Program) -> dict[str, str]:
    """What a program computes in: tensor -> format with its scale."""
    return {tensor.name: str(tensor.format) for tensor in program.tensors.values() if tensor.role != Role.TABLE}


def _output(program: Program) -> dict[str, str]:
    """The tensor that `raw.outputs` holds, and its format."""
    return {"tensor": program.output, "format": str(program.tensors[program.output].format)}


def _plan(outcome: Outcome) -> dict[str, Any]:
    plan = outcome.compiled.plan
    return {
        "peak_bytes": plan.peak_bytes,
        "lower_bound_bytes": plan.lower_bound_bytes,
        "proven": plan.proven,
        "how": plan.how,
        "offsets": dict(plan.offsets),
        "regions": dict(plan.regions),
        "peaks": dict(plan.peaks),
        "products_again": products_again(outcome.compiled.program, outcome.compiled.lowered),
        "prefer": outcome.prefer,
    }


def _provenance(outcome: Outcome) -> dict[str, Any]:
    return {
        "command": outcome.command,
        **here(),
        "model_sha256": outcome.compiled.model.sha256,
        "graph": outcome.compiled.model.graph.name,
        **built(outcome.image),
        "input_sha256": hashlib.sha256(np.ascontiguousarray(outcome.integers, "<i8").tobytes()).hexdigest(),
        **where(outcome.place, outcome.port),
        "emulator_exit": dict(outcome.surroundings),
    }


def here() -> dict[str, Any]:
    """Of a record's provenance: when, by which tinyhil, on what computer."""
    return {
        "utc": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "tinyhil": metadata.version("tinyhil"),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain")) if in_checkout() else None,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def built(image: Image) -> dict[str, Any]:
    """Of a record's provenance: the image, and what compiled it."""
    compiler = image.compiler
    return {
        "compiler": {"name": compiler.name, "version": compiler.version, "origin": compiler.origin},
        "elf_sha256": hashlib.sha256(image.elf.read_bytes()).hexdigest(),
        "image_hash": image.hash.hex(),
        "image_rebuilt": image.rebuilt,
    }


def where(place: Place, port: str | None) -> dict[str, Any]:
    """Of a record's provenance: the board on the desk."""
    return {
        "port": port,
        "instance": place.name if place.instance else None,
        "serial_number": place.serial_number,
    }


def _git(*arguments: str) -> str | None:
    if not in_checkout():
        return None
    command = ["git", "-C", str(asset("firmware").parent), *arguments]
    try:
        done = run(command, 10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
