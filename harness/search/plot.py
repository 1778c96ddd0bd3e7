"""What a search found as SVG and PNG: quality over RAM, latency and flash, with fronts and uniform formats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tinyhil.errors import ConfigError
from tinyhil.harness.offline.labels import name_points, renderer_of
from tinyhil.harness.report.search_sections import RESOURCES, front_of, points_of

LOOKS = {  # marker, colour, size, label
    "tried": ("o", "0.7", 5, "tried"),
    "front": ("o", "tab:blue", 6, "Pareto front"),
    "uniform": ("s", "tab:orange", 6, "one format for all"),
    "answer": ("*", "tab:red", 13, "chosen"),
}
LIMITS = {"arena_bytes": "arena_limit_bytes", "latency_us": "latency_limit_us", "flash_bytes": "flash_limit_bytes"}
NEAR = 1.3  # times the largest point: a limit further off is said, not drawn
PANEL = (5.2, 4.2)  # inches


def plot_search(record: Mapping[str, Any], float_accuracy: float | None, path: Path) -> tuple[Path, Path]:
    """Writes `path` with the suffixes .svg and .png; ConfigError without matplotlib."""
    figure = draw_search(record, float_accuracy)
    made = path.with_suffix(".svg"), path.with_suffix(".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    for file in made:
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return made


def draw_search(record: Mapping[str, Any], float_accuracy: float | None) -> Any:
    """A panel per resource that the search knows; `float_accuracy` None: there are no labels.

    ConfigError without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("--plot needs matplotlib: pip install 'tinyhil[plot]'") from None
    panels = [(field, title, points_of(record, field)) for field, title in RESOURCES]
    panels = [(field, title, points) for field, title, points in panels if points]
    figure = Figure(figsize=(PANEL[0] * len(panels), PANEL[1]), layout="constrained")
    figure.suptitle(f"{record['model']}: {record['strategy']}")
    shown = figure.subplots(1, len(panels), squeeze=False)[0]
    what = "agreement with float" if float_accuracy is None else "accuracy"
    for axes, (field, title, points) in zip(shown, panels, strict=True):
        _panel(axes, field, points, 100 * (1.0 if float_accuracy is None else float_accuracy))
        axes.set_xlabel(title)
        limit = record.get(LIMITS[field])
        if limit is not None:
            _limit(axes, limit, max(point[field] for point in points))
    shown[0].set_ylabel(f"{what} on the search's samples, %")
    handles, labels = shown[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    renderer = renderer_of(figure)
    for axes, (field, _, points) in zip(shown, panels, strict=True):
        named = [point for point in reversed(points) if point["kind"] in ("answer", "uniform")]
        name_points(axes, [(point[field], point["quality"], point["name"]) for point in named], renderer)
    return figure


def _panel(axes: Any, field: str, points: list[dict[str, Any]], float_percent: float) -> None:
    """Axes from the data; no share above 100 %."""
    front = front_of(points, field)
    axes.step([p[field] for p in front], [p["quality"] for p in front], where="post", color="tab:blue", lw=1)
    for kind, (marker, colour, size, label) in LOOKS.items():
        chosen = [point for point in points if point["kind"] == kind]
        place = [p[field] for p in chosen], [p["quality"] for p in chosen]
        axes.plot(*place, marker, color=colour, markersize=size, label=label)
    axes.axhline(float_percent, color="0.4", lw=1, ls=":", label="float32")
    values, shares = [p[field] for p in points], [*(p["quality"] for p in points), float_percent]
    room = 0.12 * (max(values) - min(values)) or 0.1 * max(values) or 1.0
    axes.set_xlim(max(0.0, min(values) - room), max(values) + room)
    spread = max(0.4, 0.12 * (max(shares) - min(shares)))
    axes.set_ylim(max(0.0, min(shares) - spread), min(100.0, max(shares)) + spread)
    axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 100])
    axes.set_ylim(max(0.0, min(shares) - spread), min(100.0, max(shares)) + spread)


def _limit(axes: Any, limit: float, largest: float) -> None:
    """A line where it is near the data, else a word."""
    if limit <= NEAR * largest:
        low, high = axes.get_xlim()
        axes.axvline(limit, color="tab:red", ls="--", lw=1)
        axes.set_xlim(low, max(high, 1.03 * limit))
        return
    axes.set_title(f"limit {limit:,.0f}", fontsize=8, loc="right")
