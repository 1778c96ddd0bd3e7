"""Measures the table of formats anew: `make tables`, from a clean tree (results/formats.json, then tools/docs.py).

One model in every format, on this computer with all its test windows, on each emulated board with a few: an Uno takes
seconds for one window of software floats.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tinyhil.errors import ConfigError, HilError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.record import make_record
from tinyhil.harness.measure.run import run
from tinyhil.harness.offline.formats import MODEL
from tinyhil.harness.settings.config import Boards, load_boards
from tools.measured import BOARDS, RESULTS, provenance, read, write

NAME = "formats"
HOST = "host"
FORMATS = (
    *("fixed4", "fixed8", "fixed16", "fixed8pc", "posit8es0", "posit8es2", "posit16es1", "fp8e4m3", "fp4e2m1"),
    *("float32", "bfloat16", "float16", "nf4", "int8", "int16x8"),
)
SLOW_ON_UNO = ("posit16es1", "float32", "bfloat16", "float16", "int16x8")
SAMPLES, SLOW_SAMPLES = 10, 2
REAL = ("full", "subset")  # parts of the official data, large enough for an accuracy


def measured(known: Mapping[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per format and board; `known` ones as they are."""
    boards, rows = load_boards(), []
    for request in requests():
        if (request.format, request.board) in known:
            rows.append(known[request.format, request.board])
            continue
        record = record_of(request, boards)
        if record["data"]["source"] not in REAL:
            raise ConfigError(f"tables: {record['data']['source']} data; set HIL_DATA or connect to the network")
        rows.append(row_of(record))
        print(f"tables: {request.format} on {request.board}", file=sys.stderr)
    return rows


def requests() -> Iterator[Request]:
    """The runs of the table, in its order."""
    for name in FORMATS:
        yield Request(HOST, MODEL, name)
        for board in BOARDS:
            samples = SLOW_SAMPLES if board == "uno" and name in SLOW_ON_UNO else SAMPLES
            yield Request(board, MODEL, name, samples=samples, timeout_s=600.0)


def record_of(request: Request, boards: Boards | None = None) -> Mapping[str, Any]:
    """The record of one run, which is kept nowhere."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(
            replace(request, results=Path(folder)),
            boards or load_boards(),
            default_cache_dir(),
            lambda line: None,
            lambda done, all_: None,
        )
        return make_record(outcome)


def row_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the documentation shows of a record."""
    latency, memory = record["latency"], record["memory"]
    fields = ("format", "board", "samples", "bit_exact", "accuracy", "disagreements", "flash_bytes")
    return {
        **{key: record[key] for key in fields},
        "data": record["data"]["source"],
        "median_us": latency["median_us"],
        "ticks": latency.get("instructions", latency["median"]),
        "ram_bytes": memory["static_bytes"] + memory["stack_bytes"] if record["board"] != HOST else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--again", action="append", choices=FORMATS, help="measure this format only; others stay")
    again = parser.parse_args().again
    known, before = {}, ""
    if again:
        known = {(row["format"], row["board"]): row for row in read(NAME) if row["format"] not in again}
        before = json.loads((RESULTS / f"{NAME}.json").read_text())["provenance"]["commit"]
    try:
        measured_at = provenance()
        commits = dict.fromkeys([*before.split(), measured_at["commit"]])
        write(NAME, {**measured_at, "commit": " ".join(commits)}, measured(known))
    except HilError as error:
        print(f"tables: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
