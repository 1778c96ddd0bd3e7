"""`memplan`: buffers of a CSV file to a plan, its proof, a picture and a C header; `hil plan` takes models, too."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tinyhil.errors import ConfigError, DoesNotFit, HilError
from tinyhil.memplan import DEFAULT, PLANNERS, Budget, Plan, Problem, as_record, describe, plan
from tinyhil.memplan.c_header import write_header, written
from tinyhil.memplan.csv import read_problem, write_plan
from tinyhil.memplan.picture import as_svg


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0, 2 for what is wrong in what was given, 4 where the plan exceeds `--capacity`."""
    asked = _parser().parse_args(arguments)
    try:
        return _planned(asked)
    except HilError as error:
        print(f"memplan: {error}", file=sys.stderr)
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "memplan",
        description="Give every buffer of a CSV file (id,lower,upper,size[,alignment,gaps,offset]) an offset.",
    )
    parser.add_argument("instance", type=Path, help="CSV file; live ranges are half-open")
    parser.add_argument("--capacity", type=int, metavar="BYTES", help="bytes there are; more needed: exit code 4")
    parser.add_argument("--time", type=float, metavar="SECONDS", help="seconds to search at most")
    parser.add_argument("--planner", default=DEFAULT, choices=[planner.name for planner in PLANNERS])
    parser.add_argument("--out", type=Path, help="the plan as CSV: the instance with an offset for every buffer")
    parser.add_argument("--header", type=Path, help="the plan as a C header")
    parser.add_argument("--plot", type=Path, help="the plan as a picture, .svg")
    parser.add_argument("--json", action="store_true", help="print the plan alone")
    return parser


def _planned(asked: argparse.Namespace) -> int:
    if asked.time is not None and not 0 < asked.time < float("inf"):
        raise ConfigError(f"--time {asked.time:g}: give seconds above 0")
    if asked.plot is not None and asked.plot.suffix != ".svg":
        raise ConfigError(f"--plot {asked.plot}: pictures end in .svg")
    problem = read_problem(asked.instance)
    budget = Budget(seconds=asked.time, enough_bytes=asked.capacity)
    began = time.perf_counter()
    found = plan(problem, asked.planner, budget)
    seconds = time.perf_counter() - began
    if asked.json:
        print(json.dumps(as_record(found, seconds, asked.capacity)))
    else:
        print(f"{asked.instance}: {len(problem.buffers)} buffers\n{describe(found)}\nplanned in {seconds:.3f} s")
    _write(asked, problem, found)
    if asked.capacity is not None and found.peak_bytes > asked.capacity:
        short = found.peak_bytes - asked.capacity
        hint = "no plan fits" if found.lower_bound_bytes > asked.capacity else "give more --time"
        raise DoesNotFit(f"{asked.instance}: {found.peak_bytes} B > {asked.capacity} B, {short} B too much; {hint}")
    return 0


def _write(asked: argparse.Namespace, problem: Problem, found: Plan) -> None:
    if asked.out is not None:
        written(asked.out, write_plan(problem, found))
    if asked.header is not None:
        write_header(asked.header, problem, found)
    if asked.plot is not None:
        written(asked.plot, as_svg(problem, found, asked.instance.name))


if __name__ == "__main__":
    sys.exit(main())
