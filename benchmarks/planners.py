"""The planner tables of docs/measured/memplan.md, each between markers of its own.

python -m benchmarks.planners [--only rows] [--mixes 200] [--write docs/measured/memplan.md]

Instances come from $HIL_DATA/memplan (minimalloc's eleven hard ones, live ranges of published networks), from
benchmarks/instances and from benchmarks/shape_graphs.py. Times are seconds of the processor, the least of REPEATS where
a plan takes less than QUICK_SECONDS: other programs may share the machine.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.marked import replace_between
from benchmarks.shape_graphs import MIXES, squeezenet_with
from tinyhil import memplan
from tinyhil.language.program import Program
from tinyhil.memplan import Budget, Buffer, Plan, Problem
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.compiled_cores import backend
from tinyhil.memplan.csv import read_problem
from tools.measured import provenance

CAPACITY_BYTES = 1_048_576
BASELINES = ("first-fit", "greedy-by-size", "greedy-by-area", "greedy-by-duration", "best-fit", "hill-climb")


CROWDS = [(count, longest) for count in (10_000, 18_692, 100_000) for longest in (10, 100, 1000, 2000)]
REPEATS, QUICK_SECONDS = 3, 1.0
INSTANCES = Path(__file__).resolve().parent / "instances"


def timed(problem: Problem, planner: str = memplan.DEFAULT, budget: Budget | None = None) -> tuple[Plan, float]:
    """The plan, and the least time it took."""
    best = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        plan = memplan.plan(problem, planner, budget)
        best = min(best, time.process_time() - began)
        if best > QUICK_SECONDS:
            break
    return plan, best


def instances(folder: Path) -> Iterator[tuple[str, Problem]]:
    files = sorted(folder.glob("*.csv"))
    if not files:
        sys.exit(f"{folder}: no instances there; set HIL_DATA to the folder that holds memplan/")
    for file in files:
        yield file.name.split(".")[0], read_problem(file)


def table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def hard_table(folder: Path) -> str:
    rows: list[tuple[object, ...]] = []
    to_fit = to_prove = 0.0
    for name, problem in instances(folder):
        if name == "example":
            continue
        fits, fit_seconds = timed(problem, budget=Budget(enough_bytes=CAPACITY_BYTES))
        best, seconds = timed(problem)
        to_fit, to_prove = to_fit + fit_seconds, to_prove + seconds
        fit = f"{fit_seconds:.3f}" if fits.peak_bytes <= CAPACITY_BYTES else "no"
        proof = "yes" if best.proven else f"gap {best.gap_bytes}"
        ratios = [f"{memplan.plan(problem, p).peak_bytes / best.lower_bound_bytes:.2f}" for p in BASELINES]
        rows.append((name, len(problem.buffers), fit, best.peak_bytes, f"{seconds:.3f}", proof, *ratios))
    head = ("", "buffers", "s to fit", "`hil plan` B", "s", "proven optimal", *BASELINES)
    note = f"All eleven within {CAPACITY_BYTES:,} B in {to_fit:.2f} s, at their optimum in {to_prove:.2f} s."
    return f"{table(head, rows)}\n\n{note}"


def network_table(folder: Path) -> str:
    """Each planner over the portfolio's plan, of all networks."""
    ratios: dict[str, list[float]] = {name: [] for name in BASELINES}
    all_seconds, unproven = [], 0
    for _, problem in instances(folder):
        best, seconds = timed(problem)
        all_seconds.append(seconds)
        unproven += not best.proven
        for name in BASELINES:
            ratios[name].append(memplan.plan(problem, name).peak_bytes / best.peak_bytes)
    rows: list[tuple[object, ...]] = []
    for name, found in ratios.items():
        least = sum(ratio == 1 for ratio in found)
        rows.append((name, f"{least}/{len(found)}", f"{statistics.mean(found):.2f}", f"{max(found):.2f}"))
    summary = (
        f"{len(all_seconds)} live ranges of published networks (8 bits, mixes, TFLM): {unproven} not proven, "
        f"median {1000 * statistics.median(all_seconds):.1f} ms, worst {1000 * max(all_seconds):.1f} ms."
    )
    return f"{summary}\n\n{table(('planner', 'as low', 'mean over it', 'worst'), rows)}"


def mixed(problem: Problem, chance: random.Random) -> Problem:
    """Every buffer at 8 or at 16 bits."""
    return Problem(tuple(replace(b, size_bytes=b.size_bytes * chance.choice((1, 2))) for b in problem.buffers))


def mixes_text(folder: Path, count: int) -> str:
    """First-fit over the optimum, and how the portfolio fares, over random widths."""
    chance = random.Random(1)
    ratios, seconds, unproven = [], [], 0
    for name, problem in instances(folder):
        for _ in range(count if name.endswith("_int8") else 0):
            mix = mixed(problem, chance)
            best, spent = timed(mix)
            unproven += not best.proven
            seconds.append(spent)
            ratios.append(memplan.plan(mix, "first-fit").peak_bytes / best.lower_bound_bytes)
    return (
        f"{len(seconds)} random mixes of 8 and 16 bits of these networks: {unproven} not proven, "
        f"median {1000 * statistics.median(seconds):.1f} ms, worst {max(seconds):.2f} s; first-fit over the bound "
        f"{statistics.median(ratios):.2f} in the median, {max(ratios):.2f} at the worst."
    )


def small_table() -> str:
    """MinUn's kind of models: what Algorithm X is good for."""
    rows: list[tuple[object, ...]] = []
    for name, problem in instances(INSTANCES):
        found, seconds = timed(problem, "algorithm-x")
        ours, our_seconds = timed(problem)
        first_fit = memplan.plan(problem, "first-fit").peak_bytes
        proof = "yes" if found.proven else f"gap {found.gap_bytes}"
        times = [f"{1000 * each:.1f}" for each in (seconds, our_seconds)]
        peaks = (first_fit, found.peak_bytes, proof, times[0], ours.peak_bytes, times[1])
        rows.append((name, len(problem.buffers), *peaks))
    head = ("model", "buffers", "first-fit B", "Algorithm X B", "optimal", "ms", "portfolio B", "ms")
    return table(head, rows)


PASS_STEPS = ("in-place", "views", "order", "rows")


def pass_peaks(program: Program) -> list[int]:
    """Peaks without passes, then with one more each; last all but views."""
    steps = [ALL_NAMES.difference(PASS_STEPS[:count]) for count in range(len(PASS_STEPS) + 1)]
    return [place(program, without).plan.peak_bytes for without in (*steps, {*steps[-1], "views"})]


def squeezenet_table() -> str:
    rows: list[tuple[object, ...]] = []
    for width in ("8", *MIXES):
        for fused in (True, False):
            program = squeezenet_with(width, fused=fused)
            plain = problem_of(program, in_place=False, views=False)
            baselines = [memplan.plan(plain, name).peak_bytes for name in ("first-fit", "algorithm-x")]
            rows.append(
                (
                    "8 bits" if width == "8" else width,
                    "fused" if fused else "own operations",
                    *baselines,
                    *pass_peaks(program),
                )
            )
    head = ("widths", "activations", "first-fit", "Algorithm X", "ours", "+ in-place", "+ views", "+ order", "+ rows")
    note = "MinUn reports 1.44 MB with first-fit and 1.16 MB with Algorithm X, without its widths."
    return f"{table((*head, 'all but views'), rows)}\n\nBytes, the input included. {note}"


def evenly_drawn(count: int, longest: int, seed: int = 1) -> Problem:
    """So many buffers of random starts, live ranges up to `longest` instants and sizes up to 64 KiB."""
    chance = random.Random(seed)
    buffers = []
    for index in range(count):
        start = chance.randrange(count)
        end = start + 1 + chance.randrange(longest)
        buffers.append(Buffer(str(index), 16 * chance.randint(1, 4096), start, end))
    return Problem(tuple(buffers))


def large_table() -> str:
    rows: list[tuple[object, ...]] = []
    for count, longest in CROWDS:
        problem = evenly_drawn(count, longest)
        first = percent(memplan.plan(problem, budget=Budget(nodes=1)))
        plan, seconds = timed(problem)
        peaks = (plan.peak_bytes, plan.lower_bound_bytes, percent(plan))
        rows.append((count, longest, *peaks, f"{seconds:.2f}", first))
    return table(("buffers", "longest live range", "peak B", "bound B", "gap", "s", "first plan's gap"), rows)


def percent(plan: Plan) -> str:
    return f"{100 * plan.gap_bytes / plan.lower_bound_bytes:.1f} %"


SECTIONS: dict[str, Callable[[Path, int], str]] = {
    "hard": lambda data, mixes: hard_table(data / "minimalloc"),
    "networks": lambda data, mixes: network_table(data / "tinyml"),
    "mixes": lambda data, mixes: mixes_text(data / "tinyml", mixes),
    "large": lambda data, mixes: large_table(),
    "small": lambda data, mixes: small_table(),
    "rows": lambda data, mixes: squeezenet_table(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, action="append", help="may be repeated")
    parser.add_argument("--mixes", type=int, default=200, help="random 8/16 assignments per network")
    parser.add_argument("--write", type=Path, help="replace the tables in this Markdown file")
    options = parser.parse_args()
    if backend() != "compiled":
        sys.exit("without a C compiler these tables take hours")
    measured_at = provenance() if options.write else {}
    for name in options.only or SECTIONS:
        text = SECTIONS[name](Path(os.environ.get("HIL_DATA", "data")) / "memplan", options.mixes)
        if options.write is None:
            print(f"{name}\n\n{text}\n", flush=True)
        else:
            replace_between(options.write, f"<!-- {name}: begin -->", f"<!-- {name}: end -->", text, measured_at)


if __name__ == "__main__":
    main()
