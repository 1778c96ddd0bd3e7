"""Hundreds of buffers with gaps beside CP-SAT: python -m benchmarks.gapped_planning FOLDER [--write FILE]

Each CSV of the folder is planned with the default budget, the same everywhere, or within `--time SECONDS`. What CP-SAT
found is kept in benchmarks/gapped_cp_sat.csv: `--solve SECONDS --only NAME,...` lets it begin with greedy-by-size until
the process has used so many seconds of processor; in one worker, in which its strategies and neighbourhoods take turns,
or `--workers N`. `--write FILE` replaces the table in a Markdown file.
"""

from __future__ import annotations

import argparse
import csv
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.marked import replace_between
from tinyhil import memplan
from tinyhil.memplan import Budget, Problem, cp_sat, greedy_by_size, lower_bound
from tinyhil.memplan.account import Account
from tinyhil.memplan.csv import read_problem
from tinyhil.memplan.placing import make_plan
from tools.measured import provenance

KNOWN = Path(__file__).with_name("gapped_cp_sat.csv")
HEAD = ("instance", "peak", "bound", "processor_s", "workers")
BEGIN, END = "<!-- benchmarks/gapped_planning.py begin -->", "<!-- benchmarks/gapped_planning.py end -->"


@dataclass(frozen=True, slots=True)
class Theirs:
    """What CP-SAT reached with how many seconds of processor, and in how many workers."""

    peak: int
    bound: int
    processor_s: int
    workers: int


def read_known() -> dict[str, Theirs]:
    if not KNOWN.is_file():
        return {}
    with KNOWN.open(newline="") as file:
        rows = csv.DictReader(file)
        return {row["instance"]: Theirs(*(int(row[name]) for name in HEAD[1:])) for row in rows}


def write_known(known: Mapping[str, Theirs]) -> None:
    lines = [",".join(map(str, (name, *astuple(found)))) for name, found in sorted(known.items())]
    KNOWN.write_text("\n".join((",".join(HEAD), *lines, "")))


def solve(problem: Problem, seconds: float, workers: int) -> Theirs:
    """Its plan, checked."""
    from ortools.sat.python import cp_model

    began = time.process_time()
    model, solver = cp_model.CpModel(), cp_model.CpSolver()
    start = greedy_by_size.run(problem, Budget())
    built = cp_sat._build(model, problem, lower_bound(problem).bytes, start, Account(Budget()))
    assert built is not None  # without a limit of time
    solver.parameters.random_seed, solver.parameters.num_workers = 1, workers
    solver.parameters.interleave_search = workers == 1

    def watch() -> None:
        while time.process_time() - began < seconds:
            time.sleep(0.5)
        solver.stop_search()

    threading.Thread(target=watch, daemon=True).start()
    solver.solve(model)
    offsets = {name: solver.value(offset) for name, offset in built[1].items()}
    plan = make_plan(problem, offsets, cp_sat.NAME, bound=lower_bound(problem))
    memplan.check(problem, plan)
    return Theirs(plan.peak_bytes, int(solver.best_objective_bound), round(time.process_time() - began), workers)


def table(files: list[Path], known: Mapping[str, Theirs], budget: Budget) -> Iterator[str]:
    yield "| | buffers | bound B | ours B | s of processor | CP-SAT B | its s | its workers | ours over it |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for file in files:
        problem, began = read_problem(file), time.process_time()
        plan = memplan.plan(problem, budget=budget)
        used, theirs = time.process_time() - began, known.get(file.stem)
        bound = max(plan.lower_bound_bytes, theirs.bound if theirs else 0)
        row = f"| {file.stem} | {len(problem.buffers)} | {bound:,} | {plan.peak_bytes:,} | {used:.1f} |"
        if theirs is None:
            yield f"{row} | | | |"
            continue
        over = f"{100 * (plan.peak_bytes / theirs.peak - 1):+.2f} %"
        yield f"{row} {theirs.peak:,} | {theirs.processor_s} | {theirs.workers} | {over} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--solve", type=float)
    parser.add_argument("--only", default="")
    parser.add_argument("--time", type=float)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    measured_at = provenance() if given.write else {}
    only = set(filter(None, given.only.split(",")))
    files = sorted(file for file in given.folder.glob("*.csv") if not only or file.stem in only)
    known = read_known()
    for file in files if given.solve else ():
        known[file.stem] = solve(read_problem(file), given.solve, given.workers)
        write_known(known)
    lines = []
    for line in table(files, known, Budget(seconds=given.time)):
        print(line, flush=True)
        lines.append(line)
    if given.write:
        replace_between(given.write, BEGIN, END, "\n".join(lines), measured_at)


if __name__ == "__main__":
    main()
