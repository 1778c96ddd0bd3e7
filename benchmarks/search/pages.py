"""Results of the width search as docs/measured/search.md and docs/search/ show them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.peers_models import RAM_LIMIT_BYTES
from benchmarks.search.figures import EIGHT_BITS, SEARCHED, UNIFORM
from benchmarks.search.paper import ABSENT

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "results" / "search"
PICTURES = ROOT / "docs" / "search"
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
    spent = f"{row['evaluations']:.0f}; {row['seconds']:.0f}"
    return f"{row['points_lost']:+.2f} ({row['ram']} B; {row['disagreements']}; {spent})"


def _plain(rows: Rows) -> str:
    lines = [
        "| Model | RAM limit B | Strategy | Evaluations | s | RAM B | Differ: search | Held out | Points lost |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" not in row:
            lines.append(
                f"| `{row['model']}` | {row['limit']} | {row['strategy']} | {row['evaluations']:.1f} "
                f"| {row['seconds']:.0f} | {row['ram']} | {row['searched']} of {row['search_samples']} "
                f"| {row['disagreements']} of {row['samples']} | {row['points_lost']:+.2f} |"
            )
    return "\n".join(lines)


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


def _paper_page(rows: Rows) -> str:
    lines = [
        "| Network | Formats | Float | RAM limit B | RAM B | Points lost | Differ |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        start = f"| `{row['model']}` | {row['offer'].split(',')[0].rstrip('8')} 8/16 "
        if "error" in row:
            lines.append(f"{start}| | {row['limit']} | not feasible | | |")
            continue
        lines.append(
            f"{start}| {row['float_percent']:.2f} % | {row['limit']} | {row['ram']} | {row['points_lost']:+.2f} "
            f"| {row['disagreements']} of {row['samples']} |"
        )
    return "\n".join([*lines, *(f"| {name} | | {why} | | | | |" for name, why in ABSENT.items())])


def _figure5_page(rows: Rows) -> str:
    lines = [f"| Model | {' | '.join(EIGHT_BITS)} |", "|---|" + "---|" * len(EIGHT_BITS)]
    for model, mine in _by_model(rows):
        cells = [f"{row['points_lost']:+.2f}" if "points_lost" in row else "-" for row in _ordered(mine, EIGHT_BITS)]
        lines.append(f"| `{model}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _figure6_page(rows: Rows) -> str:
    columns = (*UNIFORM, *SEARCHED)
    heads = [*(f"{name} B" for name in UNIFORM), *(f"{name} 8/16: B (points; of float32)" for name in SEARCHED)]
    lines = [f"| Model | {' | '.join(heads)} |", "|---|" + "---|" * len(columns)]
    for model, mine in _by_model(rows):
        found = _ordered(mine, columns)
        cells = [str(row["ram"]) for row in found[: len(UNIFORM)]]
        for row in found[len(UNIFORM) :]:
            share = "-" if row.get("ram") is None else f"1/{found[0]['ram'] / row['ram']:.1f}"
            cells.append("-" if row.get("ram") is None else f"{row['ram']} ({row['points_lost']:+.2f}; {share})")
        lines.append(f"| `{model}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _by_model(rows: Rows) -> list[tuple[str, dict[str, dict[str, Any]]]]:
    """Rows of each model by format, models in order of appearance."""
    names = dict.fromkeys(row["model"] for row in rows)
    return [(name, {row["format"]: row for row in rows if row["model"] == name}) for name in names]


def _ordered(mine: dict[str, dict[str, Any]], names: Iterable[str]) -> Rows:
    return [mine.get(name, {}) for name in names]


PAGES: dict[str, Callable[[Rows], str]] = {
    "peers": _peers_page,
    "paper": _paper_page,
    "table1": _by_strategy,
    "posit": _by_strategy,
    "mixed": _by_strategy,
    "tight": _plain,
    "strategies": _plain,
    "truth": _plain,
    "figure5": _figure5_page,
    "figure6": _figure6_page,
}


def update_docs() -> None:
    """Write the tables of PAGE anew."""
    PAGE.write_text(with_tables(PAGE.read_text()))


def with_tables(text: str) -> str:
    """The page with each table between its markers, and nothing else changed; ValueError where a marker is missing."""
    for name, page in PAGES.items():
        begin, end = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
        if (text.count(begin), text.count(end)) != (1, 1) or text.index(end) < text.index(begin):
            raise ValueError(f"{PAGE}: the table '{name}' must stand between one pair of markers, begin and end")
        head, _, rest = text.partition(begin)
        text = head + begin + page(read(name)) + end + rest.partition(end)[2]
    return text


def draw_figures() -> None:
    """docs/search/figure5.svg and figure6.svg: bars per model and format."""
    _bars("figure5", EIGHT_BITS, "points_lost", "points of accuracy lost, 8 bits for everything", "symlog")
    _bars("figure6", (*UNIFORM, *SEARCHED), "ram", "arena, bytes; searched: at most 0.2 points lost", "log")


def _bars(name: str, columns: tuple[str, ...], key: str, label: str, scale: str) -> None:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "tinyhil"
    models = _by_model(read(name))
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    width = 0.85 / len(columns)
    for index, column in enumerate(columns):
        at = [place + (index - len(columns) / 2 + 0.5) * width for place in range(len(models))]
        heights = [mine.get(column, {}).get(key) or 0.0 for _, mine in models]
        axes.bar(at, heights, width, label=column)
    axes.set_xticks(range(len(models)), [model for model, _ in models], rotation=30, ha="right", fontsize=7)
    axes.set_yscale(scale, **({"linthresh": 1.0} if scale == "symlog" else {}))
    axes.set_ylabel(label)
    axes.legend(fontsize=7, ncol=4)
    PICTURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURES / f"{name}.svg", metadata={"Date": None})
