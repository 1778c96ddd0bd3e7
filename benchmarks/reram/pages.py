"""The table and the pictures of docs/reram.md, from what benchmarks/reram measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.reram.cases import AGENTS, FORMER_VALUES, VALUES, Case
from tools.measured import line_of

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
BEGIN, END = "<!-- strategies: begin -->", "<!-- strategies: end -->"
COMMITTED = "committed_with"  # of rows that were measured before commits were noted
Rows = Sequence[Mapping[str, Any]]


def write_pages(measured: Mapping[Case, Rows]) -> None:
    measured = latest = {case: latest_of(rows) for case, rows in measured.items() if rows}
    page = DOCS / "reram.md"
    before, rest = page.read_text().split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(measured)}\n\n{_measured_at(measured)}\n{END}{rest.split(END)[1]}")
    folder = DOCS / "reram"
    folder.mkdir(exist_ok=True)
    _plot_costs(latest, folder / "strategies.svg")
    _plot_layers(latest, folder / "layers.svg")


def _measured_at(measured: Mapping[Case, Rows]) -> str:
    """The commits of all rows, those with and without a sign apart; the first ones know what they came with."""
    rows = [row for rows in measured.values() for row in rows]
    lines = []
    for values in dict.fromkeys(map(values_of, rows)):
        same = [row for row in rows if values_of(row) == values]
        known = {key: " ".join(dict.fromkeys(row[key] for row in same if key in row)) for key in ("commit", COMMITTED)}
        lines.append(f"{values}: " + line_of({**known, "utc": max(row["utc"] for row in same)}))
    return "\n".join(lines)


def table(measured: Mapping[Case, Rows]) -> str:
    """Means over the seeds that were measured; the gap is to the best of all configurations, where those are known."""
    titles = (
        "Network", "Cost at most", "Strategy", "Episodes", "Seeds", "Evaluations",
        "Searched on, %", "Gap, points (worst)", "Held out, %", "± of seeds", "Cost", "us", "uJ", "Crossbars", "GOPS/W",
        "s",
    )  # fmt: skip
    lines = [f"| {' | '.join(titles)} |"]
    lines.append("|---" * len(titles) + "|")
    for case, rows in measured.items():
        for (values, threshold, _, episodes), same in _grouped(rows).items():
            peers = [row for row in rows if values_of(row) == values and row["threshold"] == threshold]
            best = [row["accuracy"] for row in peers if row["strategy"] == "optimum"]
            gaps = [100 * (best[0] - row["accuracy"]) for row in same] if best else []
            cells = [
                case.name,
                "" if threshold is None else f"{threshold:g}",
                _label(same[0]),
                "" if episodes is None else str(episodes),
                str(len(same)),
                f"{mean(row['evaluations'] for row in same):,.0f}",
                f"{100 * mean(row['accuracy'] for row in same):.2f}",
                f"{mean(gaps):.2f} ({max(gaps):.2f})" if gaps else "",
                f"{100 * mean(row['held_out'] for row in same):.2f}",
                f"{100 * stdev(row['held_out'] for row in same):.2f}" if len(same) > 1 else "",
                f"{mean(row['cost'] for row in same):.3f}",
                f"{mean(row['latency_us'] for row in same):,.0f}",
                f"{mean(row['energy_uj'] for row in same):.2f}",
                f"{mean(row['crossbars'] for row in same):.0f}",
                f"{mean(row['gops_per_watt'] for row in same):.0f}",
                f"{mean(row['processor_s'] for row in same):.0f}" if "processor_s" in same[0] else "",
            ]
            lines.append(f"| {' | '.join(cells)} |")
        one = rows[0]
        seen = f"{100 * one['float_accuracy']:.2f} % of {case.searched}"
        floats = f"float: {seen}, {100 * one['float_held_out']:.2f} % of {case.held_out}"
        lines.append(f"| {case.name} | {floats} |" + " |" * (len(titles) - 2))
    return "\n".join(lines)


def values_of(row: Mapping[str, Any]) -> str:
    """What values behind a Relu were held in."""
    return str(row.get("values", FORMER_VALUES))


def latest_of(rows: Rows) -> Rows:
    """Of each strategy the rows as values are held now, if there are any; behind them, of others, those of before."""
    today = [row for row in rows if values_of(row) == VALUES]
    again = {row["strategy"] for row in today}
    return today + [row for row in rows if values_of(row) != VALUES and row["strategy"] not in again]


def _grouped(rows: Rows) -> dict[tuple[str, float | None, str, int | None], list[Mapping[str, Any]]]:
    """By values, threshold, strategy and episodes, in the order measured, an agent's counts one after the other."""

    def kind(row: Mapping[str, Any]) -> tuple[str, float | None, str]:
        return values_of(row), row["threshold"], row["strategy"]

    order = list(dict.fromkeys(map(kind, rows)))
    found: dict[tuple[str, float | None, str, int | None], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (order.index(kind(row)), row.get("episodes", 0))):
        found.setdefault((*kind(row), row.get("episodes")), []).append(row)
    return found


def _label(row: Mapping[str, Any]) -> str:
    return str(row["strategy"]) if values_of(row) == VALUES else f"{row['strategy']} ({FORMER_VALUES})"


def _plot_costs(measured: Mapping[Case, Rows], path: Path) -> None:
    """Cost against accuracy on held-out samples, a mark per run."""
    plt = _pyplot()
    figure, axes = plt.subplots(1, len(measured), figsize=(4.2 * len(measured), 3.6))
    names = list(dict.fromkeys(_label(row) for rows in measured.values() for row in rows))
    for axis, (case, rows) in zip(axes if len(measured) > 1 else [axes], measured.items(), strict=True):
        for number, name in enumerate(names):
            same = [row for row in rows if _label(row) == name]
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
        lowest = min(case.thresholds)
        others = [row for row in rows if row["threshold"] == lowest and row["strategy"] in AGENTS]
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
