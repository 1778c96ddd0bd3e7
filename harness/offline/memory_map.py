"""The memory map of a plan, in the terminal and as a picture: time across, bytes up, one rectangle per tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyhil.errors import ConfigError
from tinyhil.harness.offline.labels import keep_fitting, renderer_of
from tinyhil.harness.settings.text import in_short
from tinyhil.memplan import Plan, Problem

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PICTURES = (".svg", ".png")
MOST_ROWS, WANTED_ROWS = 24, 12
WIDEST_INSTANT = 14  # columns
GUTTER = 9  # columns of the byte scale
LEAST_COLUMNS = 12
COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")
ASCII = str.maketrans("┌┐│─└▲", "++|-+^")


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A buffer during one section of its live range: half-open in instants and bytes."""

    buffer: int
    name: str
    start: int
    end: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """What is drawn. `steps` names the operation of each instant, if there are any."""

    title: str
    rectangles: tuple[Rectangle, ...]
    start: int
    end: int
    peak_bytes: int
    peak_instant: int
    steps: tuple[str, ...] = ()

    @property
    def peak_text(self) -> str:
        """The caption: bytes, instant and operation of the peak."""
        known = 0 <= self.peak_instant < len(self.steps)
        step = f" ({in_short(self.steps[self.peak_instant])})" if known else ""
        return f"peak {self.peak_bytes} B at instant {self.peak_instant}{step}"


def memory_map(problem: Problem, plan: Plan, title: str, steps: Sequence[str] = ()) -> MemoryMap:
    """The rectangles of a plan, later ones in front: an operation in place covers its operand. Regions lie one above
    the other in the problem's order."""
    found = []
    floors, top = {}, 0
    for region in problem.regions:
        floors[region.name] = top
        top += plan.peaks.get(region.name, 0)
    for index, buffer in enumerate(problem.buffers):
        low = floors[plan.regions[buffer.name]] + plan.offsets[buffer.name]
        for start, end in buffer.sections:
            if buffer.size_bytes:
                found.append(Rectangle(index, buffer.name, start, end, low, low + buffer.size_bytes))
    found.sort(key=lambda r: (r.start, r.low))
    start = min((r.start for r in found), default=0)
    end = max((r.end for r in found), default=1)
    highest = [r.start for r in found if r.high == plan.peak_bytes]
    witness = plan.witness if plan.proven and plan.witness is not None else min(highest, default=start)
    return MemoryMap(title, tuple(found), start, end, plan.peak_bytes, witness, tuple(steps))


# ---- terminal


@dataclass(frozen=True, slots=True)
class _Grid:
    """Characters and the buffer each belongs to, row 0 at the bottom."""

    chars: list[list[str]]
    owners: list[list[int | None]]


def print_map(drawn: MemoryMap, console: Console) -> None:
    """Fits the width of the console; colours only where it has them."""
    from rich.text import Text

    if not drawn.rectangles:
        return
    plain = not console.encoding.startswith("utf")
    for line in _lines(drawn, console.width):
        if plain:
            text = line.plain.translate(ASCII).encode("ascii", "replace").decode()
            line = Text(text, spans=line.spans)
        console.print(line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def _lines(drawn: MemoryMap, width: int) -> list[Text]:
    from rich.text import Text

    room = max(LEAST_COLUMNS, width - GUTTER - 1)
    instants = drawn.end - drawn.start
    columns = instants * min(WIDEST_INSTANT, room // instants) if instants <= room else room
    rows = _rows(drawn)
    grid = _draw(drawn, rows, columns)
    lines = []
    for row in range(rows - 1, -1, -1):
        above = rows - 1 - row
        label = f"{_bytes_at(drawn, row + 1, rows)}" if above % 4 == 0 else ""
        line = Text(f"{label:>{GUTTER - 2}} │")
        for char, owner in zip(grid.chars[row], grid.owners[row], strict=True):
            line.append(char, None if owner is None else COLOURS[owner % len(COLOURS)])
        line.rstrip()
        lines.append(line)
    lines.append(Text(f"{0:>{GUTTER - 2}} └{'─' * columns}"))
    return [*lines, *_time_axis(drawn, columns, width)]


def _rows(drawn: MemoryMap) -> int:
    """As few rows as show every border, if that is not too many."""
    unit = math.gcd(*(edge for r in drawn.rectangles for edge in (r.low, r.high)))
    units = drawn.peak_bytes // unit
    return units * max(1, WANTED_ROWS // units) if units <= MOST_ROWS else MOST_ROWS


def _bytes_at(drawn: MemoryMap, row: int, rows: int) -> int:
    return drawn.peak_bytes * row // rows


def _draw(drawn: MemoryMap, rows: int, columns: int) -> _Grid:
    grid = _Grid([[" "] * columns for _ in range(rows)], [[None] * columns for _ in range(rows)])
    for r in drawn.rectangles:
        left, right = (_column(drawn, instant, columns) for instant in (r.start, r.end))
        left = min(left, columns - 1)
        right = max(left + 1, right)
        low, high = (round(edge * rows / drawn.peak_bytes) for edge in (r.low, r.high))
        low = min(low, rows - 1)
        high = max(low + 1, high)
        top = _top(r.name, right - left)
        side = "│" if right - left == 1 else "│" + " " * (right - left - 2) + "│"
        for row in range(low, high):
            grid.chars[row][left:right] = top if row == high - 1 else side
            grid.owners[row][left:right] = [r.buffer] * (right - left)
    return grid


def _column(drawn: MemoryMap, instant: int, columns: int) -> int:
    return round((instant - drawn.start) * columns / (drawn.end - drawn.start))


def _top(name: str, width: int) -> str:
    """The upper border with as much of the name as there is room for."""
    if width < 3:
        return "┌┐"[:width]
    shown = _one_cell_each(name)[: width - 2]
    return f"┌{shown:─<{width - 2}}┐"


def _one_cell_each(name: str) -> str:
    from rich.cells import cell_len

    return "".join(char if char.isprintable() and cell_len(char) == 1 else "?" for char in name)


def _time_axis(drawn: MemoryMap, columns: int, width: int) -> list[Text]:
    from rich.text import Text

    widest = len(str(drawn.end)) + 2
    every = max(1, math.ceil((drawn.end - drawn.start) * widest / columns))
    marks = [" "] * (columns + widest)
    for instant in range(drawn.start, drawn.end, every):
        at = _column(drawn, instant, columns)
        marks[at : at + len(str(instant))] = str(instant)
    text = _one_cell_each(drawn.peak_text)
    at = GUTTER + _column(drawn, drawn.peak_instant, columns)
    beside = f"▲ {text}" if at + 2 + len(text) < width else "▲"
    lines = [Text(" " * GUTTER + "".join(marks).rstrip()), Text(" " * at + beside, style="bold")]
    if beside == "▲":
        start = max(0, min(at - len(text), width - 1 - len(text)))
        lines[1] = Text(" " * start + f"{text} ▲" if at > len(text) + 1 else " " * at + "▲", style="bold")
        if at <= len(text) + 1:
            lines.append(Text(text, style="bold"))
    return lines


# ---- picture


def check_picture(path: Path) -> None:
    """ConfigError, before any work is done, if no picture can be written there."""
    if path.suffix.lower() not in PICTURES:
        raise ConfigError(f"--plot {path}: pictures end in {' or '.join(PICTURES)}")
    if not path.parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no folder {path.parent}")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise ConfigError("--plot needs matplotlib; type: pip install 'tinyhil[plot]'") from None


def save_map(drawn: MemoryMap, path: Path) -> None:
    """Write the map as SVG or PNG; the same map gives the same SVG."""
    check_picture(path)
    import matplotlib as mpl

    suffix = path.suffix.lower()
    with mpl.rc_context({"svg.hashsalt": "tinyhil", "svg.fonttype": "none"}):
        figure = draw_map(drawn)
        figure.savefig(path, format=suffix[1:], dpi=150, metadata={"Date": None} if suffix == ".svg" else None)


def draw_map(drawn: MemoryMap) -> Any:
    """The map as a figure of matplotlib; names stand where they fit into their rectangles."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    instants = drawn.end - drawn.start
    figure = Figure(figsize=(min(24.0, max(8.0, 0.6 * instants)), 6.0), layout="constrained")
    axes = figure.add_subplot()
    colours = mpl.colormaps["tab20"]
    named = [_add(axes, r, colours(r.buffer % 20)) for r in drawn.rectangles]
    axes.axvspan(drawn.peak_instant, drawn.peak_instant + 1, color="black", alpha=0.12, lw=0, zorder=3)
    axes.set_xlim(drawn.start, drawn.end)
    axes.set_ylim(0, max(1.0, drawn.peak_bytes * 1.12))
    axes.axhline(drawn.peak_bytes, color="black", lw=1, ls="--", zorder=3)
    side = "left" if drawn.peak_instant < drawn.start + instants / 2 else "right"
    axes.text(drawn.peak_instant + 0.5, drawn.peak_bytes * 1.03, _literal(drawn.peak_text), ha=side, va="bottom")
    axes.set_title(_literal(drawn.title))
    axes.set_xlabel("instant")
    axes.set_ylabel("bytes")
    if drawn.steps and instants <= 40:
        axes.set_xlabel("operation")
        shown = drawn.steps[drawn.start : drawn.end]
        ticks = [drawn.start + index + 0.5 for index in range(len(shown))]
        axes.set_xticks(ticks, [_literal(step) for step in shown], rotation=60, ha="right")
    keep_fitting(named, renderer_of(figure))
    return figure


def _add(axes: Any, r: Rectangle, colour: Any) -> tuple[Any, Any]:
    """The name of a rectangle, and the rectangle."""
    from matplotlib.patches import Rectangle as Patch

    wide, high = r.end - r.start, r.high - r.low
    patch = Patch((r.start, r.low), wide, high, facecolor=colour, edgecolor="black", lw=0.6, alpha=0.8)
    axes.add_patch(patch)
    middle = (r.start + wide / 2, r.low + high / 2)
    return axes.text(*middle, _literal(r.name), ha="center", va="center", fontsize=8, clip_on=True), patch


def _literal(text: str) -> str:
    """Names are no formulas, and hold no characters that XML forbids."""
    return "".join(char if char.isprintable() else "?" for char in text).replace("$", r"\$")
