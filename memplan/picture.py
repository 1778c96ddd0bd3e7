"""A plan as an SVG picture, instants to the right and bytes upwards, by text alone."""

from __future__ import annotations

from html import escape

from tinyhil.memplan.problem import Plan, Problem

WIDE, HIGH, EDGE = 960, 480, 40  # pixels
COLOURS = 12
NAMED_WIDE, NAMED_HIGH, LETTER = 14, 11, 6.2  # pixels that a name needs: in all, in height, for each letter


def as_svg(problem: Problem, plan: Plan, title: str) -> str:
    """Every buffer as a rectangle for each part of its live range; regions lie one above the other. The same plan gives
    the same text."""
    floors, top = {}, 0
    for region in problem.regions:
        floors[region.name] = top
        top += plan.peaks.get(region.name, 0) if len(problem.regions) > 1 else plan.peak_bytes
    start = min((buffer.start for buffer in problem.buffers), default=0)
    end = max((buffer.end for buffer in problem.buffers), default=1)
    across, up = WIDE / (end - start), HIGH / max(1, top)
    lines = []
    for index, buffer in enumerate(problem.buffers):
        low = floors[plan.regions[buffer.name]] + plan.offsets[buffer.name]
        y, high = EDGE + HIGH - (low + buffer.size_bytes) * up, buffer.size_bytes * up
        for first, last in buffer.sections if buffer.size_bytes else ():
            x, wide = EDGE + (first - start) * across, (last - first) * across
            lines += _rectangle(buffer.name, index, (x, y, wide, high))
    caption = f"{title}: {plan.peak_bytes} B, {'optimal' if plan.proven else f'at least {plan.lower_bound_bytes} B'}"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDE + 2 * EDGE}" height="{HIGH + 2 * EDGE}" '
        'font-family="sans-serif" font-size="10" text-anchor="middle">',
        f'<text x="{EDGE + WIDE // 2}" y="{EDGE // 2}" font-size="14">{_text(caption)}</text>',
        *lines,
        f'<text x="{EDGE}" y="{HIGH + EDGE + 16}">{start}</text>',
        f'<text x="{EDGE + WIDE}" y="{HIGH + EDGE + 16}">{end}</text>',
        "</svg>\n",
    ])  # fmt: skip


def _rectangle(name: str, index: int, box: tuple[float, float, float, float]) -> list[str]:
    x, y, wide, high = box
    colour = f"hsl({360 * (index % COLOURS) // COLOURS},60%,75%)"
    drawn = f'<rect x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}" fill="{colour}" stroke="#333"'
    lines = [f'{drawn} stroke-width="0.5"><title>{_text(name)}</title></rect>']
    if wide >= max(NAMED_WIDE, LETTER * len(name)) and high >= NAMED_HIGH:
        lines.append(f'<text x="{x + wide / 2:.2f}" y="{y + high / 2 + 3.5:.2f}">{_text(name)}</text>')
    return lines


def _text(text: str) -> str:
    """XML forbids some characters even escaped."""
    return escape("".join(char if char.isprintable() else "?" for char in text))
