"""The record of an engine that is not ours.

Its keys are those of `hil run`'s where they mean the same; what the firmware does not tell is null. It names its
engine, and nothing that wants a record of ours takes it (harness/records/schema.py).
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinyhil.errors import DataError
from tinyhil.harness.boards.locate import Place
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.stack_depth import stack_bound
from tinyhil.harness.engines.port import Port
from tinyhil.harness.job.inputs import Inputs
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.record import SCHEMA_VERSION, built, emulator_of, here, where
from tinyhil.harness.records.bench_stats import ticks_text
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.references.classes import classes_of
from tinyhil.references.evaluate import evaluate, shape_inputs


@dataclass(frozen=True, slots=True)
class EngineName:
    """Who computes. `sources`: what it was built from, name -> hash or commit."""

    name: str
    version: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What a session with another's firmware gave. `reals`: outputs (samples, elements), None where their type is not
    known; `outputs`: the bytes that came. `image` None: nothing is known of what is loaded but `identity`, a hash."""

    engine: EngineName
    input: Port | None
    output: Port | None
    sent: list[bytes]
    outputs: list[bytes]
    reals: np.ndarray | None
    latency: dict[str, Any]
    ticks: list[int]
    instructions: list[int]
    image: Image | None
    identity: str
    stack_bytes: int | None = None
    heap_bytes: int | None = None
    arena_bytes: int | None = None
    surroundings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """What was to be measured: `model`: its name; `graph`: None where only the firmware has it."""

    request: Request
    place: Place
    port: str | None
    model: str
    inputs: Inputs
    graph: Any = None
    model_sha256: str | None = None

    @property
    def board(self) -> BoardSpec:
        """The kind of board."""
        return self.place.board

    @property
    def emulated(self) -> bool:
        """No port was found or given, and it is not this computer."""
        return self.port is None and not self.board.is_host


def make_record(asked: Asked, found: Measurement, command: str, wall_seconds: Mapping[str, float]) -> dict[str, Any]:
    """In JSON types; what is not known is null."""
    image = found.image
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": {"name": found.engine.name, "version": found.engine.version, "sources": dict(found.engine.sources)},
        "board": asked.board.name,
        "emulator": emulator_of(asked.board, asked.request) if asked.emulated else None,
        "model": asked.model,
        "data": {"name": asked.inputs.name, "source": asked.inputs.source, "sha256": asked.inputs.sha256},
        "input": None if found.input is None else str(found.input),
        "output": None if found.output is None else str(found.output),
        "samples": len(found.outputs),
        **_agreement(asked, found),
        "latency": found.latency,
        "memory": _memory(asked.board, found),
        "flash_bytes": None if image is None else image.flash_bytes,
        "flash_limit_bytes": asked.board.chip.flash_bytes,
        "wall_seconds": dict(wall_seconds),
        "raw": {
            "ticks": found.ticks,
            "instructions": found.instructions,
            "inputs_crc32": [f"{binascii.crc32(sample):08x}" for sample in found.sent],
            "outputs": [output.hex() for output in found.outputs],
        },
        "provenance": {
            "command": command,
            **here(),
            "model_sha256": asked.model_sha256,
            **({} if image is None else built(image)),
            "image_hash": found.identity,
            **where(asked.place, asked.port),
            "emulator_exit": dict(found.surroundings),
        },
    }


def _agreement(asked: Asked, found: Measurement) -> dict[str, Any]:
    """With the float model where there is one, with labels where there are any. DataError for another model's."""
    said: dict[str, Any] = dict.fromkeys(
        ("accuracy", "float_accuracy", "disagreements", "largest_output_error", "root_mean_square_error")
    )
    reals, labels = found.reals, asked.inputs.y
    if reals is None:
        return said
    if asked.graph is None:
        if labels is not None and reals.shape[1] > 1:
            said["accuracy"] = float((reals.argmax(1) == labels).mean())
        return said
    wanted = evaluate(asked.graph, shape_inputs(asked.graph, asked.inputs.x)).reshape(len(reals), -1)
    if wanted.shape != reals.shape:
        other = f"{found.engine.name} gives {reals.shape[1]} numbers a sample, {asked.model} {wanted.shape[1]}"
        raise DataError(f"{other}; name the model that it computes")
    classes, float_classes = classes_of(asked.graph, reals), classes_of(asked.graph, wanted)
    if labels is not None:
        said["accuracy"] = float((classes == labels).mean())
        said["float_accuracy"] = float((float_classes == labels).mean())
    said["disagreements"] = int((classes != float_classes).sum())
    difference = reals.astype(np.float64) - wanted
    said["largest_output_error"] = float(np.abs(difference).max())
    said["root_mean_square_error"] = float(np.sqrt((difference**2).mean()))
    return said


def _memory(board: BoardSpec, found: Measurement) -> dict[str, Any]:
    image, stack, heap = found.image, found.stack_bytes, found.heap_bytes
    static = None if image is None else image.static_bytes
    bound = None if image is None else stack_bound(image, board.chip.core)
    known = static is not None and stack is not None
    return {
        "arena_bytes": found.arena_bytes,
        "static_bytes": static,
        "stack_bytes": stack,
        "stack_limit_bytes": None if bound is None else bound.limit_bytes,
        "stack_limit_unknown": "" if bound is None else bound.unknown,
        "heap_bytes": heap,
        "total_bytes": (static or 0) + (stack or 0) + (heap or 0) if known else None,
        "limit_bytes": board.chip.ram_bytes,
        "copied_bytes": 0 if image is None else image.copied_bytes,
    }


def rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and text of each line that people read."""
    engine, memory, latency = record["engine"], record["memory"], record["latency"]
    return [
        ("engine", " ".join(filter(None, (engine["name"], engine["version"])))),
        ("data", f"{record['data']['name']} ({record['data']['source']}), {record['samples']} samples"),
        ("ends", f"input {record['input'] or 'not told'}, output {record['output'] or 'not told'}"),
        ("float", _float(record)),
        ("latency", _latency(latency)),
        ("RAM", _ram(memory)),
        ("flash", "not told" if record["flash_bytes"] is None else f"{record['flash_bytes']} B"),
    ]


def _float(record: Mapping[str, Any]) -> str:
    if record["disagreements"] is None:
        return "not compared: no --model, or outputs of a type that is not told"
    text = f"{record['disagreements']} of {record['samples']} decided otherwise than by float32"
    text += f", largest difference {record['largest_output_error']:.3g}"
    if record["accuracy"] is not None:
        text += f"; accuracy {100 * record['accuracy']:.2f} %"
    if record["float_accuracy"] is not None:
        text += f", float {100 * record['float_accuracy']:.2f} %"
    return text


def _latency(latency: Mapping[str, Any]) -> str:
    us = latency["median_us"]
    text = f"median {ticks_text(latency['median'])} {latency['unit']}"
    if us is not None:
        from tinyhil.harness.records.band import band, time_text

        text += f" ({time_text(us)}{band(latency)})"
    if latency.get("instructions"):
        text += f"; {latency['instructions']:,.0f} instructions"
    return text


def _ram(memory: Mapping[str, Any]) -> str:
    if memory["static_bytes"] is None:
        return "not told"
    arena = "" if memory["arena_bytes"] is None else f" (arena {memory['arena_bytes']} B)"
    stack = "stack not measured" if memory["stack_bytes"] is None else f"{memory['stack_bytes']} B stack"
    return f"{memory['static_bytes']} B static{arena}, {stack}, of {memory['limit_bytes'] or 'unlimited'} B"
