"""Results as MLCommons' submission checker reads them: open division, marked as emulated where they are.

DIR/open/tinyhil/results/SYSTEM/BENCHMARK/MODE/{log.txt,results.txt,results.json} and .../systems/SYSTEM.json. Source:
tools/submission/submission_checker.py of github.com/mlcommons/tiny.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

from tinyhil import files
from tinyhil.harness.mlperf.benchmark_run import ACCURACY, ENERGY, PERFORMANCE
from tinyhil.harness.mlperf.benchmarks import AUC

SUBMITTER = "tinyhil"
RULE = "---------------------------------------------------------"
README = """\
Results of tinyhil by the protocol of MLPerf Tiny's runner, in the form of a submission to its open division.
{mark}
"""


def _root(folder: Path) -> Path:
    return folder / "open" / SUBMITTER


def system_of(board: str, emulated: bool) -> str:
    """The name of a board as a system."""
    return f"{board}-emulated" if emulated else board


@contextmanager
def logs(folder: Path, board: str, emulated: bool, benchmark: str, modes: Sequence[str]) -> Iterator[dict[str, TextIO]]:
    """A log of the wire for each mode, in its place."""
    with ExitStack() as stack:
        opened: dict[str, TextIO] = {}
        for mode in modes:
            place = _place(folder, board, emulated, benchmark) / mode
            place.mkdir(parents=True, exist_ok=True)
            opened[mode] = stack.enter_context(files.opened(place / "log.txt", "w"))
        yield opened


def _place(folder: Path, board: str, emulated: bool, benchmark: str) -> Path:
    return _root(folder) / "results" / system_of(board, emulated) / benchmark.rstrip("0123456789")


def write(folder: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """What belongs beside the logs of these records."""
    for record in records:
        place = _place(folder, record["board"], record["emulated"], record["benchmark"])
        for mode in (PERFORMANCE, ACCURACY, ENERGY):
            if mode in record:
                files.write_text(place / mode / "results.txt", _results(record, mode))
                files.write_text(place / mode / "results.json", json.dumps(record, indent=1) + "\n")
        system = _root(folder) / "systems" / f"{system_of(record['board'], record['emulated'])}.json"
        system.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(system, json.dumps(_system(record), indent=1) + "\n")
    if records:
        files.write_text(_root(folder) / "README.md", README.format(mark=records[0]["mark"] or ""))


def _results(record: Mapping[str, Any], mode: str) -> str:
    """Lines as the official runner writes them, after one that says what they are."""
    lines = [f"tinyhil: {record['mark'] or 'measured on the board'} ({record['fidelity']})"]
    found = record[mode]
    if mode == PERFORMANCE:
        for number, (seconds, rate) in enumerate(zip(found["seconds"], found["throughputs"], strict=True), 1):
            lines += [
                f"Performance results for window {number}",
                f"    # Inferences : {found['inferences']}",
                f"    Runtime: {seconds} sec.",
                f"    Throughput: {rate} inf./sec.",
            ]
            lines += ["    Runtime requirements have been met."] if found["by_the_rules"] else []
        median = f"Median throughput is {found['median_throughput']:>10.3f} inf./sec."
        lines += [f"ulp-mlperf: {line}" for line in (RULE, median, RULE)]
    elif mode == ACCURACY:
        value = "not to be had" if found["value"] is None else f"{found['value']:.3f}"
        top = (
            f"{100 * found['value']:.1f}" if found["value"] is not None and found["metric"] != AUC else "not to be had"
        )
        lines += [f"tinyhil: {found['of']} inputs of {found['data']}. {found['caveat']}".rstrip(". ") + "."]
        lines += [
            f"tinyhil: ulp-mlperf: AUC = {value}" if found["metric"] == AUC else f"tinyhil: ulp-mlperf: Top 1% = {top}"
        ]
    else:
        lines += [
            "tinyhil: no energy: no meter was attached",
            f"tinyhil: seconds between the edges: {found['seconds']}",
        ]
    return "\n".join(lines) + "\n"


def _system(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "Board Name": record["title"],
        "Submitter": SUBMITTER,
        "Status": "RDI",
        "Division": "open",
        "Processor(s) Name": f"{record['chip']} ({record['core']})",
        "Processor(s) Frequencies": f"{record['clock_hz'] / 1e6:g} MHz",
        "Processor memory type and capacity": f"{record['ram_bytes']} B SRAM, {record['chip_flash_bytes']} B flash",
        "Accelerator": "",
        "Hardware Notes": record["mark"] or "",
        "Inference Framework": "tinyhil",
        "Software Libraries": record["compiler"],
        "Software Notes": f"{record['format']}; image {record['image']}; {record['fidelity']}",
    }
