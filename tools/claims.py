"""Repeats figures of README and docs and says which are stale: `make claims`.

    python -m tools.claims                  a tenth of all, drawn anew each time; marks stale tables in their pages
    python -m tools.claims --within-s 60    those drawn first that take so long together; writes nothing
    python -m tools.claims --only WORD      all whose name holds the word; writes nothing
    python -m tools.claims --only docs/papers/ --tenth    a tenth of these: `make reproduce`
    python -m tools.claims --only docs/papers/ --count 30 --each-s 60 --seed 38    so many of so long at most, listed
    python -m tools.claims --changed --count 30    of the papers' cells whose code has changed since; writes nothing
    python -m tools.claims --list           every claim (of --only): seconds, command, what is expected, tolerance

A claim is what one command repeats: a cell of a paper's table, rows of another table (tools/table_claims.py), or
figures of a sentence (docs/claims.yaml). Each knows its tolerance: tables are equal, to the last digit. What needs data
that is not here (HIL_DATA) is said to be left out. The exit code is 1 where a figure is stale.
"""

from __future__ import annotations

import argparse
import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import yaml

from benchmarks.papers import record
from benchmarks.papers.registry import PAPERS
from tinyhil.errors import DataError
from tools import stale, table_claims
from tools.claim import Claim, listed, number, printed, repeat
from tools.measured import ROOT

LISTED = ROOT / "docs" / "claims.yaml"
SHARE = 10  # one of so many


def claims() -> Iterator[Claim]:
    """All that one command repeats."""
    yield from _sentences()
    yield from table_claims.every()
    yield from _papers()


def _sentences() -> Iterator[Claim]:
    for entry in yaml.safe_load(LISTED.read_text()):
        unit = float(entry.get("unit", 1))
        stated = {text: number(text) * unit for text in map(str, entry["figures"])}
        measure = partial(printed, entry["command"], dict(zip(stated, entry["finds"], strict=True)))
        tolerance = float(entry.get("tolerance", 0))
        tries = int(entry.get("tries", 1))
        yield Claim(entry["page"], entry["command"], entry["seconds"], stated, measure, tolerance, tries=tries)


def _papers() -> Iterator[Claim]:
    for paper in PAPERS:
        known = record.read(paper.name)
        for cell in paper.cells():
            if cell.key in known and "failed" not in known[cell.key]["row"]:
                command, cell_record = f"{paper.command} --again '{cell.key}'", known[cell.key]
                name = f"docs/papers/{paper.name}.md: {cell.key}"
                row, seconds = cell_record["row"], cell_record["processor_s"]
                changed = stale.cell_changed(name, cell_record["commit"])
                yield Claim(name, command, seconds, row, cell.measure, 0.0, cell.apart, cell.tries, changed)


def drawn(every: list[Claim], seed: str, within_s: float | None, count: int | None = None) -> list[Claim]:
    """A tenth or `count`, drawn; within a limit of time as many of all as it holds, by what they are known to take."""
    order = random.Random(seed).sample(every, len(every))
    if within_s is None:
        return order[: -(-len(order) // SHARE) if count is None else count]
    chosen, spent_s = [], 0.0
    for claim in order:
        if spent_s + claim.seconds <= within_s:
            chosen.append(claim)
            spent_s += claim.seconds
    return chosen


def check(chosen: list[Claim], limit_s: float | None, is_listed: bool = False) -> int:
    """Repeat claims one after the other, `is_listed`: also by name which are equal; how many are stale."""
    begin_s, outdated, left_out, repeated = time.monotonic(), 0, 0, 0
    for claim in chosen:
        if limit_s is not None and time.monotonic() - begin_s > limit_s:
            break
        try:
            wrong = repeat(claim)
        except DataError as error:
            left_out += 1
            print(f"claims: left out: {claim.name}: {error}", flush=True)
            continue
        repeated += 1
        outdated += bool(wrong)
        if not wrong and is_listed:
            print(f"claims: equal: {claim.name}", flush=True)
        for line in wrong[:5]:
            print(f"claims: STALE: {claim.name}: {line}; repeat: {claim.command}", flush=True)
    print(
        f"claims: {repeated} repeated, {outdated} stale, {left_out} left out for want of data, "
        f"{len(chosen) - repeated - left_out} not begun in time"
    )
    return outdated


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="", help="of the draw; default: the commit, or with no limit the time")
    parser.add_argument("--within-s", type=float, help="only what this many seconds hold; marks nothing")
    parser.add_argument("--only", help="all claims whose name holds this")
    parser.add_argument("--tenth", action="store_true", help="of --only: a tenth, drawn")
    parser.add_argument("--changed", action="store_true", help="only papers' cells whose code has changed since")
    parser.add_argument("--count", type=int, help="of --only: so many, drawn")
    parser.add_argument("--each-s", type=float, default=math.inf, help="only claims that take so many seconds at most")
    parser.add_argument("--list", action="store_true", help="print all claims, or those of --only")
    options = parser.parse_args()
    asked = (claim for claim in claims() if (options.only or "") in claim.name)
    chosen = every = [
        each for each in asked if each.seconds <= options.each_s and (each.changed or not options.changed)
    ]
    if not chosen:
        parser.error(f"no claim's name holds {options.only!r}; --list prints all")
    if options.list:
        print(*map(listed, every), sep="\n")
        return 0
    if options.only is None or options.tenth or options.count is not None:
        moving = _commit() if options.within_s is not None else str(time.time_ns())
        seed = options.seed or moving
        chosen = drawn(every, seed, options.within_s, options.count)
        print(f"claims: {len(chosen)} of {len(every)}, seed {seed}")
    outdated = check(chosen, options.within_s, options.count is not None)
    if (options.within_s, options.only, options.count, options.changed) == (None, None, None, False):
        for page in stale.renew():
            print(f"claims: {page}: says since when its tables are stale; commit it")
    return 1 if outdated else 0


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "none"


if __name__ == "__main__":
    sys.exit(main())
