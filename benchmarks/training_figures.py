"""Figures of docs/training.md, of the rows that its tables show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import Row

Rows = Sequence[Row]
SIDE = 3.4  # inches
PICTURES = "CIFAR-10"


def draw_limited(tables: Mapping[str, Rows]) -> Any:
    """Training in 16 bits: accuracy by the bits of the fraction; the first row of a table is float's."""
    titles = {"arithmetic": "MNIST", "arithmetic_cifar": PICTURES}
    figure, panels = _panels([titles[name] for name in titles if name in tables], "bits of the fraction, of 16")
    for axes, rows in zip(panels, (tables[name] for name in titles if name in tables), strict=True):
        axes.axhline(100 * rows[0]["nearest"], color="0.6", linestyle="--", linewidth=1, label="float32")
        ours = [row for row in rows[1:] if " " not in row["in"]]
        fractions = [int(row["in"].rpartition(".")[2]) for row in ours]
        for way, marker in (("stochastic", "o"), ("nearest", "s")):
            axes.plot(fractions, [100 * row[way] for row in ours], marker=marker, label=way)
        axes.set_xticks(fractions)
    panels[0].legend()
    return figure


def draw_few_bits(tables: Mapping[str, Rows]) -> Any:
    """Networks of few bits: accuracy by width; the first row of a table is the float network."""
    titles = {"qnn": "MNIST", "qnn_cifar": PICTURES}
    figure, panels = _panels([titles[name] for name in titles if name in tables], "bits of weights and values")
    for axes, rows in zip(panels, (tables[name] for name in titles if name in tables), strict=True):
        axes.axhline(100 * rows[0]["trained"], color="0.6", linestyle="--", linewidth=1, label="float")
        ways = ("trained", "learned scales", "from scratch", "post-training")
        for way, marker in zip(ways, "o^xs", strict=True):
            points = [(int(row["bits"]), 100 * row[way]) for row in rows[1:] if row.get(way) is not None]
            if points:
                axes.plot(*zip(*points, strict=True), marker=marker, label=way)
        axes.set_xscale("log", base=2)
        widths = [int(row["bits"]) for row in rows[1:]]
        axes.set_xticks(widths, [str(width) for width in widths])
    panels[0].legend()
    return figure


def _panels(titles: Sequence[str], below: str) -> tuple[Any, Any]:
    """Side by side, each with a scale of its own."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIDE * 1.3 * len(titles), SIDE), layout="constrained")
    panels = figure.subplots(1, len(titles), squeeze=False)[0]
    for axes, title in zip(panels, titles, strict=True):
        axes.set(title=title, xlabel=below)
    panels[0].set_ylabel("accuracy of test samples, %")
    return figure, panels


FIGURES = {"limited": draw_limited, "few_bits": draw_few_bits}
