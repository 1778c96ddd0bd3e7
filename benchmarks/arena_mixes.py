"""The arena of every model of the zoo at 8, at 16 and at mixed bits.

python -m benchmarks.arena_mixes [--mixes 200] [--models digits_cnn,...] [--write docs/measured/memplan.md]

Models with weights of others are measured where HIL_DATA has them. Peaks with the passes switched on one after the
other, against first-fit and the lower bound. Times are those of the processor: other programs may share the machine.
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

from benchmarks.marked import replace_between
from tinyhil import memplan
from tinyhil.assignment import Assignment
from tinyhil.errors import HilError
from tinyhil.harness.assets import asset
from tinyhil.harness.job import open_model
from tinyhil.lower import lower, tied_values
from tinyhil.memplan.arena.order import order_body
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.compiled_cores import backend
from tinyhil.program import Program
from tools.measured import provenance

BEGIN, END = "<!-- benchmarks/arena_mixes.py begin -->", "<!-- benchmarks/arena_mixes.py end -->"
STEPS: tuple[frozenset[str] | set[str], ...] = (
    ALL_NAMES, ALL_NAMES - {"in-place"}, ALL_NAMES - {"in-place", "gaps"}, {"views", "rows"}, {"rows"}, set(),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One model in one assignment; `peaks_bytes` with no pass, then with one of STEPS after the other."""

    first_fit_bytes: int
    first_fit_ratio: float  # over the bound without passes
    peaks_bytes: tuple[int, ...]
    bound_bytes: int
    proven: bool
    plan_seconds: float  # the problem with all passes, once
    all_seconds: float  # every pass, every plan that was compared
    exact_order: bool


def measure(program: Program) -> Row:
    placements = [place(program, without) for without in STEPS[:-1]]
    began = time.process_time()
    final = place(program, STEPS[-1])
    all_seconds = time.process_time() - began
    began = time.process_time()
    best = memplan.plan(final.problem)
    plan_seconds = time.process_time() - began
    plain = problem_of(program, in_place=False, views=False)
    first_fit = memplan.plan(plain, "first-fit").peak_bytes
    ratio = first_fit / max(1, memplan.lower_bound(plain).bytes)
    peaks = tuple(placed.plan.peak_bytes for placed in (*placements, final))
    exact = order_body(program, program.body).exact
    return Row(first_fit, ratio, peaks, best.lower_bound_bytes, best.proven, plan_seconds, all_seconds, exact)


def programs(name: str, mixes: int) -> Iterator[tuple[str, Program]]:
    """fixed8, fixed16, then random mixes; a mix that the lowering refuses is drawn again."""
    opened = open_model(name)
    model, ranges = opened.model, opened.known_ranges(None)
    if ranges is None:
        return
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


def found_models() -> list[str]:
    """The zoo with those of its models whose weights of others are in $HIL_DATA; says which are not there."""
    names = []
    for manifest in sorted(asset("models").glob("*/model.yaml")):
        try:
            open_model(manifest.parent.name)
        except HilError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        names.append(manifest.parent.name)
    return names


def line(cells: tuple[object, ...]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def report(name: str, mixes: int) -> tuple[list[str], list[Row]]:
    rows: dict[str, list[Row]] = {}
    for label, program in programs(name, mixes):
        rows.setdefault(label, []).append(measure(program))
    lines = []
    for label, found in rows.items():
        ratios = [row.first_fit_ratio for row in found]
        columns = [[row.first_fit_bytes for row in found], *zip(*(row.peaks_bytes for row in found), strict=True)]
        medians = [f"{statistics.median(column):.0f}" for column in columns]
        bound = f"{statistics.median(row.bound_bytes for row in found):.0f}"
        proofs = f"{sum(row.proven for row in found)}/{len(found)}"
        plan_ms, all_ms = ([1000 * getattr(row, key) for row in found] for key in ("plan_seconds", "all_seconds"))
        spread = [f"{statistics.median(ms):.2f} / {max(ms):.2f}" for ms in (plan_ms, all_ms)]
        exact = f"{sum(row.exact_order for row in found)}/{len(found)}"
        first_fit = f"{statistics.median(ratios):.2f} / {max(ratios):.2f}"
        lines.append(line((name, label, *medians, bound, proofs, exact, first_fit, *spread)))
    return lines, [row for found in rows.values() for row in found]


def summary(rows: list[Row]) -> str:
    """Over all models and widths: proofs, times, and how first-fit is distributed over the bound."""
    ratios = sorted(row.first_fit_ratio for row in rows)
    ms = [1000 * row.plan_seconds for row in rows]
    parts = [
        f"{share} %: {ratios[min(len(ratios) - 1, len(ratios) * share // 100)]:.2f}" for share in (50, 75, 90, 99, 100)
    ]
    proven = sum(row.proven for row in rows)
    return (
        f"{len(rows)} arenas: {proven} proven optimal; planning takes {statistics.median(ms):.2f} ms in the median, "
        f"{max(ms):.1f} ms at the worst. First-fit over the bound without passes, quantiles: {', '.join(parts)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixes", type=int, default=200, help="random 8/16 assignments per model")
    parser.add_argument("--models", help="names with commas between; default: the whole zoo")
    parser.add_argument("--write", type=Path, help="replace the table in this Markdown file")
    options = parser.parse_args()
    measured_at = provenance() if options.write else {}
    head = (
        "model", "format", "first-fit B", "no pass B", "+ in place", "+ gaps", "+ order", "+ views", "+ rows",
        "bound B", "proven", "order exact", "first-fit / bound", "plan ms", "all passes ms",
    )  # fmt: skip
    lines = [f"Search core: {backend()}. Bytes are medians; ratios and milliseconds are median / worst.", ""]
    lines += [line(head), "|" + "---|" * len(head)]
    print("\n".join(lines))
    rows: list[Row] = []
    for name in options.models.split(",") if options.models else found_models():
        found_lines, found = report(name, options.mixes)
        print("\n".join(found_lines), flush=True)
        lines += found_lines
        rows += found
    lines += ["", summary(rows)]
    print(f"\n{lines[-1]}")
    if options.write is not None:
        replace_between(options.write, BEGIN, END, "\n".join(lines), measured_at)


if __name__ == "__main__":
    main()
