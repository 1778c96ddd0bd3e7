"""The planner beside minimalloc, on the eleven instances that its clone holds: processor seconds of both.

    python -m benchmarks.minimalloc CLONE [--write docs/measured/memplan.md]
    python -m benchmarks.minimalloc CLONE --program build/minimalloc     # built already; else cmake builds it there

minimalloc is asked whether there is a plan within the capacity that an instance's name states; so is ours, and for the
optimum with its proof. Both answers pass our checker.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.marked import replace_between
from benchmarks.planners import table, timed
from tinyhil.memplan import Budget, Plan, Problem, check, lower_bound
from tinyhil.memplan.csv import read_problem
from tinyhil.memplan.placing import make_plan
from tools.measured import provenance

BEGIN, END = "<!-- benchmarks/minimalloc.py begin -->", "<!-- benchmarks/minimalloc.py end -->"
HEAD = ("", "buffers", "minimalloc s to fit", "ours s to fit", "ours, optimum B", "s", "proven")


def built(clone: Path) -> Path:
    """The program, as minimalloc's page says to build it, without its tests."""
    for module in ("abseil-cpp", "googletest"):
        if not (clone / "external" / module / "CMakeLists.txt").is_file():
            sys.exit(f"{clone}: external/{module} is empty; git submodule update --init, or give --program")
    build = clone / "build"
    configure = ["-S", str(clone), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["--build", str(build), "--target", "minimalloc"]):
        subprocess.run(["cmake", *command], check=True, stdout=subprocess.DEVNULL)
    return build / "minimalloc"


def theirs(program: Path, instance: Path, problem: Problem, capacity: int) -> tuple[Plan, float]:
    """Its plan within the capacity, and the processor seconds of its process; CalledProcessError if it finds none."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "plan.csv"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [str(program), f"--capacity={capacity}", f"--input={instance}", f"--output={output}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        offsets = {buffer.name: buffer.offset or 0 for buffer in read_problem(output).buffers}
    plan = make_plan(problem, offsets, "minimalloc", bound=lower_bound(problem))
    check(replace(problem).in_region(capacity), plan)
    return plan, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rows(clone: Path, program: Path) -> Iterator[tuple[object, ...]]:
    files = sorted((clone / "benchmarks" / "challenging").glob("*.csv"))
    if not files:
        sys.exit(f"{clone}: no instances in benchmarks/challenging; give a clone of google/minimalloc")
    for file in files:
        name, capacity, _ = file.name.split(".")
        problem = read_problem(file)
        _, their_s = theirs(program, file, problem, int(capacity))
        fits, fit_s = timed(problem, budget=Budget(enough_bytes=int(capacity)))
        check(problem.in_region(int(capacity)), fits)
        best, best_s = timed(problem)
        proven = "yes" if best.proven else f"gap {best.gap_bytes}"
        yield name, len(problem.buffers), f"{their_s:.3f}", f"{fit_s:.3f}", best.peak_bytes, f"{best_s:.3f}", proven


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--program", type=Path)
    parser.add_argument("--write", type=Path, help="replace the table in this Markdown file")
    options = parser.parse_args()
    measured_at = provenance() if options.write else {}
    text = table(HEAD, list(rows(options.clone, options.program or built(options.clone))))
    print(text)
    if options.write is not None:
        replace_between(options.write, BEGIN, END, text, measured_at)


if __name__ == "__main__":
    main()
