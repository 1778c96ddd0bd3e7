"""The part of docs/formats.md on how ranges are cut, from results/calibration.json (benchmarks/calibration.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinyhil.clipping import METHODS
from tinyhil.harness.offline import formats

FILE = Path(__file__).resolve().parent.parent / "results" / "calibration.json"
TEXT = """\
## How ranges are cut

A format is fitted to what calibration saw of a value. `--calibrate-by` says to how much of it (`tinyhil/clipping.py`):
all (`minmax`, the default), all but one value in a thousand (`percentile`), or as much as loses least in the very
format: the least squared error (`mse`), or the least Kullback-Leibler divergence from the distribution seen (`kl`).

Decisions that differ from float, % of {samples} test samples each of {models} models of the zoo ({names}), calibrated
on 500 samples of the training part; measured by `python -m benchmarks.calibration`. Weights are never cut.
"""


def page() -> str:
    """docs/formats.md."""
    return f"{formats.page().rstrip()}\n\n{section(json.loads(FILE.read_text())['rows'])}"


def section(rows: list[Mapping[str, Any]]) -> str:
    models = list(dict.fromkeys(row["model"] for row in rows))
    names = ", ".join(f"`{name}`" for name in models)
    samples = max(row["samples"] for row in rows)
    text = TEXT.format(samples=samples, models=len(models), names=names)
    lines = [
        "",
        f"| Format | {' | '.join(f'`{method}`' for method in METHODS)} | Best |",
        "|---" * (len(METHODS) + 2) + "|",
    ]
    wins = dict.fromkeys(METHODS, 0)
    for fmt in dict.fromkeys(row["format"] for row in rows):
        shares = {method: _share(rows, fmt, method) for method in METHODS}
        least = min(shares.values())
        best = [method for method in METHODS if shares[method] <= least + 1e-9]
        for method in best:
            wins[method] += 1
        cells = [f"{100 * shares[method]:.1f}" for method in METHODS]
        lines.append(f"| `{fmt}` | {' | '.join(cells)} | {', '.join(best)} |")
    total = {method: _share(rows, None, method) for method in METHODS}
    lines.append(f"| all | {' | '.join(f'{100 * total[method]:.1f}' for method in METHODS)} | |")
    first = min(METHODS, key=lambda method: total[method])
    formats_in_all = len({row["format"] for row in rows})
    lines += ["", f"On the whole `{first}` is best: no method is better in {wins[first]} of {formats_in_all} formats."]
    return text + "\n".join(lines) + "\n"


def _share(rows: list[Mapping[str, Any]], fmt: str | None, method: str) -> float:
    chosen = [row for row in rows if row["method"] == method and fmt in (None, row["format"])]
    return sum(row["disagreements"] for row in chosen) / max(1, sum(row["samples"] for row in chosen))
