"""Pictures of what numbers a format has: `python -m tools.format_plots` draws docs/formats/*.svg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tinyhil.formats import FORMATS
from tinyhil.formats.format import NamedFormat
from tinyhil.harness.offline.formats import family, fitted, titles, values

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "formats"
MOST_MARKS = 128
MAGNITUDES = 2.0 ** np.arange(-24, 1, 0.25)


def draw(name: str) -> Path:
    """The family's values on a line each (formats of up to 8 bits), and significant bits over magnitude (all)."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "tinyhil"
    from matplotlib import pyplot

    members = [fmt for fmt in FORMATS if family(fmt) == name]
    small = [fmt for fmt in members if fmt.bits <= 8]
    height = max(3.0, 0.25 * max(len(small), len(members) / 2) + 1.2)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, height))
    _marks(left, small or members[:1])
    _precision(right, members)
    figure.suptitle(titles()[name])
    figure.tight_layout()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def _marks(axes: Any, members: list[NamedFormat]) -> None:
    for row, fmt in enumerate(reversed(members)):
        found = values(fitted(fmt)) if fmt.bits <= 16 else np.array([])
        thinned = found[:: max(1, len(found) // MOST_MARKS)]
        axes.plot(thinned, np.full(len(thinned), row), "|", markersize=7)
    axes.set_yticks(range(len(members)), [fmt.name for fmt in reversed(members)], fontsize=7)
    axes.set_xscale("symlog", linthresh=2.0**-8)
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
    axes.set_ylabel("right bits at this magnitude and above")
    if len(members) <= 24:
        axes.legend(fontsize=6, ncol=2)


def main() -> None:
    for name in titles():
        draw(name)


if __name__ == "__main__":
    main()
