"""Random hard planning instances against CP-SAT: python -m benchmarks.hard_planning [--count 125] [--seconds 10]

Of each kind (plain, aligned, gapped, both) `--count` instances of 8 to 30 buffers, seeds 0, 1, ...; one row per kind.
Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import random
import time

from tinyhil import memplan
from tinyhil.memplan import Budget, Buffer, Problem

KINDS = ("plain", "aligned", "gapped", "both")


def instance(seed: int, kind: str, buffers: tuple[int, int] = (8, 30)) -> Problem:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=125)
    parser.add_argument("--seconds", type=float, default=10.0)
    given = parser.parse_args()
    print("| kind | instances | unproven | above CP-SAT | below CP-SAT | false proofs | s in all | s at the worst |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in KINDS:
        unproven, above, below, false, spent = 0, 0, 0, 0, []
        for seed in range(given.count):
            problem = instance(seed, kind)
            began = time.process_time()
            ours = memplan.plan(problem)
            spent.append(time.process_time() - began)
            theirs = memplan.plan(problem, "cp-sat", Budget(seconds=given.seconds))
            unproven += not ours.proven
            above += ours.peak_bytes > theirs.peak_bytes
            below += ours.peak_bytes < theirs.peak_bytes
            false += ours.lower_bound_bytes > theirs.peak_bytes
        figures = (given.count, unproven, above, below, false, f"{sum(spent):.1f}", f"{max(spent):.1f}")
        print(f"| {kind} | " + " | ".join(map(str, figures)) + " |", flush=True)


if __name__ == "__main__":
    main()
