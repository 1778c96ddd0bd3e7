"""The tables and the pictures of docs/reram.md, from what benchmarks/reram measured."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.papers.paper import table as cells_of
from benchmarks.reram.cases import AGENTS, PAPERS_EPISODES, TUNED, Case
from benchmarks.trained_networks import NETWORKS
from tools.measured import line_of

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
BEGIN, END = "<!-- strategies: begin -->", "<!-- strategies: end -->"
WIDTH = 150  # of a line of text
LABELS = {"ppo with mask": "masked"}
ORDER = ("8 bits", "optimum", "grid", "random", "nsga2", "milp", *AGENTS, TUNED)
Rows = Sequence[Mapping[str, Any]]


def write_pages(measured: Mapping[Case, Rows]) -> None:
    measured = {case: rows for case, rows in measured.items() if rows}
    page = DOCS / "reram.md"
    page.write_text(with_tables(page.read_text(), measured))
    folder = DOCS / "reram"
    folder.mkdir(exist_ok=True)
    _plot_costs(measured, folder / "strategies.svg")
    _plot_layers(measured, folder / "layers.svg")


def with_tables(page: str, measured: Mapping[Case, Rows]) -> str:
    """The page with its tables made anew."""
    before, rest = page.split(BEGIN)
    parts = [*(_network(case, rows) for case, rows in measured.items()), thresholds(measured), _measured_at(measured)]
    return before + "\n\n".join((BEGIN, *parts, END)) + rest.split(END)[1]


def _measured_at(measured: Mapping[Case, Rows]) -> str:
    """The commits of all rows."""
    rows = [row for rows in measured.values() for row in rows]
    commits = " ".join(dict.fromkeys(row["commit"] for row in rows))
    trained = ((case.name, found[0]) for case, found in measured.items() if case.trained_here)
    hashes = "".join(f" `{name}`: hash {row[NETWORKS]}." for name, row in trained)
    line = line_of({"commit": commits, "utc": max(row["utc"] for row in rows)})
    return textwrap.fill(line + hashes, WIDTH)


def _network(case: Case, rows: Rows) -> str:
    """What was compared under the first threshold, means over the seeds that were measured; the gap is to the best of
    all configurations, where those are known."""
    rows = [row for row in rows if row["threshold"] in (None, case.thresholds[0])]
    best = [row["accuracy"] for row in rows if row["strategy"] == "optimum"]
    gap = ("Gap, points (worst)",) if best else ()
    titles = (
        "Strategy", "Episodes", "Seeds", "Evaluations", "Searched, %", *gap, "Held out, %", "±", "Cost",
        "GOPS/W", "s",
    )  # fmt: skip
    lines = []
    for (_, strategy, episodes), same in _grouped(rows).items():
        gaps = [100 * (best[0] - row["accuracy"]) for row in same if row["threshold"] is not None] if best else []
        cells = (
            LABELS.get(strategy, strategy),
            episodes,
            len(same),
            f"{mean(row['evaluations'] for row in same):,.0f}",
            f"{100 * mean(row['accuracy'] for row in same):.2f}",
            *((f"{mean(gaps):.2f} ({max(gaps):.2f})" if gaps else None,) if best else ()),
            f"{100 * mean(row['held_out'] for row in same):.2f}",
            f"{100 * stdev(row['held_out'] for row in same):.2f}" if len(same) > 1 else None,
            f"{mean(row['cost'] for row in same):.3f}",
            f"{mean(row['gops_per_watt'] for row in same):,.0f}",
            f"{mean(row['processor_s'] for row in same):.0f}" if "processor_s" in same[0] else None,
        )
        lines.append(cells)
    one = rows[0]
    seen = (
        f"{100 * one['float_accuracy']:.2f} % ({case.searched}), {100 * one['float_held_out']:.2f} % ({case.held_out})"
    )
    return f"`{case.name}` up to {case.thresholds[0]:g}; float {seen}:\n\n{cells_of(titles, lines)}"


def thresholds(measured: Mapping[Case, Rows]) -> str:
    """What the grid and the agents reach under every threshold, held out, and (at which cost)."""
    lines = []
    for case, rows in measured.items():
        whole = next(row for row in rows if row["threshold"] is None)
        for threshold in sorted((*case.thresholds, case.coarse), reverse=True):
            found = {
                name: [row for row in rows if row["threshold"] == threshold and is_of(row, name)]
                for name in ("grid", *AGENTS)
            }
            if any(found.values()):
                cells = (_reached(same) for same in found.values())
                lines.append((case.name, f"{threshold:g}", f"{100 * whole['held_out']:.1f}", *cells))
    heads = ("Network", "Cost at most", "8 bits", "grid", *(LABELS.get(name, name) for name in AGENTS))
    return cells_of(heads, lines)


def is_of(row: Mapping[str, Any], name: str) -> bool:
    """Whether it is an answer of this strategy; an agent's after the paper's episodes."""
    return row["strategy"] == name and (name not in AGENTS or row.get("episodes") == PAPERS_EPISODES)


def _reached(same: Rows) -> str | None:
    if not same:
        return None
    held_out = [100 * row["held_out"] for row in same]
    spread = f" ± {stdev(held_out):.1f}" if len(same) > 1 else ""
    return f"{mean(held_out):.1f}{spread} ({mean(row['cost'] for row in same):.3f})"


def _grouped(rows: Rows) -> dict[tuple[float | None, str, int | None], list[Mapping[str, Any]]]:
    """By threshold, strategy and episodes, in the order of ORDER, an agent's counts one after the other."""
    found: dict[tuple[float | None, str, int | None], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (ORDER.index(row["strategy"]), row.get("episodes", 0))):
        found.setdefault((row["threshold"], row["strategy"], row.get("episodes")), []).append(row)
    return found


def _plot_costs(measured: Mapping[Case, Rows], path: Path) -> None:
    """Cost against accuracy on held-out samples, a mark per run."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, len(measured), figsize=(4.2 * len(measured), 3.6))
    names = list(dict.fromkeys(row["strategy"] for rows in measured.values() for row in rows))
    for axis, (case, rows) in zip(axes if len(measured) > 1 else [axes], measured.items(), strict=True):
        for number, name in enumerate(names):
            same = [row for row in rows if row["strategy"] == name]
            x, y = [row["cost"] for row in same], [100 * row["held_out"] for row in same]
            axis.scatter(x, y, s=22, marker="os^vDP*Xd"[number % 9], color=f"C{number}", label=name)
        axis.set(title=case.name, xlabel="cost, share of 8 bits", ylabel="held-out accuracy, %")
    figure.legend(*axis.get_legend_handles_labels(), loc="lower center", ncols=len(names), fontsize="small")
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    _save(figure, path)


def _plot_layers(measured: Mapping[Case, Rows], path: Path) -> None:
    """Energy and crossbars per layer: 8 bits everywhere, and the most accurate answer found."""
    plt = _pyplot()
    figure, axes = plt.subplots(2, len(measured), figsize=(4.2 * len(measured), 5.2), squeeze=False)
    for column, (case, rows) in enumerate(measured.items()):
        whole = next(row for row in rows if row["threshold"] is None)
        others = [row for row in rows if row["threshold"] == case.thresholds[0] and row["strategy"] in AGENTS]
        shown = {"8 bits": whole}
        if others:
            best = max(others, key=lambda row: row["accuracy"])
            shown[f"{best['strategy']}, cost {best['cost']:.2f}"] = best
        for line, (at, title) in enumerate(((1, "energy, uJ"), (2, "crossbars"))):
            axis = axes[line][column]
            for number, (name, row) in enumerate(shown.items()):
                places = [n + 0.4 * number for n in range(len(row["layers"]))]
                axis.bar(places, [layer[at] for layer in row["layers"]], 0.4, label=name)
            axis.set_xticks(
                range(len(whole["layers"])), [layer[0] for layer in whole["layers"]], rotation=60, fontsize=7
            )
            axis.set(title=f"{case.name}: {title}")
            axis.legend(fontsize="x-small")
    figure.tight_layout()
    _save(figure, path)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tinyhil"
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None})
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
