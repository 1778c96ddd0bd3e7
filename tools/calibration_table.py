"""The part of docs/formats.md on how ranges are cut, from results/calibration.json (benchmarks/calibration.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import hypot, sqrt
from pathlib import Path
from typing import Any

from tinyhil.formats.clipping import CUTS
from tools import formats_page, unsigned_table
from tools.measured import line

Row = Mapping[str, Any]
FILE = Path(__file__).resolve().parent.parent / "results" / "calibration.json"
TEXT = """\
## How ranges are cut

`--calibrate-by` says to how much of what calibration saw a format is fitted (`tinyhil/formats/clipping.py`): all
(`minmax`, the default), all but one value in a thousand (`percentile`), or as much as loses least in the very format,
by squared error (`mse`) or Kullback-Leibler divergence (`kl`). Weights are never cut. `paper-literal` is a formula for
FP8 as printed, which collapses ([papers/fp8.md](papers/fp8.md)).

Decisions that differ from float, % of {samples} test samples each of {models} models of the zoo, calibrated on 500
samples of the training part; `python -m benchmarks.calibration`. {measured}
*Best*: the least, and all within two standard errors of it.
"""
CONCLUSION = """
For classifiers like these:
- `kl` and `mse` save half of the lost decisions where some values reach far out (`bonsai_usps10`, `protonn_usps10`).
- Convolutions and dense layers with a Relu gain nothing that chance does not explain.
- `percentile` is harmless at 8 bits; at 4 it may cost most of ProtoNN's decisions, and `mse` may lose what is small and
  matters (FastGRNN).
- FP8 has range to spare: no cut changes its steps.
"""


def page() -> str:
    """docs/formats.md."""
    cut = section(json.loads(FILE.read_text())["rows"])
    return f"{formats_page.page().rstrip()}\n\n{cut}\n{unsigned_table.section()}"


def section(rows: list[Row]) -> str:
    models = list(dict.fromkeys(row["model"] for row in rows))
    samples = max(row["samples"] for row in rows)
    formats_seen = dict.fromkeys(row["format"] for row in rows)
    by_format = {f"`{fmt}`": [row for row in rows if row["format"] == fmt] for fmt in formats_seen}
    by_model = {f"`{name}`": [row for row in rows if row["model"] == name] for name in models}
    lines = [*_table("Format", by_format), *_table("Model, all formats", {**by_model, "all": rows})]
    return (
        TEXT.format(samples=samples, models=len(models), measured=line("calibration"))
        + "\n".join(lines)
        + "\n"
        + CONCLUSION
    )


def _table(title: str, groups: Mapping[str, list[Row]]) -> list[str]:
    titles = " | ".join(f"`{method}`" for method in CUTS)
    lines = ["", f"| {title} | {titles} | Best |", "|---" * (len(CUTS) + 2) + "|"]
    for name, rows in groups.items():
        shares = {method: _share(rows, method) for method in CUTS}
        least = min(shares.values(), key=lambda found: found[0])
        best = [method for method in CUTS if shares[method][0] - least[0] <= 2 * hypot(shares[method][1], least[1])]
        cells = " | ".join(f"{100 * share:.1f}" for share, _ in shares.values())
        lines.append(f"| {name} | {cells} | {'all' if len(best) == len(CUTS) else ', '.join(best)} |")
    return lines


def _share(rows: list[Row], method: str) -> tuple[float, float]:
    """Of the decisions those that differ, with its standard error."""
    chosen = [row for row in rows if row["method"] == method]
    count = sum(row["samples"] for row in chosen)
    share = sum(row["disagreements"] for row in chosen) / count
    return share, sqrt(share * (1 - share) / count)
