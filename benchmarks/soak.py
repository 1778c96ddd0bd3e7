"""Consecutive runs of fastgrnn_har on each emulated board: does any flake? `python -m benchmarks.soak --runs 100`

Every run goes the whole way of `hil run`: it finds the build, starts the board, greets it, streams, compares. It must
be bit-exact, without a retry, damaged frame or overrun, and give the very ticks and instructions of the first one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tinyhil.errors import HilError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.record import make_record
from tinyhil.harness.measure.run import run
from tinyhil.harness.settings.config import load_boards
from tools.measured import BOARDS


@dataclass(frozen=True, slots=True)
class Flake:
    """What was wrong in run number `run`, counted from 0."""

    board: str
    run: int
    what: str


@dataclass(frozen=True, slots=True)
class Soak:
    """One board's runs."""

    board: str
    runs: int
    flakes: tuple[Flake, ...]
    seconds: float
    slowest_run_s: float


def write_inputs(path: Path, samples: int) -> None:
    """Seeded walks of the shape fastgrnn_har takes."""
    steps = np.random.default_rng(3).normal(0, 0.3, (samples, 128, 9))
    np.savez(path, x=(np.cumsum(steps, axis=1) / 5).astype(np.float32))


def soak(board: str, runs: int, samples: int, load: str) -> Soak:
    """`runs` runs of `samples` each, one after the other."""
    flakes: list[Flake] = []
    first: dict[str, list[int]] | None = None
    begin, slowest = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        inputs = Path(folder) / "walks.npz"
        write_inputs(inputs, samples)
        request = Request(board, "fastgrnn_har", inputs=inputs, results=Path(folder) / "results", load=load)
        for number in range(runs):
            started = time.monotonic()
            try:
                outcome = run(request, load_boards(), default_cache_dir(), lambda line: None, lambda done, total: None)
                outcome.partial.discard()
                record = make_record(outcome)
            except HilError as error:
                flakes.append(Flake(board, number, f"exit code {error.exit_code}: {error}"))
                continue
            finally:
                slowest = max(slowest, time.monotonic() - started)
            first = first or record["raw"]
            flakes += [Flake(board, number, what) for what in faults(record, first)]
    return Soak(board, runs, tuple(flakes), time.monotonic() - begin, slowest)


def faults(record: dict[str, object], first: object) -> Iterator[str]:
    """What a flawless run does not have."""
    link = record["link"]
    assert isinstance(link, dict)
    if not record["bit_exact"]:
        yield f"{record['equal_samples']} of {record['samples']} equal"
    if record["flaky"]:
        yield f"{link['attempts']} attempts"
    yield from (f"{key}: {link[key]}" for key in ("damaged_frames", "rx_overruns") if link[key])
    if record["raw"] != first:
        yield "other ticks, instructions or outputs than the first run"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", action="append", choices=BOARDS, help="default: all")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--load", choices=["direct", "flash"], default="direct")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = [soak(board, options.runs, options.samples, options.load) for board in options.board or BOARDS]
    for result in found:
        print(
            f"{result.board:5} {result.runs} runs, {len(result.flakes)} flakes, {result.seconds:.0f} s, "
            f"slowest {result.slowest_run_s:.1f} s"
        )
        for flake in result.flakes:
            print(f"      run {flake.run}: {flake.what}")
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in found], indent=1) + "\n")
    sys.exit(any(result.flakes for result in found))


if __name__ == "__main__":
    main()
