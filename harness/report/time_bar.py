"""Where the time of a sample goes: its operations side by side, as wide as they are long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyhil.harness.report.html import escape

HUES = 47  # degrees between the colours of two neighbours


def time_bar(
    layers: Sequence[Mapping[str, Any]], ticks: Sequence[float | None], total: float, unit: str, more: str = ""
) -> str:
    """One part per operation in the order of execution, what lies between them of `total` at the end; nothing without a
    profile. `more`: what is said of it besides."""
    known = [(place, layer, tick) for place, (layer, tick) in enumerate(zip(layers, ticks, strict=True)) if tick]
    outside = total - sum(tick for _, _, tick in known)
    if not known or not total:
        return ""
    spans = [
        _span(layer["name"], tick, total, unit, f' data-layer="{place}"', HUES * place % 360)
        for place, layer, tick in known
    ]
    if outside >= 0.5:
        spans.append(_span("between operations", outside, total, unit, " disabled", None))
    slowest = max(known, key=lambda one: one[2])
    about = f"{slowest[1]['name']} takes most: {100 * slowest[2] / total:.0f} % of {total:,.0f} {unit}. "
    about += f"{more}Choose a part to see it below."
    return f'<p class="about">{escape(about)}</p><div class="flame">{"".join(spans)}</div>'


def _span(name: str, tick: float, total: float, unit: str, which: str, hue: int | None) -> str:
    share = tick / total
    said = escape(f"{name} {100 * share:.0f} %: {tick:,.0f} {unit}")
    colour = "" if hue is None else f";--hue:{hue}"
    return (
        f'<button type="button"{which} style="flex-grow:{share:.5f}{colour}" title="{said}" aria-label="{said}">'
        f'<span class="fits">{escape(name)}</span> <span class="fits">{100 * share:.0f} %</span></button>'
    )
