"""Accuracy against RAM of everything a search tried in full, with the Pareto front, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tinyhil.errors import ConfigError
from tinyhil.search.trial import Trial

if TYPE_CHECKING:
    from tinyhil.harness.search.session import SearchOutcome


def pareto(trials: Iterable[Trial]) -> list[Trial]:
    """Trials that no other beats in RAM and quality, by increasing RAM."""
    front: list[Trial] = []
    for trial in sorted(trials, key=lambda trial: (trial.ram_bytes, -trial.quality, trial.number)):
        if not front or trial.quality > front[-1].quality:
            front.append(trial)
    return front


def plot_search(outcome: SearchOutcome, path: Path) -> tuple[Path, Path]:
    """Writes `path` with the suffixes .svg and .png; ConfigError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigError("--plot needs matplotlib: pip install 'tinyhil[plot]'") from None
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    trials = [trial for trial in outcome.found.trials if trial.kind == "full"]
    front, best = pareto(trials), outcome.found.best
    axes.plot([t.ram_bytes for t in trials], [100 * t.quality for t in trials], "o", color="0.7", label="tried")
    axes.step([t.ram_bytes for t in front], [100 * t.quality for t in front], "o-", where="post", label="Pareto front")
    axes.plot([best.ram_bytes], [100 * best.quality], "*", markersize=14, color="tab:red", label="chosen")
    if outcome.request.board is None or outcome.request.arena is not None:  # else the limit is not that of the arena
        axes.axvline(outcome.record["ram_limit_bytes"], color="tab:red", linestyle="--", linewidth=1, label="RAM limit")
    labelled = outcome.search_float_accuracy
    axes.axhline(100 * (1.0 if labelled is None else labelled), color="0.4", linewidth=1, label="float32")
    axes.set_xlabel("arena, bytes")
    axes.set_ylabel(f"{'agreement with float' if labelled is None else 'accuracy'} on the search's samples, %")
    axes.set_title(f"{outcome.request.model}: {outcome.record['strategy']}")
    axes.legend(loc="lower right")
    made = path.with_suffix(".svg"), path.with_suffix(".png")
    path.parent.mkdir(parents=True, exist_ok=True)
    for file in made:
        figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return made
