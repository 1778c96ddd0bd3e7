"""Widths alone under a limit of RAM, and widths with rows and windows that compute products again.

ResNet-8 and MobileNetV1 in less arena than fixed8 takes, and in a little more. *Widths first*: `--more-time 0`, each
product once; *joint*: as `hil search` does it. Few samples: what is shown is what fits.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.given import given_data
from benchmarks.search.large import TITLES, Labelled, fixed8_bytes, folds, saved
from tinyhil.errors import Infeasible
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.search.session import run_search
from tinyhil.memplan.arena.schedules import cheapest_within

JOINT = ("ic_resnet8", "vww_mobilenetv1_025_96")
SHARES = (0.9, 1.25)  # of the arena that fixed8 takes
WAYS = (("widths first", 0.0), ("joint", 50.0))  # percent of --more-time
CALIBRATED, SEARCHED, REPORTED = 256, 64, 128  # samples


def joint(evaluations: int, models: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """One row per network, limit and way; without an answer where the command refuses."""
    data = given_data()
    for model in models:
        path = data / "models" / f"mlperftiny_{model}.onnx"
        seen, unseen = folds(model, data)[0]
        with tempfile.TemporaryDirectory() as name:
            files = saved(Path(name) / "x", _first(seen, CALIBRATED), _first(unseen, REPORTED))
            least = fixed8_bytes(path, files[0])
            for limit in (int(share * least) for share in SHARES):
                for way, more_time in WAYS:
                    row = {"model": model, "limit": limit, "way": way}
                    row |= _answer(path, files, limit, more_time, evaluations)
                    print(json.dumps(row), flush=True)
                    yield row


def _first(samples: Labelled, count: int) -> Labelled:
    x, y = samples
    return x[:count], y[:count]


def _answer(path: Path, files: tuple[Path, Path], limit: int, more_time: float, evaluations: int) -> dict[str, Any]:
    seen, unseen = files
    request = SearchRequest(
        str(path), arena=limit, more_time=more_time, evaluations=evaluations, samples=SEARCHED, inputs=seen,
        held_out=unseen, calibrate=seen, results=seen.parent / f"results-{limit}-{more_time:g}",
    )  # fmt: skip
    try:
        outcome = run_search(request, default_cache_dir(), lambda line: None, lambda *_: None)
    except Infeasible as error:
        return {"least": None if error.least is None else error.least[1]}
    record, best = outcome.record, outcome.found.best
    scheduled = cheapest_within(outcome.space.lower(best.candidate), best.ram_bytes)
    chosen = {choice.format for choice in best.candidate}
    return {
        "ram": record["arena_bytes"],
        "formats": sorted(chosen),
        "points_lost": round(100 * (record["float_accuracy"] - record["accuracy"]), 2),
        "disagreements": record["disagreements"],
        "samples": record["samples"],
        "more_products": round(scheduled.more_products, 3),
        "processor_s": round(sum(phase["processor_seconds"] for phase in record["phases"]), 1),
    }


def joint_page(rows: list[dict[str, Any]]) -> str:
    lines = ["| Network | Arena at most B | Way | Arena B | Formats | Differ | Products again | s |", "|---" * 8 + "|"]
    for row in rows:
        head = f"| {TITLES[row['model']]} | {row['limit']:,} | {row['way']} |"
        if "ram" not in row:
            lines.append(f"{head} not feasible, the least is {row['least']:,.0f} | | | | |")
            continue
        again = f"{100 * row['more_products']:.1f} %" if row["more_products"] else ""
        lines.append(
            f"{head} {row['ram']:,} | {', '.join(row['formats'])} | {row['disagreements']} of {row['samples']} "
            f"| {again} | {row['processor_s']:.0f} |"
        )
    return "\n".join(lines)
