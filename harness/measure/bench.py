"""`hil bench`: the time of a model on a board, over several resets, with a quiet wire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tinyhil.errors import DataError
from tinyhil.harness.boards.locate import locate
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.record import make_record, write_record
from tinyhil.harness.measure.run import Outcome, Progress, run
from tinyhil.harness.records.bench_stats import Summary, Times, bootstrap
from tinyhil.harness.records.compare import Difference, compare
from tinyhil.harness.records.figures import figures
from tinyhil.harness.records.schema import read_record
from tinyhil.harness.records.verdict import invalid_because
from tinyhil.harness.settings.config import Boards
from tinyhil.notice import Say

RESETS, INFERENCES, WARM_UP = 3, 30, 1


@dataclass(frozen=True, slots=True)
class Plan:
    """`resets` boots of `inferences` each; of each boot the first `warm_up` more are left out."""

    resets: int = RESETS
    inferences: int = INFERENCES
    warm_up: int = WARM_UP


def bench(
    request: Request, plan: Plan, boards: Boards, cache_dir: Path, say: Say, progress: Progress
) -> dict[str, Any]:
    """A record like that of a run, its latency over all boots, and `boots` with the summary of each.

    Every boot opens the port anew, which resets an Uno, a Due and the emulators; a board that keeps running is said.
    """
    request = replace(request, mode="quiet", samples=plan.inferences + plan.warm_up)
    place = locate(boards, request.board, request.port)
    if place.board.reset == "by_probe" and place.port is not None:
        say(f"{request.board}: opening its port does not reset it; the boots of this bench are sessions only")
    boots: list[Summary] = []
    record: dict[str, Any] = {}
    ticks: list[int] = []
    for boot in range(plan.resets):
        outcome = run(request, boards, cache_dir, say, progress)
        outcome.partial.discard()
        found = make_record(outcome)
        if invalid_because(found):
            return found
        boots.append(Summary.of(_ticks(outcome, plan), plan.warm_up))
        ticks += found["raw"]["ticks"][plan.warm_up :]
        record = record or found
        say(f"{request.board}: boot {boot + 1} of {plan.resets}, median {boots[-1].median:,.0f}")
    return _with_boots(record, boots, ticks, plan)


def _ticks(outcome: Outcome, plan: Plan) -> list[int]:
    ticks = [int(tick) for tick in outcome.ticks]
    if len(ticks) <= plan.warm_up:
        raise DataError(f"{len(ticks)} samples, {plan.warm_up} of them to warm up: give more inputs")
    return ticks


def _with_boots(record: dict[str, Any], boots: list[Summary], ticks: list[int], plan: Plan) -> dict[str, Any]:
    overall = Summary.of(ticks, 0)
    medians = [boot.median for boot in boots]
    median = Times(tuple(medians)).median
    latency = record["latency"]
    low, high = bootstrap(medians)
    latency |= {
        "first": max(boot.first for boot in boots),
        "min": overall.min,
        "median": median,
        "p95": overall.p95,
        "max": overall.max,
        "median_us": None if latency["median_us"] is None else median / latency["clock_hz"] * 1e6,
        "interval": [low, high],
    }
    words = record["provenance"]["command"].replace("hil run", "hil bench", 1)
    words = re.sub(r" --(mode|samples) \S+", "", words)
    given = {f"--{name.replace('_', '-')}": (value, getattr(Plan(), name)) for name, value in asdict(plan).items()}
    words += "".join(f" {option} {value}" for option, (value, usual) in given.items() if value != usual)
    record["provenance"]["command"] = words
    return {**record, "kind": "bench", "plan_of_bench": asdict(plan), "boots": [asdict(boot) for boot in boots]}


def history(folder: Path, record: Mapping[str, Any]) -> list[float]:
    """Medians of earlier benches of the same board, model, format and port, oldest first."""
    medians = []
    for path in sorted((folder / record["board"] / record["model"]).glob("*.json")):
        try:
            old = read_record(path)
        except DataError:
            continue
        same = all(old.get(key) == record[key] for key in ("kind", "format"))
        if same and old["provenance"].get("port") == record["provenance"]["port"]:
            medians.append(float(old["latency"]["median"]))
    return medians


def store(record: Mapping[str, Any], results: Path) -> Path:
    """Beside the records of runs, in a folder of its own."""
    return write_record(record, results / "bench")


def gate(
    before: Mapping[str, Any], request: Request, plan: Plan, boards: Boards, cache_dir: Path, say: Say
) -> tuple[dict[str, Any], list[Difference]]:
    """Bench, compare with the record `before`; a time that fails is measured once more before it counts. Samples that
    are others fail, too: nothing would be held."""

    def attempt() -> tuple[dict[str, Any], list[Difference]]:
        record = bench(request, plan, boards, cache_dir, say, lambda done, total: None)
        old = history(request.results / "bench", record) if "boots" in record else []
        found = compare(figures(before), figures(record), old)
        return record, [replace(one, fails=True) if one.what == "inputs" else one for one in found]

    record, differences = attempt()
    unit = record["latency"]["unit"]
    if [d.what for d in differences if d.fails] == [unit] and record["emulator"] is None:
        say(f"{request.board}: slower than before; measuring once more to be sure")
        record, differences = attempt()
    return record, differences
