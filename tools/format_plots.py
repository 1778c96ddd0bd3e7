"""Pictures of what numbers a format has: `python -m tools.format_plots` draws docs/formats/*.svg."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.formats import FORMATS
from tinyhil.formats.format import NamedFormat
from tinyhil.harness.offline.formats import family, fitted, titles, values

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "formats"
MOST_MARKS = 128
MAGNITUDES = 2.0 ** np.arange(-24, 0, 0.25)  # below the largest value: beyond it every format saturates
LINEAR = 2.0**-8  # up to here the axis of values is linear


def draw(name: str) -> Path:
    """docs/formats/NAME.svg."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "tinyhil"
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.svg"
    figure_of(name).savefig(path, metadata={"Date": None})
    return path


def figure_of(name: str) -> Any:
    """The family's values on a line each (formats of up to 8 bits), and significant bits over magnitude (all)."""
    from matplotlib.figure import Figure

    members = [fmt for fmt in FORMATS if family(fmt) == name]
    small = [fmt for fmt in members if fmt.bits <= 8]
    height = max(3.0, 0.25 * max(len(small), len(members) / 2) + 1.2)
    figure = Figure(figsize=(13, height), layout="constrained")
    left, right = figure.subplots(1, 2)
    _marks(left, small or members[:1])
    _precision(right, members)
    figure.suptitle(titles()[name])
    return figure


def _marks(axes: Any, members: list[NamedFormat]) -> None:
    for row, fmt in enumerate(reversed(members)):
        found = values(fitted(fmt)) if fmt.bits <= 16 else np.array([])
        thinned = found[:: max(1, len(found) // MOST_MARKS)]
        axes.plot(thinned, np.full(len(thinned), row), "|", markersize=7)
    axes.set_yticks(range(len(members)), [fmt.name for fmt in reversed(members)], fontsize=7)
    axes.set_xscale("symlog", linthresh=LINEAR)
    ticks = value_ticks(max(abs(axes.get_xlim()[0]), axes.get_xlim()[1]))
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("values (logarithmic beyond 1/256)")


def _precision(axes: Any, members: list[NamedFormat]) -> None:
    for fmt in members:
        real = fitted(fmt)
        codes, _ = real.encode(np.ldexp(MAGNITUDES, -real.exponent))
        error = np.abs(np.ldexp(real.decode(codes), real.exponent) - MAGNITUDES) / MAGNITUDES
        worst = np.maximum.accumulate(np.where(error > 0, error, 2.0**-30)[::-1])[::-1]
        axes.plot(MAGNITUDES, -np.log2(np.minimum(worst, 1.0)), linewidth=0.8, label=fmt.name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("magnitude")
    axes.set_ylabel("right bits")
    axes.set_title("significant bits at this magnitude and above", fontsize=9)
    columns = 1 + len(members) // 20
    axes.legend(fontsize=7, ncols=columns, loc="center left", bbox_to_anchor=(1.01, 0.5))


def value_ticks(largest: float) -> list[float]:
    """Powers of ten on both sides of 0, so few that their numbers have room."""
    last = math.floor(math.log10(largest))
    step = max(1, math.ceil((last + 2) / 3))
    sides = [10.0**exponent for exponent in range(last, -2, -step)]
    return [*(-side for side in sides), 0.0, *reversed(sides)]


def main() -> None:
    for name in titles():
        draw(name)


if __name__ == "__main__":
    main()
