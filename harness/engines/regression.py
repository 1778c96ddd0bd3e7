"""A golden record of somebody else's firmware: what it must give again.

In a folder of its own, so that no command takes it for one of ours.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyhil import files
from tinyhil.errors import DataError
from tinyhil.harness.engines.firmware_run import Bench, measured
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.run import Clock

CONTENT = (
    "engine",
    "board",
    "emulator",
    "model",
    "input",
    "output",
    "samples",
    "latency",
    "memory",
    "flash_bytes",
    "raw",
)
FIGURES = ("flash_bytes", "memory.static_bytes", "memory.arena_bytes", "memory.heap_bytes", "memory.stack_limit_bytes")
FOLDER = "firmware"


def measure(path: Path, request: Request, bench: Bench) -> dict[str, Any]:
    """The record of the firmware at `path`; leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="hil-firmware-") as folder:
        record, answers = measured(path, replace(request, results=Path(folder)), bench, Clock())
        if answers is not None:
            answers.partial.discard()
    return record


def path_of(record: Mapping[str, Any], image: Path, folder: Path) -> Path:
    """<folder>/firmware/<board>/<image>.json."""
    return folder / FOLDER / record["board"] / f"{image.stem}.json"


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Its folder too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"kind": "golden", **{key: record[key] for key in CONTENT}}
    files.write_text(path, json.dumps(content, indent=1) + "\n")


def differences(path: Path, record: Mapping[str, Any]) -> list[str]:
    """What is otherwise than in the file, a line each; times of emulated boards alone. DataError if it is none."""
    golden = files.read_json(path, "golden record")
    if not isinstance(golden, dict) or golden.get("kind") != "golden" or not {*CONTENT} <= golden.keys():
        raise DataError(f"{path}: not a golden record of a firmware; make it anew")
    found = []
    for what in ("inputs_crc32", "outputs", *(["ticks"] if record["emulator"] and golden["emulator"] else [])):
        old, new = golden["raw"][what], record["raw"][what]
        other = [index for index, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]]
        if other:
            index = other[0]
            found.append(f"{what}: {len(other)} samples differ, the first {index}: {old[index]} -> {new[index]}")
    if golden["samples"] != record["samples"]:
        found.append(f"samples: {golden['samples']} -> {record['samples']}")
    for name in FIGURES:
        old, new = _figure(golden, name), _figure(record, name)
        if old != new:
            found.append(f"{name}: {old} -> {new}")
    return found


def _figure(record: Mapping[str, Any], name: str) -> Any:
    part, _, key = name.rpartition(".")
    return (record[part] if part else record)[key]
