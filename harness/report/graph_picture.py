"""The graph of a model as SVG: operations in layers of the longest path, with formats, cycles and saturations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyhil.harness.report.html import escape

WIDE, HIGH, BETWEEN, BESIDE = 210, 80, 30, 24
MARGIN = 12
LETTERS = 27  # of a line in a box


def draw_graph(layers: Sequence[Mapping[str, Any]], ticks: Sequence[float | None], total: float, unit: str) -> str:
    """One box per operation; `ticks` are those of the layers, None where they were not measured, of `total`."""
    if not layers:
        return ""
    before = _before(layers)
    ranks = _ranks(before)
    places = _places(ranks)
    across = max(place[0] for place in places) + 1
    wide = 2 * MARGIN + across * (WIDE + BESIDE) - BESIDE
    high = 2 * MARGIN + (max(ranks) + 1) * (HIGH + BETWEEN) - BETWEEN
    lines = [_edge(places[i], places[j]) for j, sources in enumerate(before) for i in sources]
    boxes = [
        _box(number, place, layer, tick, total, unit)
        for number, (place, layer, tick) in enumerate(zip(places, layers, ticks, strict=True))
    ]
    return (
        f'<div class="scroll graph" tabindex="0"><svg viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" '
        f'role="group" aria-label="graph of {len(layers)} operations">{"".join(lines)}{"".join(boxes)}</svg></div>'
        '<div class="chosen" aria-live="polite">Choose an operation: its figures stand here.</div>'
    )


def _before(layers: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """For each operation those whose results it reads."""
    writer: dict[str, int] = {}
    found = []
    for index, layer in enumerate(layers):
        sources = {writer[name] for name in layer["inputs"] if name in writer}
        if layer["output"] in writer:  # the next part of the same tensor
            sources.add(writer[layer["output"]])
        found.append(sorted(sources))
        writer[layer["output"]] = index
    return found


def _ranks(before: Sequence[Sequence[int]]) -> list[int]:
    """The longest path to each; what nothing comes before lies right above what reads it."""
    ranks: list[int] = []
    for sources in before:
        ranks.append(1 + max((ranks[i] for i in sources), default=-1))
    for index, sources in enumerate(before):
        readers = [ranks[i] for i, others in enumerate(before) if index in others]
        if not sources and readers:
            ranks[index] = min(readers) - 1
    return ranks


def _places(ranks: Sequence[int]) -> list[tuple[int, int]]:
    """Column and rank of each."""
    used: dict[int, int] = {}
    found = []
    for rank in ranks:
        found.append((used.get(rank, 0), rank))
        used[rank] = used.get(rank, 0) + 1
    return found


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return MARGIN + place[0] * (WIDE + BESIDE), MARGIN + place[1] * (HIGH + BETWEEN)


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    """From below one box to above another; past the boxes between where it skips a rank."""
    (x0, y0), (x1, y1) = _corner(start), _corner(end)
    x0, y0, x1 = x0 + WIDE // 2, y0 + HIGH, x1 + WIDE // 2
    if end[1] - start[1] > 1 and x0 == x1:
        side = x0 + WIDE // 2 + BESIDE // 2
        out, back = y0 + BETWEEN, y1 - BETWEEN
        path = f"M{x0} {y0}C{x0} {out} {side} {y0} {side} {out}V{back}C{side} {y1} {x1} {back} {x1} {y1}"
    else:
        path = f"M{x0} {y0}C{x0} {y0 + BETWEEN // 2} {x1} {y1 - BETWEEN // 2} {x1} {y1}"
    return f'<path class="edge" d="{path}"/>'


def _box(
    number: int, place: tuple[int, int], layer: Mapping[str, Any], tick: float | None, total: float, unit: str
) -> str:
    x, y = _corner(place)
    clipped = layer["saturations"]
    cost = "" if tick is None or not total else f"{tick:,.0f} {unit} · {100 * tick / total:.0f} %"
    format_ = layer["formats"].get(layer["output"], "")
    tooltip = f"{layer['name']}: {layer['kernel']}, {format_}, {cost or 'time not measured'}, {clipped} saturations"
    heat = 0.0 if tick is None or not total else tick / total
    texts = [
        ("name", 18, _cut(layer["name"])),
        ("", 35, _cut(layer["kernel"])),
        ("", 51, _cut(f"→ {format_}")),
        ("", 68, _cut(cost or f"{layer['elements']:,} elements")),
    ]
    lines = " ".join(
        f'<text class="{kind}" x="{x + 10}" y="{y + down}">{escape(text)}</text>' for kind, down, text in texts
    )
    badge = ""
    if clipped:
        badge = f'<text class="clipped" x="{x + WIDE - 8}" y="{y + 18}" text-anchor="end">⚠ {clipped:,}</text>'
    bar = f'<rect class="heat" x="{x}" y="{y + HIGH - 5}" width="{WIDE * heat:.1f}" height="5" rx="2"/>'
    frame = f'<rect class="node" x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6"/>'
    seen = " ".join([*(text for _, _, text in texts), f"⚠ {clipped:,}" if clipped else ""]).strip()
    return (
        f'<g class="op" tabindex="0" role="button" aria-pressed="false" aria-label="{escape(seen)}" '
        f'data-layer="{number}"><title>{escape(tooltip)}</title>{frame}{bar}{lines} {badge}</g>'
    )


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
