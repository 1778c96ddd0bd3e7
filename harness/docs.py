"""Tables of the documentation that come from records and results: `python -m harness.docs` writes them anew."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinyhil.formats import FORMATS
from tinyhil.frontend.rewrites import CONTROL, REWRITES
from tinyhil.ops import KERNELS, LOOPS, OPERATORS

INNER = frozenset({"BatchMatMul", "GatherAt", "Interpolate", "Normalize", "Repeat", "SquaredDistance", "Truncate"})


def operators_page() -> str:
    """Text of docs/operators.md."""
    lines = ["# Operators", "", "Made from the records in `tinyhil/ops/` by `python -m harness.docs`.", ""]
    lines += ["| ONNX operator | Supported |", "|---|---|"]
    entries = [(operator.name, operator.summary) for operator in OPERATORS]
    entries += [(loop.name, loop.summary) for loop in LOOPS]
    standard = {rewrite.name: rewrite.summary for rewrite in REWRITES} | CONTROL
    inner = [entry for entry in entries if entry[0] in INNER]
    entries = [(name, text) for name, text in entries if name not in INNER and name not in standard]
    entries += standard.items()
    entries.append(("Constant", "folded"))
    lines += [f"| {name} | {summary} |" for name, summary in sorted(entries)]
    lines += ["", "Whatever depends on constants only is folded when the model is read.", ""]
    lines += ["## Inner operators", "", "What some of these become while a model is read; no model names them.", ""]
    lines += ["| Operator | Computes |", "|---|---|"]
    lines += [f"| {name} | {summary} |" for name, summary in sorted(inner)]
    lines += [""]
    lines += ["## Kernels", "", "| Kernel | Computes |", "|---|---|"]
    lines += [f"| `{kernel.name}` | {kernel.summary} |" for kernel in KERNELS]
    lines += ["", "## Number formats", "", "| Format | Values |", "|---|---|"]
    lines += [f"| `{fmt.name}` | {fmt.summary} |" for fmt in FORMATS]
    return "\n".join(lines) + "\n"


ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def readme_page() -> str:
    """README.md with its table of measurements made anew from the newest record of each board and format in git."""
    text = (ROOT / "README.md").read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{_measured()}\n{END}{after}"


def _measured() -> str:
    newest: dict[tuple[int, str], Mapping[str, Any]] = {}
    tracked = subprocess.run(["git", "ls-files", "results"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in sorted(tracked.stdout.split()):
        if name.endswith(".json") and not name.startswith("results/golden/"):
            record = json.loads((ROOT / name).read_text())
            newest[BOARDS.index(record["board"]), record["format"]] = record
    lines = [
        "| Board (emulated) | Format | Bit-exact | Accuracy | Latency | Static + stack | Flash |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_row(newest[key]) for key in sorted(newest))])


BOARDS = ("uno", "due", "h747")


def _row(record: Mapping[str, Any]) -> str:
    latency, memory = record["latency"], record["memory"]
    exact = f"{latency['median']:,.0f} cycles"
    modelled = ""
    if "instructions" in latency:
        exact, modelled = f"{latency['instructions']:,.0f} instructions", " (modelled)"
    cells = [
        f"{record['board']}, {latency['clock_hz'] / 1e6:.0f} MHz",
        record["format"],
        f"{record['equal_samples']} of {record['samples']}",
        f"{100 * record['accuracy']:.2f} %",
        f"{exact}, {latency['median_us'] / 1000:.1f} ms{modelled}",
        f"{memory['static_bytes']:,} + {memory['stack_bytes']:,} B",
        f"{record['flash_bytes']:,} B",
    ]
    return f"| {' | '.join(cells)} |"


PAGES = {"docs/operators.md": operators_page, "README.md": readme_page}


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / name).write_text(page())


if __name__ == "__main__":
    main()
