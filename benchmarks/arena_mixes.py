"""The arena of every model of the zoo at mixed bits; at 8 and at 16 in the summary.

python -m benchmarks.arena_mixes [--mixes 200] [--models digits_cnn,...] [--write docs/measured/memplan.md]

Models with weights of others are measured where HIL_DATA has them. Peaks without and with the passes, against
first-fit and the lower bound. Times are those of the processor: other programs may share the machine.
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
from tinyhil.compiler.lower import lower, tied_values
from tinyhil.errors import HilError
from tinyhil.harness.job.job import open_model
from tinyhil.harness.settings.assets import asset
from tinyhil.language.assignment import Assignment
from tinyhil.language.program import Program
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import place
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.compiled_cores import backend
from tools.measured import provenance

BEGIN, END = "<!-- benchmarks/arena_mixes.py begin -->", "<!-- benchmarks/arena_mixes.py end -->"
MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Row:
    """One model in one assignment."""

    first_fit_bytes: int
    first_fit_ratio: float  # over the bound without passes
    plain_bytes: int  # no pass
    all_bytes: int
    bound_bytes: int
    proven: bool
    seconds: float  # every pass, every plan that was compared


def measure(program: Program) -> Row:
    plain = problem_of(program, in_place=False, views=False)
    first_fit = memplan.plan(plain, "first-fit").peak_bytes
    ratio = first_fit / max(1, memplan.lower_bound(plain).bytes)
    plain_bytes = place(program, ALL_NAMES).plan.peak_bytes
    began = time.process_time()
    final = place(program).plan
    seconds = time.process_time() - began
    return Row(first_fit, ratio, plain_bytes, final.peak_bytes, final.lower_bound_bytes, final.proven, seconds)


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
            yield MIXED, lower(model.graph, Assignment("fixed16", mix), ranges)
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


def report(name: str, found: list[Row]) -> str:
    """The line of a model in so many mixes."""
    ratios = [row.first_fit_ratio for row in found]
    bytes_ = ([getattr(row, key) for row in found] for key in ("first_fit_bytes", "plain_bytes", "all_bytes"))
    medians = [f"{statistics.median(column):.0f}" for column in bytes_]
    proofs = f"{sum(row.proven for row in found)}/{len(found)}"
    ms = [1000 * row.seconds for row in found]
    spreads = [f"{statistics.median(one):.2f} / {max(one):.2f}" for one in (ratios, ms)]
    return line((name, *medians, proofs, *spreads))


def summary(rows: list[Row]) -> str:
    """Over all models and widths: proofs, times, and how first-fit is distributed over the bound."""
    ratios = sorted(row.first_fit_ratio for row in rows)
    ms = [1000 * row.seconds for row in rows]
    parts = [
        f"{share} %: {ratios[min(len(ratios) - 1, len(ratios) * share // 100)]:.2f}" for share in (50, 75, 90, 99, 100)
    ]
    proven = sum(row.proven for row in rows)
    return (
        f"{len(rows)} arenas, those of 8 and of 16 bits alone among them: {proven} proven optimal; all passes take "
        f"{statistics.median(ms):.2f} ms in the median, {max(ms):.1f} ms at the worst.\n"
        f"First-fit over the bound without passes, quantiles: {', '.join(parts)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixes", type=int, default=200, help="random 8/16 assignments per model")
    parser.add_argument("--models", help="names with commas between; default: the whole zoo")
    parser.add_argument("--write", type=Path, help="replace the summary in this Markdown file")
    options = parser.parse_args()
    measured_at = provenance() if options.write else {}
    head = ("model", "first-fit B", "no pass B", "all passes B", "proven", "first-fit / bound", "ms")
    print(f"Search core: {backend()}. Bytes are medians; ratios and milliseconds are median / worst.\n")
    print(line(head), "|" + "---|" * len(head), sep="\n")
    rows: list[Row] = []
    for name in options.models.split(",") if options.models else found_models():
        found: dict[str, list[Row]] = {}
        for label, program in programs(name, options.mixes):
            found.setdefault(label, []).append(measure(program))
        print("\n".join(report(name, of_label) for label, of_label in found.items() if label == MIXED), flush=True)
        rows += [row for of_label in found.values() for row in of_label]
    print(f"\n{summary(rows)}")
    if options.write is not None:
        replace_between(options.write, BEGIN, END, summary(rows), measured_at)


if __name__ == "__main__":
    main()
