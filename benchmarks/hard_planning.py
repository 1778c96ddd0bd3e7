"""Random hard planning instances against CP-SAT: python -m benchmarks.hard_planning [--count 125] [--solve SECONDS]

Of each kind (plain, aligned, gapped, both) `--count` instances of 8 to 30 buffers, seeds 0, 1, ..., then such of 30 to
54 with gaps, without and with alignments. Seconds are those of the processor. What CP-SAT found in
its deterministic seconds, with one worker, is kept in benchmarks/hard_cp_sat.csv; `--solve` spends so many seconds on
instances that are missing there, or that it left unproven with less than `--effort` (10). `--write FILE` replaces the
table in a Markdown file.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.marked import replace_between
from tinyhil import memplan
from tinyhil.memplan import Bound, Budget, Buffer, Problem, cp_sat, greedy_by_size
from tinyhil.memplan.account import Account
from tinyhil.memplan.placing import make_plan
from tools.measured import provenance

SMALL, LARGE = (8, 30), (30, 54)
KINDS = ("plain", "aligned", "gapped", "both")
FAMILIES = (*((kind, SMALL) for kind in KINDS), ("gapped", LARGE), ("both", LARGE))
KNOWN = Path(__file__).with_name("hard_cp_sat.csv")
EFFORT = 10.0
BEGIN, END = "<!-- benchmarks/hard_planning.py begin -->", "<!-- benchmarks/hard_planning.py end -->"


def instance(seed: int, kind: str, buffers: tuple[int, int] = SMALL) -> Problem:
    chance = random.Random(seed)
    instants, found = chance.randint(6, 14), []
    for index in range(chance.randint(*buffers)):
        start = chance.randrange(instants)
        length = max(1, min(instants - start, 1 + int(chance.expovariate(1 / 3.5))))
        alignment = chance.choice((1, 1, 2, 4, 8)) if kind in ("aligned", "both") else 1
        gaps: tuple[tuple[int, int], ...] = ()
        if kind in ("gapped", "both") and length >= 3 and chance.random() < 0.5:
            hole = chance.randint(1, length - 2)
            gaps = ((start + hole, start + hole + chance.randint(1, length - 1 - hole)),)
        found.append(Buffer(str(index), chance.randint(1, 40), start, start + length, alignment, gaps=gaps))
    return Problem(tuple(found))


@dataclass(frozen=True, slots=True)
class Theirs:
    """What CP-SAT found, and the deterministic seconds it was given."""

    peak: int
    bound: int
    seconds: float


Known = dict[tuple[str, int], Theirs]  # by kind and seed


def read_known() -> Known:
    with KNOWN.open(newline="") as file:
        return {
            (row["kind"], int(row["seed"])): Theirs(int(row["peak"]), int(row["bound"]), float(row["seconds"]))
            for row in csv.DictReader(file)
        }


def write_known(known: Known) -> None:
    lines = [f"{kind},{seed},{it.peak},{it.bound},{it.seconds:g}" for (kind, seed), it in sorted(known.items())]
    KNOWN.write_text("\n".join(("kind,seed,peak,bound,seconds", *lines, "")))


def solve(problem: Problem, effort: float) -> Theirs:
    """Peak and bound that CP-SAT reaches by itself, from the load and a greedy plan."""
    start = greedy_by_size.run(problem, Budget())
    loads = {buffer.start: memplan.load_bytes(problem, buffer.start) for buffer in problem.buffers}
    witness = max(loads, key=loads.__getitem__)
    start = make_plan(problem, dict(start.offsets), cp_sat.NAME, bound=Bound(loads[witness], "load", witness))
    plan = cp_sat.improved(problem, start, Account(Budget()), effort)
    memplan.check(problem, plan)
    return Theirs(plan.peak_bytes, plan.lower_bound_bytes, effort)


@dataclass(slots=True)
class Tally:
    """What came out of one family of instances."""

    spent: list[float] = field(default_factory=list)
    unproven: int = 0
    compared: int = 0
    solver_unproven: int = 0
    above: int = 0
    below: int = 0
    false: int = 0

    def add(self, problem: Problem, theirs: Theirs | None) -> None:
        began = time.process_time()
        ours = memplan.plan(problem)
        self.spent.append(time.process_time() - began)
        self.unproven += not ours.proven
        if theirs is not None:
            self.compared += 1
            self.solver_unproven += theirs.peak > theirs.bound
            self.above += ours.peak_bytes > theirs.peak
            self.below += ours.peak_bytes < theirs.peak
            self.false += ours.lower_bound_bytes > theirs.peak or theirs.bound > ours.peak_bytes

    def slow(self) -> str:
        """The longest time and how many took more than a second."""
        return f"{max(self.spent):.2f} | {sum(spent > 1 for spent in self.spent)}"

    def row(self, name: str) -> str:
        counts = (
            len(self.spent),
            self.unproven,
            self.compared,
            self.solver_unproven,
            self.above,
            self.below,
            self.false,
        )
        return f"| {name} | " + " | ".join(map(str, counts)) + f" | {sum(self.spent):.1f} | {self.slow()} |"


def table(count: int, known: Known) -> str:
    head = ("", "instances", "unproven", "with CP-SAT", "unproven by it", "we above", "we below", "contradictions")
    lines = ["| " + " | ".join((*head, "s in all", "worst", "over 1 s")) + " |", "|" + "---|" * 11]
    for kind, buffers in FAMILIES:
        tally = Tally()
        for seed in range(count):
            theirs = known.get((kind, seed)) if buffers == SMALL else None
            tally.add(instance(seed, kind, buffers), theirs)
        lines.append(tally.row(f"{kind}, {buffers[0]} to {buffers[1]} buffers"))
        print(lines[-1], flush=True)
    return "\n".join(lines)


def solve_missing(count: int, seconds: float, effort: float, known: Known) -> None:
    began = time.process_time()
    for seed in range(count):
        for kind in KINDS:
            theirs = known.get((kind, seed))
            if theirs is not None and (theirs.peak == theirs.bound or theirs.seconds >= effort):
                continue
            if time.process_time() - began > seconds:
                return
            known[kind, seed] = solve(instance(seed, kind), effort)
            write_known(known)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=125)
    parser.add_argument("--solve", type=float, default=0.0)
    parser.add_argument("--effort", type=float, default=EFFORT)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    measured_at = provenance() if given.write else {}
    known = read_known()
    solve_missing(given.count, given.solve, given.effort, known)
    text = table(given.count, known)
    if given.write is not None:
        replace_between(given.write, BEGIN, END, text, measured_at)


if __name__ == "__main__":
    main()
