"""The arena of every model of the zoo at 8, at 16 and at mixed bits: python benchmarks/arena_mixes.py [--mixes 200]

Peaks with the passes switched on one after the other, against first-fit and the lower bound, and how long it took.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder

import memplan  # noqa: E402
from codegen.arena import problem_of  # noqa: E402
from codegen.order import order_body  # noqa: E402
from codegen.placement import Passes, place  # noqa: E402
from harness.zoo import find_model, zoo_names  # noqa: E402
from memplan.native import backend  # noqa: E402
from tinyhil.assignment import Assignment  # noqa: E402
from tinyhil.calibrate import load_ranges  # noqa: E402
from tinyhil.errors import HilError  # noqa: E402
from tinyhil.frontend.onnx import load_onnx  # noqa: E402
from tinyhil.lower import lower, tied_values  # noqa: E402
from tinyhil.program import Program  # noqa: E402

STEPS = (Passes(False, False, False), Passes(True, False, False), Passes(True, True, False), Passes())


@dataclass(frozen=True, slots=True)
class Row:
    """One model in one assignment; `peaks_bytes` with no pass, then with in-place, gaps, order as well."""

    first_fit_bytes: int
    peaks_bytes: tuple[int, ...]
    bound_bytes: int
    proven: bool
    plan_seconds: float  # the problem with all passes, once
    all_seconds: float  # every pass, every plan that was compared
    exact_order: bool


def measure(program: Program) -> Row:
    placements = [place(program, passes) for passes in STEPS[:-1]]
    began = time.perf_counter()
    final = place(program, STEPS[-1])
    all_seconds = time.perf_counter() - began
    began = time.perf_counter()
    best = memplan.plan(final.problem)
    plan_seconds = time.perf_counter() - began
    first_fit = memplan.plan(problem_of(program, in_place=False), "first-fit").peak_bytes
    peaks = tuple(placed.plan.peak_bytes for placed in (*placements, final))
    exact = order_body(program, program.body).exact
    return Row(first_fit, peaks, best.lower_bound_bytes, best.proven, plan_seconds, all_seconds, exact)


def programs(name: str, mixes: int) -> Iterator[tuple[str, Program]]:
    """fixed8, fixed16, then random mixes; a mix that the lowering refuses is drawn again."""
    source = find_model(name)
    model = load_onnx(source.path)
    if source.ranges is None:
        return
    ranges = load_ranges(source.ranges, model.sha256)
    for default in ("fixed8", "fixed16"):
        yield default, lower(model.graph, Assignment(default), ranges)
    chance = random.Random(1)
    groups = tied_values(model.graph)
    made = refused = 0
    while made < mixes and refused < 10 * mixes:
        mix = {group[0]: chance.choice(("fixed8", "fixed16")) for group in groups}
        try:
            yield "mixed", lower(model.graph, Assignment("fixed16", mix), ranges)
        except HilError:
            refused += 1
            continue
        made += 1


def line(cells: tuple[object, ...]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def report(name: str, mixes: int) -> list[str]:
    rows: dict[str, list[Row]] = {}
    for label, program in programs(name, mixes):
        rows.setdefault(label, []).append(measure(program))
    lines = []
    for label, found in rows.items():
        ratios = [row.first_fit_bytes / row.bound_bytes for row in found]
        columns = [[row.first_fit_bytes for row in found], *zip(*(row.peaks_bytes for row in found), strict=True)]
        medians = [f"{statistics.median(column):.0f}" for column in columns]
        bound = f"{statistics.median(row.bound_bytes for row in found):.0f}"
        proofs = f"{sum(row.proven for row in found)}/{len(found)}"
        plan_ms, all_ms = ([1000 * getattr(row, key) for row in found] for key in ("plan_seconds", "all_seconds"))
        spread = [f"{statistics.median(ms):.2f} / {max(ms):.2f}" for ms in (plan_ms, all_ms)]
        exact = f"{sum(row.exact_order for row in found)}/{len(found)}"
        first_fit = f"{statistics.median(ratios):.2f} / {max(ratios):.2f}"
        lines.append(line((name, label, *medians, bound, proofs, exact, first_fit, *spread)))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixes", type=int, default=200, help="random 8/16 assignments per model")
    options = parser.parse_args()
    head = ("model", "format", "first-fit B", "no pass B", "+ in place", "+ gaps", "+ order", "bound B", "proven")
    head += ("order exact", "first-fit / bound", "plan ms", "all passes ms")
    print(f"Search core: {backend()}. Bytes are medians; ratios and milliseconds are median / worst.\n")
    print(line(head))
    print("|" + "---|" * len(head))
    for name in zoo_names():
        print("\n".join(report(name, options.mixes)), flush=True)


if __name__ == "__main__":
    main()
