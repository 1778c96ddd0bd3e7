"""The record of a run: its top-level keys are a public interface."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards_under_test import ARM, EVERY, each
from hil_command import hil, record_of
from wire_bench import ROOT, write_tiny_model

NUMBER = (int, float)
TOP_LEVEL: dict[str, tuple[type, ...]] = {
    "schema_version": (int,),
    "board": (str,),
    "emulator": (dict, type(None)),
    "model": (str,),
    "data": (dict,),
    "format": (str,),
    "samples": (int,),
    "bit_exact": (bool,),
    "equal_samples": (int,),
    "accuracy": (float, type(None)),
    "float_accuracy": (float, type(None)),
    "disagreements": (int,),
    "float_check": (dict,),
    "degraded": (list,),
    "saturations": (int,),
    "latency": (dict,),
    "memory": (dict,),
    "flash_bytes": (int,),
    "wall_seconds": (dict,),
    "provenance": (dict,),
}
LATENCY = {"unit": str, "min": NUMBER, "median": NUMBER, "p95": NUMBER, "max": NUMBER}
MEMORY = (
    *(
        "arena_bytes",
        "input_bytes",
        "static_bytes",
        "stack_bytes",
        "stack_limit_bytes",
        "stack_limit_unknown",
        "heap_bytes",
        "total_bytes",
        "copied_bytes",
    ),
    "limit_bytes",
)
STAGES = ("model", "data", "compile", "reference", "build", "stream")
PROVENANCE = (
    *("utc", "tinyhil", "commit", "dirty", "python", "machine", "compiler", "model_sha256", "elf_sha256"),
    *("image_hash", "image_rebuilt", "input_sha256", "port", "emulator_exit"),
)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("record")
    write_tiny_model(folder / "tiny.onnx")
    random = np.random.default_rng(5)
    x = random.uniform(-1, 1, (12, 1, 32)).astype(np.float32)
    np.savez(folder / "x.npz", x=x)
    np.savez(folder / "labels.npz", x=x, y=np.arange(12) % 4)
    return folder


def run(files: Path, board: str, inputs: str, *more: str, folder: Path) -> Any:
    arguments = ["run", "--board", board, "--model", files / "tiny.onnx", "--inputs", files / inputs, *more]
    return hil(*arguments, cwd=folder)


@pytest.fixture(scope="session", params=each(EVERY))
def record(request: pytest.FixtureRequest, files: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("run")
    return record_of(run(files, request.param, "labels.npz", "--json", folder=folder))


def test_top_level_keys_and_types(record: dict[str, Any]) -> None:
    for key, kinds in TOP_LEVEL.items():
        assert type(record[key]) in kinds, key
    documented = (ROOT / "docs" / "results.md").read_text()
    for key in record:
        assert f"`{key}`" in documented, key
    assert record["schema_version"] == 1


def test_latency(record: dict[str, Any]) -> None:
    latency = record["latency"]
    for key, kind in LATENCY.items():
        assert isinstance(latency[key], kind), key
    assert latency["min"] <= latency["median"] <= latency["p95"] <= latency["max"]
    assert latency["unit"] == ("nanoseconds" if record["board"] == "host" else "cycles")
    assert latency["median_us"] == pytest.approx(latency["median"] / latency["clock_hz"] * 1e6)
    assert ("instructions" in latency) == ("low" in latency) == (record["board"] in ARM)
    if "instructions" in latency:
        assert latency["instructions"] > 0
        assert latency["model_min"] <= latency["median"] <= latency["model_max"]
        low, high = latency["low"], latency["high"]
        are_bounds = (low, high) == (latency["model_min"], latency["model_max"])  # which may be met
        assert are_bounds or low < latency["median"] < high
        assert len(record["raw"]["instructions"]) == record["samples"]
    assert len(record["raw"]["ticks"]) == record["samples"]


def test_memory(record: dict[str, Any]) -> None:
    memory = record["memory"]
    assert set(memory) == set(MEMORY)
    numbers = {name: value for name, value in memory.items() if name != "stack_limit_unknown"}
    assert all(type(value) in (int, type(None)) for value in numbers.values())
    assert memory["stack_limit_unknown"] == ""
    assert memory["arena_bytes"] + memory["input_bytes"] < memory["static_bytes"]
    if record["board"] == "host":
        assert (
            memory["stack_bytes"]
            is memory["stack_limit_bytes"]
            is memory["total_bytes"]
            is memory["limit_bytes"]
            is None
        )
    else:
        parts = memory["static_bytes"] + memory["stack_bytes"] + memory["heap_bytes"]
        assert memory["total_bytes"] == parts < memory["limit_bytes"]
        assert memory["stack_bytes"] > 0 == memory["heap_bytes"]
        assert memory["stack_bytes"] <= memory["stack_limit_bytes"] < memory["stack_bytes"] + 250


def test_shares_counts_and_provenance(record: dict[str, Any]) -> None:
    assert record["samples"] == record["equal_samples"] == 12
    assert record["bit_exact"] is True
    for key in ("accuracy", "float_accuracy"):
        assert 0 <= record[key] <= 1
    assert 0 <= record["disagreements"] <= 12
    assert abs(record["accuracy"] - record["float_accuracy"]) * 12 <= record["disagreements"]
    assert record["data"]["source"] == "file"
    assert len(record["data"]["sha256"]) == 64
    assert (record["emulator"] is None) == (record["board"] == "host")
    assert set(STAGES) <= set(record["wall_seconds"])
    assert all(seconds >= 0 for seconds in record["wall_seconds"].values())
    assert set(PROVENANCE) <= set(record["provenance"])
    assert len(record["provenance"]["image_hash"]) == 16
    assert record["provenance"]["image_hash"] in json.dumps(record)
    json.dumps(record, allow_nan=False)


def test_json_is_alone_on_stdout_and_equal_to_the_file(files: Path, tmp_path: Path) -> None:
    done = run(files, "host", "x.npz", "--json", folder=tmp_path)
    assert done.stdout.count("\n") == 1
    printed = record_of(done)
    (path,) = (tmp_path / "results" / "host" / "tiny").glob("*.json")
    assert json.loads(path.read_text()) == printed
    assert path.name.endswith(f"-{printed['provenance']['image_hash'][:8]}.json")
    assert "calibrating on the first 6 of 12" in done.stderr
    assert printed["accuracy"] is printed["float_accuracy"] is None
    assert list((tmp_path / "results").rglob("*.tmp")) == []


def test_table_for_people(files: Path, tmp_path: Path) -> None:
    done = run(files, "uno", "labels.npz", folder=tmp_path)
    assert done.returncode == 0
    for words in ("bit-exact", "12 of 12", "accuracy", "cycles", "RAM", "flash", "results/uno/tiny/"):
        assert words in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_records_of_the_same_second_do_not_overwrite_each_other(tmp_path: Path) -> None:
    from tinyhil.harness.measure.record import write_record

    record = {"board": "b", "model": "m", "provenance": {"utc": "2026-01-01T00:00:00Z", "image_hash": "0" * 16}}
    paths = [write_record(record, tmp_path) for _ in range(3)]
    assert len(set(paths)) == 3
    assert all(json.loads(path.read_text()) == record for path in paths)
    assert paths[0].name == "20260101T000000Z-00000000.json"


@pytest.mark.parametrize("damage", ["output", "saturations"])
def test_one_differing_sample_is_not_bit_exact(damage: str, files: Path, tmp_path: Path) -> None:
    """The verdict itself: a value that differs in one place fails the gate."""
    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.job.job import Request
    from tinyhil.harness.measure.record import make_record
    from tinyhil.harness.measure.run import run as run_request
    from tinyhil.harness.settings.config import load_boards

    request = Request("host", str(files / "tiny.onnx"), inputs=files / "x.npz", results=tmp_path)
    outcome = run_request(request, load_boards(), default_cache_dir(), lambda line: None, lambda done, total: None)
    assert make_record(outcome)["bit_exact"] is True
    if damage == "output":
        outcome.outputs[3, 1] += 1
    else:
        outcome.saturations[3] += 1
    record = make_record(outcome)
    assert (record["bit_exact"], record["equal_samples"]) == (False, 11)
    assert math.isfinite(record["largest_output_error"])
