"""Repeats figures of README and docs and says which are stale: `make claims`.

    python -m tools.claims                  a tenth of all, drawn anew each time; marks stale tables in their pages
    python -m tools.claims --within-s 60    those drawn first that take so long together; writes nothing
    python -m tools.claims --only WORD      all whose name holds the word; writes nothing
    python -m tools.claims --only docs/papers/ --tenth    a tenth of these: `make reproduce`
    python -m tools.claims --list           every claim (of --only): seconds, command, what is expected, tolerance

A claim is what one command repeats: a cell of a paper's table, a row of the table of formats, a model of the zoo, or
figures of a sentence (docs/claims.yaml). Each knows its tolerance: tables are equal, to the last digit. What needs data
that is not here (HIL_DATA) is said to be left out. The exit code is 1 where a figure is stale.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.papers import record
from benchmarks.papers.registry import PAPERS
from benchmarks.zoo import accuracy
from tinyhil.errors import DataError, HilError
from tools import stale, tables
from tools.measured import ROOT, read

LISTED = ROOT / "docs" / "claims.yaml"
SHARE = 10  # one of so many
ZOO_S, HOST_S, BUILD_S = 20.0, 3.0, 3.0  # what a model of the zoo, a run on the host and one build take, about
LONGEST_S = 1200.0
TRIES = 3  # when bytes come, on the host's clock, decides whether an interrupt's frame lies on the deepest call
OF_THIS_MACHINE = ("median_us", "ticks", "flash_bytes")  # of a run on the host; no page shows them


@dataclass(frozen=True, slots=True)
class Claim:
    """`measure` gives what `stated` was; both by the name of the figure. `seconds`: about, of one processor.

    `tries`: of so many measurements one has to give all that is stated.
    """

    name: str
    command: str
    seconds: float
    stated: dict[str, Any]
    measure: Callable[[], dict[str, Any]]
    tolerance: float = 0.0  # relative
    apart: Mapping[str, float] = field(default_factory=dict)  # of figures by their last name
    tries: int = 1


def claims() -> Iterator[Claim]:
    """All that one command repeats."""
    yield from _sentences()
    yield from _formats()
    yield from _zoo()
    yield from _papers()


def _sentences() -> Iterator[Claim]:
    for entry in yaml.safe_load(LISTED.read_text()):
        unit = float(entry.get("unit", 1))
        stated = {text: number(text) * unit for text in map(str, entry["figures"])}
        measure = partial(_printed, entry["command"], dict(zip(stated, entry["finds"], strict=True)))
        tolerance = float(entry.get("tolerance", 0))
        tries = int(entry.get("tries", 1))
        yield Claim(entry["page"], entry["command"], entry["seconds"], stated, measure, tolerance, tries=tries)


def _printed(command: str, finds: dict[str, str]) -> dict[str, float]:
    """What a command prints, by the regular expressions of the figures; DataError where it misses data."""
    given = os.environ.get("HIL_DATA", "")
    if "DATA/" in command and not Path(given).is_dir():
        raise DataError("set HIL_DATA")
    with tempfile.TemporaryDirectory() as folder:
        words = shlex.split(command.replace("ROOT/", f"{ROOT}/").replace("DATA/", f"{given}/"))
        program = [sys.executable, "-m", *words[2:]] if words[0] == "python" else words
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        cwd = ROOT if words[0] == "python" else folder
        done = subprocess.run(
            program, cwd=cwd, capture_output=True, text=True, timeout=LONGEST_S, env={**os.environ, "PATH": path}
        )
    if "HIL_DATA" in done.stderr and done.returncode:
        raise DataError(done.stderr.strip().splitlines()[-1])
    found = {key: re.search(pattern, done.stdout) for key, pattern in finds.items()}
    missing = [pattern for key, pattern in finds.items() if not found[key]]
    if missing:
        raise HilError(
            f"{command}: exit code {done.returncode}, prints nothing like {missing[0]!r}: {done.stderr[-200:]}"
        )
    return {key: number(match[1]) for key, match in found.items() if match}


def number(text: str) -> float:
    """Of '7,677,275', '92.53' or '4 %'."""
    return float(re.sub(r"[^\d.+-]", "", text))


def _formats() -> Iterator[Claim]:
    stated = {(row["format"], row["board"]): row for row in read(tables.NAME)}
    for request in tables.requests():
        row = stated[request.format, request.board]
        run_s = row["samples"] * row["median_us"] * 1e-6 if request.board != tables.HOST else HOST_S
        options = f"--board {request.board} --model {request.model} --format {request.format}"
        yield Claim(
            f"docs/measured/formats.md: {request.format} on {request.board}",
            f"hil run {options}" + (f" --samples {request.samples}" if request.samples else ""),
            BUILD_S + run_s,
            _anywhere(row),
            partial(_format_row, request),
            tries=TRIES,
        )


def _format_row(request: Any) -> dict[str, Any]:
    found = tables.record_of(request)
    if found["data"]["source"] not in tables.REAL:
        raise DataError(f"har6: {found['data']['source']} data; set HIL_DATA")
    return _anywhere(tables.row_of(found))


def _anywhere(row: dict[str, Any]) -> dict[str, Any]:
    """What a row states on whatever computer it is measured."""
    return {key: value for key, value in row.items() if row["board"] != tables.HOST or key not in OF_THIS_MACHINE}


def _zoo() -> Iterator[Claim]:
    for model, row in read("zoo").items():
        yield Claim(f"docs/zoo.md: {model}", "python -m benchmarks.zoo accuracy", ZOO_S, row, partial(accuracy, model))


def _papers() -> Iterator[Claim]:
    for paper in PAPERS:
        known = record.read(paper.name)
        for cell in paper.cells():
            if cell.key in known and "failed" not in known[cell.key]["row"]:
                command, cell_record = f"{paper.command} --again '{cell.key}'", known[cell.key]
                name = f"docs/papers/{paper.name}.md: {cell.key}"
                row, seconds = cell_record["row"], cell_record["processor_s"]
                yield Claim(name, command, seconds, row, cell.measure, apart=cell.apart)


def differences(claim: Claim, found: dict[str, Any]) -> list[str]:
    """What is not as stated, each with its name."""
    return list(_differences(claim, claim.stated, found, ()))


def _differences(claim: Claim, stated: Any, found: Any, where: tuple[str, ...]) -> Iterator[str]:
    if isinstance(stated, dict) and isinstance(found, dict):
        for key in {**stated, **found}:
            yield from _differences(claim, stated.get(key), found.get(key), (*where, str(key)))
    elif isinstance(stated, list) and isinstance(found, list) and len(stated) == len(found):
        for index, (a, b) in enumerate(zip(stated, found, strict=True)):
            yield from _differences(claim, a, b, (*where, str(index)))
    elif stated != found:
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (stated, found))
        allowed = max(claim.tolerance * abs(stated), claim.apart.get(where[-1], 0.0)) if numbers else 0.0
        if not numbers or not abs(found - stated) <= allowed:
            yield f"{' '.join(where)}: stated {stated!r}, today {found!r}"


def drawn(every: list[Claim], seed: str, within_s: float | None) -> list[Claim]:
    """A tenth, drawn; within a limit of time as many of all as it holds, by what they are known to take."""
    order = random.Random(seed).sample(every, len(every))
    if within_s is None:
        return order[: -(-len(order) // SHARE)]
    chosen, spent_s = [], 0.0
    for claim in order:
        if spent_s + claim.seconds <= within_s:
            chosen.append(claim)
            spent_s += claim.seconds
    return chosen


def repeat(claim: Claim) -> list[str]:
    """What differs from what is stated, in the measurement that comes nearest; DataError for want of data."""
    wrong: list[str] = []
    for _ in range(claim.tries):
        try:
            found = differences(claim, json.loads(json.dumps(claim.measure())))
        except DataError:
            raise
        except HilError as error:
            found = [str(error)]
        if not found:
            return []
        wrong = min(wrong or found, found, key=len)
    return wrong


def check(chosen: list[Claim], limit_s: float | None) -> int:
    """Repeat claims one after the other; how many are stale."""
    begin_s, outdated, left_out, repeated = time.monotonic(), 0, 0, 0
    for claim in chosen:
        if limit_s is not None and time.monotonic() - begin_s > limit_s:
            break
        try:
            wrong = repeat(claim)
        except DataError as error:
            left_out += 1
            print(f"claims: left out: {claim.name}: {error}"[:200], flush=True)
            continue
        repeated += 1
        outdated += bool(wrong)
        for line in wrong[:5]:
            print(f"claims: STALE: {claim.name}: {line}; repeat: {claim.command}", flush=True)
    print(
        f"claims: {repeated} repeated, {outdated} stale, {left_out} left out for want of data, "
        f"{len(chosen) - repeated - left_out} not begun in time"
    )
    return outdated


def listed(claim: Claim) -> str:
    """A claim in one line: about how long, its name, its command, what it gives, and how far off that may be."""
    allowed = [f"{key} within {far:g}" for key, far in claim.apart.items()]
    allowed += [f"equal in one of {claim.tries}"] if claim.tries > 1 else []
    tolerance = f"within {claim.tolerance:g} of it" if claim.tolerance else ", ".join(allowed) or "equal"
    expected = json.dumps(claim.stated)
    return f"{claim.seconds:7.1f} s  {claim.name}  ({claim.command})  {expected}  [{tolerance}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="", help="of the draw; default: the commit, or with no limit the time")
    parser.add_argument("--within-s", type=float, help="only what this many seconds hold; marks nothing")
    parser.add_argument("--only", help="all claims whose name holds this")
    parser.add_argument("--tenth", action="store_true", help="of --only: a tenth, drawn")
    parser.add_argument("--list", action="store_true", help="print all claims, or those of --only")
    options = parser.parse_args()
    chosen = every = [claim for claim in claims() if (options.only or "") in claim.name]
    if options.list:
        print(*map(listed, every), sep="\n")
        return 0
    if options.only is None or options.tenth:
        moving = _commit() if options.within_s is not None else str(time.time_ns())
        seed = options.seed or moving
        chosen = drawn(every, seed, options.within_s)
        print(f"claims: {len(chosen)} of {len(every)}, seed {seed}")
    outdated = check(chosen, options.within_s)
    if options.within_s is None and options.only is None:
        for page in stale.renew():
            print(f"claims: {page}: says since when its tables are stale; commit it")
    return 1 if outdated else 0


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "none"


if __name__ == "__main__":
    sys.exit(main())
