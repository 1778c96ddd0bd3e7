"""The part of docs/formats.md on what a sign costs, from results/unsigned.json (benchmarks/unsigned.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.measured import line

FILE = Path(__file__).resolve().parent.parent / "results" / "unsigned.json"
TITLE = "## What a sign costs"
TEXT = """
Decisions that differ from float, % of at most {most} test samples, in formats with a sign and without one where nothing
can be negative; weights and inputs have one in both. `python -m benchmarks.unsigned`. {measured}
"""


def section() -> str:
    rows = json.loads(FILE.read_text())["rows"]
    text = TEXT.format(most=max(row["samples"] for row in rows), measured=line("unsigned"))
    return "\n".join([TITLE, text, *_table(rows), ""])


def _table(rows: list[dict[str, Any]]) -> list[str]:
    models = list(dict.fromkeys(row["model"] for row in rows))
    shares = {(row["model"], row["format"]): 100 * row["disagreements"] / row["samples"] for row in rows}
    lines = [f"| Format | {' | '.join(f'`{name}`' for name in models)} |", "|---" * (len(models) + 1) + "|"]
    for fmt in dict.fromkeys(row["format"] for row in rows):
        lines.append(f"| `{fmt}` | {' | '.join(f'{shares[name, fmt]:.1f}' for name in models)} |")
    return lines
