"""How `hil sweep` scales: measured with one and two processes, simulated up to 64 workers with the measured cells.

`python -m benchmarks.sweep_scaling` writes results/sweep_scaling.json and docs/sweep_scaling.svg. Other programs share
the machine, so the measure is processor time: of a sweep with several processes that of the busiest one, and of what
`hil sweep` itself does beside them.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.measured import provenance

ROOT = Path(__file__).resolve().parent.parent
SWEEP = """
models: [digits_mlp, protonn_usps2, bonsai_usps2, digits_cnn]
boards: [host, uno@emulated]
formats: [fixed8, fixed16]
run: {samples: 1000}
"""
CELLS, SEED = 512, 0  # of the simulated sweep
WORKERS = (1, 2, 4, 8, 16, 32, 64)
ON_BOARDS, BOARDS = 0.5, 8  # share of cells that need one of so many boards, in the second simulation


def measured(jobs: int, folder: Path, text: str = SWEEP) -> dict[str, Any]:
    """One sweep of its own results folder; what is built before is found in the cache. Processor time of a process
    counts from its start, that of `hil sweep` itself is what is left."""
    (folder / "sweep.yaml").write_text(text)
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tinyhil.harness.cli", "sweep", "sweep.yaml", "--json", "--jobs", str(jobs)]
    done = subprocess.run(
        [*command, "--results", f"with-{jobs}"], cwd=folder, capture_output=True, text=True, check=True
    )
    wall_s, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cells = json.loads(done.stdout)["cells"]
    busy: dict[int, float] = defaultdict(float)
    for cell in cells:
        process, used_by_it = cell["process"]
        busy[process] = max(busy[process], used_by_it)
    return {
        "jobs": jobs,
        "cells": len(cells),
        "wall_s": round(wall_s, 1),
        "load": round(os.getloadavg()[0], 1),
        "processor_s": round(used_s, 2),
        "busiest_s": round(max(busy.values()), 2),
        "beside_s": round(used_s - sum(busy.values()), 2),
        "cell_s": [cell["processor_s"] for cell in cells],
    }


def simulated(times: Sequence[float], workers: int, boards: int | None, needs: Sequence[bool]) -> float:
    """Seconds until the last cell ends: in order, each to the first worker that may carry it out."""
    free = [0.0] * workers
    free_boards = [0.0] * (workers if boards is None else min(boards, workers))
    for seconds, needed in zip(times, needs, strict=True):
        if needed and boards is not None:  # on a worker with a board
            at = min(range(len(free_boards)), key=lambda n: max(free_boards[n], free[n]))
            free[at] = free_boards[at] = max(free_boards[at], free[at]) + seconds
        else:
            at = min(range(workers), key=lambda n: free[n])
            free[at] += seconds
    return max(free)


def plot(record: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tinyhil"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    axes.plot(WORKERS, WORKERS, color="0.8", label="ideal")
    for name, marker in (("emulated", "o"), ("boards", "s")):
        speedups = [record["simulated"][name][str(n)] for n in WORKERS]
        about = "cells for any worker" if name == "emulated" else f"half of them on {BOARDS} boards"
        axes.plot(WORKERS, speedups, marker=marker, label=f"simulated, {about}")
    axes.plot([1, 2], [1, record["speedup"]], "k*", markersize=12, label="measured, processor time")
    axes.set(
        xscale="log", yscale="log", xlabel="workers", ylabel="times as fast as one", xticks=WORKERS, yticks=WORKERS
    )
    axes.set_xticklabels(map(str, WORKERS))
    axes.set_yticklabels(map(str, WORKERS))
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")


def main() -> None:
    measured_at = provenance()
    with tempfile.TemporaryDirectory() as folder:
        measured(2, Path(folder), SWEEP.replace("1000", "1"))  # builds what is not built
        with tempfile.TemporaryDirectory() as fresh:
            runs = [measured(jobs, Path(fresh)) for jobs in (1, 2)]
    total = [run["busiest_s"] + run["beside_s"] for run in runs]
    draw = random.Random(SEED)
    times = [draw.choice(runs[0]["cell_s"]) for _ in range(CELLS)]
    needs = [draw.random() < ON_BOARDS for _ in range(CELLS)]
    found = {
        name: {str(n): round(sum(times) / simulated(times, n, boards, needs), 2) for n in WORKERS}
        for name, boards in (("emulated", None), ("boards", BOARDS))
    }
    record = {"runs": runs, "speedup": round(total[0] / total[1], 2), "simulated_cells": CELLS, "simulated": found}
    (ROOT / "results" / "sweep_scaling.json").write_text(
        json.dumps({"provenance": measured_at, **record}, indent=1) + "\n"
    )
    plot(record, ROOT / "docs" / "sweep_scaling.svg")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
