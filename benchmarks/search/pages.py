"""Results of the width search as docs/measured/search.md shows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers_models import RAM_LIMIT_BYTES
from benchmarks.search.joint import joint_page
from benchmarks.search.large import large_page
from benchmarks.search.weights import weights_page
from tools.measured import line

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "results" / "search"
PAGE = ROOT / "docs" / "measured" / "search.md"
Rows = list[dict[str, Any]]


def write(name: str, measured_at: dict[str, str], rows: Rows) -> None:
    """results/search/`name`.json, a row a line; `measured_at` is `provenance()` from before the measurement."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    text = f'{{\n "provenance": {json.dumps(measured_at)},\n "rows": [\n{lines}\n ]\n}}\n'
    (RESULTS / f"{name}.json").write_text(text)


def read(name: str) -> Rows:
    """The rows of a committed table; those of `committed_with` were measured before records named their commit."""
    found: Rows = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return found


def _by_strategy(rows: Rows) -> str:
    names = list(dict.fromkeys(row["strategy"] for row in rows))
    lines = [f"| Model | RAM limit B | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = {row["strategy"]: row for row in rows if row["model"] == model}
        limit = next(iter(mine.values()))["limit"]
        lines.append(f"| `{model}` | {limit} | {' | '.join(_cell(mine.get(name)) for name in names)} |")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    if "error" in row:
        return "not feasible"
    return f"{row['points_lost']:+.2f} ({row['disagreements']}; {row['evaluations']:.0f})"


def _by_limit(rows: Rows) -> str:
    """A line for each model and limit, a column for each strategy; one that was asked twice has two."""
    asked: dict[tuple[str, int], dict[str, str]] = {}
    for row in rows:
        if "error" not in row:
            line = asked.setdefault((row["model"], row["limit"]), {})
            name = row["strategy"]
            line[f"{name}, more" if name in line else name] = _answer(row)
    names = list(dict.fromkeys(name for line in asked.values() for name in line))
    lines = [f"| Model | RAM limit B | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for (model, limit), line in asked.items():
        lines.append(f"| `{model}` | {limit} | {' | '.join(line.get(name, '-') for name in names)} |")
    return "\n".join(lines)


def _by_model(rows: Rows) -> str:
    """A line for each strategy, a column for each model, of one limit."""
    limits = {row["model"]: row["limit"] for row in rows}
    heads = [f"`{model}`, {limit} B" for model, limit in limits.items()]
    lines = [f"| Strategy | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name in dict.fromkeys(row["strategy"] for row in rows):
        found = {row["model"]: _answer(row) for row in rows if row["strategy"] == name and "error" not in row}
        lines.append(f"| {name} | {' | '.join(found.get(model, '-') for model in limits)} |")
    return "\n".join(lines)


def _answer(row: dict[str, Any]) -> str:
    return f"{row['disagreements']} ({row['points_lost']:+.2f}; {row['ram']}; {row['evaluations']:.1f})"


def _peers_page(rows: Rows) -> str:
    lines = [
        "| Network | RAM limit B | RAM B | Points lost | Differ | Shiftry loses (at MinUn's limit) |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| `{row['model']}` | {row['limit']} | not feasible | | | |")
            continue
        at_limit = row["limit"] == RAM_LIMIT_BYTES[row["model"]]
        loses = f"{row['shiftry_loses']:.2f}" if at_limit else ""
        lines.append(
            f"| `{row['model']}` | {row['limit']} | {row['ram']} | {row['points_lost']:+.2f} "
            f"| {row['disagreements']} of {row['samples']} | {loses} |"
        )
    return "\n".join(lines)


PAGES: dict[str, Callable[[Rows], str]] = {
    "peers": _peers_page,
    "mixed": _by_strategy,
    "tight": _by_limit,
    "strategies": _by_model,
    "truth": _by_limit,
    "weights": weights_page,
    "large": large_page,
    "joint": joint_page,
}


def update_docs() -> None:
    """Write the tables of PAGE anew."""
    PAGE.write_text(with_tables(PAGE.read_text()))


def with_tables(text: str) -> str:
    """The page with each table between its markers, and nothing else changed; ValueError where a marker is missing."""
    for name, page in PAGES.items():
        begin, end = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
        head, _, rest = text.partition(begin)
        _, ended, behind = rest.partition(end)
        if not ended or (text.count(begin.strip()), text.count(end.strip())) != (1, 1):
            raise ValueError(f"{PAGE}: table '{name}' must stand between two markers on lines of their own")
        text = head + begin + page(read(name)) + f"\n\n{line(f'search/{name}')}" + end + behind
    return text
