"""How well `search/costs.py` foretells latency and flash: random mixed assignments, estimated, then measured.

    python -m benchmarks.op_costs [--board uno] [--assignments 8] [--page docs/measured/search_method.md]

Each model is profiled as `hil search --latency-us` does it (uniform formats, then mixtures that cover pairs of them);
random assignments are estimated from that alone and then built and run. Results go to results/search/op_costs.json; the
page's table is made from them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.errors import ModelError
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.resource_limits import Meter, make_meters
from tinyhil.harness.search.task import load_task
from tinyhil.harness.settings.config import load_boards
from tinyhil.search.costs import Limits, Run
from tinyhil.search.space import Candidate, Choice
from tools.measured import provenance

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "search" / "op_costs.json"
MODELS = {
    "uno": ("protonn_usps2", "protonn_usps10", "bonsai_usps2", "fastgrnn_usps10", "fastgrnn_har", "digits_mlp"),
    "due": ("protonn_usps2", "bonsai_usps2", "fastgrnn_har", "digits_cnn", "lenet5_mnist"),
}
FORMATS = ("fixed8,fixed16", "fixed8,posit8es2,fixed16")
MORE_FORMATS = ("protonn_usps2", "fastgrnn_usps10")  # models for which the second offer is tried, too
SAMPLES = 40
BEGIN, END = "<!-- op_costs: begin -->", "<!-- op_costs: end -->"


def measured(board: str, model: str, formats: str, assignments: int) -> dict[str, Any]:
    """Errors in percent, of latency (worst sample) and flash, one per assignment."""
    with tempfile.TemporaryDirectory() as folder:
        request = SearchRequest(
            model, 1 << 30, formats=formats, samples=SAMPLES, board=board, latency_us=1e12, evaluator="reference",
            results=Path(folder),
        )  # fmt: skip
        begin = time.perf_counter()
        task = load_task(request, default_cache_dir(), lambda line: None, lambda *_: None, load_boards())
        (meter,) = make_meters(task)
        seconds = time.perf_counter() - begin
        costs = meter.costs(Limits(1e12))
        drawn = _drawn(meter, assignments, {run.candidate for run in costs.runs})
        meter.next_phase()
        for candidate in drawn:
            meter.measure(candidate)
        runs = {run.candidate: run for run in meter.table.runs(meter.phase)}
        pairs = [(costs.estimate(c), runs[c]) for c in drawn if runs[c].worst != float("inf")]
        return {
            "board": board,
            "model": model,
            "formats": formats,
            "profiled": len([run for run in costs.runs if run.worst != float("inf")]),
            "seconds": round(seconds, 1),
            "assignments": len(pairs),
            "left_out": len(drawn) - len(pairs),
            "exact": [round(found.exact, 3) for found, _ in pairs if found],
            "latency": [_error(found.latency_us, _us(run, meter)) for found, run in pairs if found],
            "flash": [_error(found.flash_bytes, run.flash_bytes) for found, run in pairs if found],
        }


def _us(run: Run, meter: Meter) -> float:
    return run.worst / meter.clock_hz * 1e6


def _error(estimate: float, measured_: float) -> float:
    return round(100 * (estimate / measured_ - 1), 3)


def _drawn(meter: Meter, count: int, known: set[Candidate]) -> list[Candidate]:
    """Random assignments that can be lowered and that no pilot had."""
    space, random = meter.task.problem.space, np.random.default_rng(1)
    found: list[Candidate] = []
    while len(found) < count:
        numbers = random.integers(0, len(space.formats), len(space.groups))
        candidate = tuple(Choice(space.formats[number]) for number in numbers)
        try:
            space.lower(candidate)
        except ModelError:
            continue
        if candidate not in known and candidate not in found:
            found.append(candidate)
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Median and worst absolute error in percent."""
    titles = ("Board", "Model", "Formats", "Profiled (s)", "Estimated", "Known code", "Latency: median, worst")
    lines = [f"| {' | '.join(titles)} | Flash: median, worst |", "|---" * 8 + "|"]
    for row in rows:
        latency, flash = np.abs(row["latency"]), np.abs(row["flash"])
        lines.append(
            f"| {row['board']} | `{row['model']}` | {row['formats'].replace(',', ', ')} | "
            f"{row['profiled']} ({row['seconds']:.0f}) | {row['assignments']} | {100 * np.mean(row['exact']):.0f} % | "
            f"{np.median(latency):.1f} %, {latency.max():.1f} % | {np.median(flash):.1f} %, {flash.max():.1f} % |"
        )
    return "\n".join(lines)


def write_page(path: Path, rows: list[dict[str, Any]]) -> None:
    text = path.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--board", choices=sorted(MODELS), action="append")
    parser.add_argument("--assignments", type=int, default=8)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    previous = json.loads(RESULTS.read_text())
    rows, measured_at = previous["rows"], {} if options.page else provenance()
    for board in options.board or sorted(MODELS, reverse=True) if not options.page else []:
        for model in MODELS[board]:
            for formats in FORMATS if model in MORE_FORMATS else FORMATS[:1]:
                row = {**measured(board, model, formats, options.assignments), "provenance": measured_at}
                rows = [r for r in rows if (r["board"], r["model"], r["formats"]) != (board, model, formats)] + [row]
                print(table([row]).splitlines()[-1], f"left out: {row['left_out']}", flush=True)
                RESULTS.write_text(json.dumps({**previous, "rows": rows}, indent=1) + "\n")
    if options.page:
        write_page(options.page, rows)


if __name__ == "__main__":
    main()
