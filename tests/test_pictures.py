"""Pictures: no label on another, axes from the data, no share above 100 %; and a reader that goes loses no file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hil_command import command
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from tinyhil.harness.offline.formats import titles
from tinyhil.harness.offline.memory_map import draw_map, memory_map
from tinyhil.harness.report.search_sections import front_of, points_of
from tinyhil.harness.search.plot import draw_search
from tinyhil.memplan import Buffer, Problem, plan
from tools import format_plots


def texts(figure: Any) -> Iterator[tuple[str, Any]]:
    """Every text that shows, with its place in pixels."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for text in figure.findobj(Text):
        box = text.get_window_extent(renderer)
        level = text.get_rotation() in (0, 90)  # the box of a slanted one is larger than itself
        if text.get_visible() and text.get_text().strip() and box.width and level and _shows(text, figure):
            yield text.get_text(), box


def _shows(text: Any, figure: Any) -> bool:
    """Ticks beyond the ends of an axis are there, but not drawn."""
    for axes in figure.axes:
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in axis.get_major_ticks() + axis.get_minor_ticks():
                if text is tick.label1 or text is tick.label2:
                    return min(limits) <= tick.get_loc() <= max(limits)
    return True


def collisions(figure: Any) -> list[tuple[str, str]]:
    return [(a, b) for (a, one), (b, other) in combinations(list(texts(figure)), 2) if one.overlaps(other)]


@pytest.mark.parametrize("family", ["fixed", "posit", "minifloat", "codebook"])
def test_labels_of_format_plots(family: str) -> None:
    assert family in titles()
    assert collisions(format_plots.figure_of(family)) == []


def test_names_in_memory_maps_lie_within_their_rectangles() -> None:
    buffers = [Buffer(f"a_long_name_of_buffer_{i}", 8 + 40 * (i % 3), i, i + 1 + i % 4) for i in range(24)]
    problem = Problem((*buffers, Buffer("wide", 4000, 0, 30)))
    steps = [f"operation_{i}" for i in range(30)]
    figure = draw_map(memory_map(problem, plan(problem), "map", steps))
    assert "wide" in {name for name, _ in texts(figure)}
    assert collisions(figure) == []


def record(scale: int) -> dict[str, Any]:
    uniform = [
        {"format": f"fixed{bits}", "reason": None, "arena_bytes": scale * bits, "quality": min(1.0, 0.9 + bits / 160)}
        | {"latency_us": 10.0 * bits, "flash_bytes": 9000 + bits}
        for bits in (4, 6, 8, 10, 12, 14, 16, 32)
    ]
    tried = [{"number": n, "arena_bytes": scale * (5 + n), "quality": 0.95 + n / 1000} for n in range(20)]
    return {
        **{"model": "m", "strategy": "lagrange", "arena_bytes": 16 * scale, "latency_us": 160.0, "flash_bytes": 9016},
        **{"arena_limit_bytes": 522_240, "latency_limit_us": None, "flash_limit_bytes": None},
        **{"uniform": uniform, "tried": tried, "search": {"quality": 1.0}},
    }


@pytest.mark.parametrize("scale", [1, 100])
def test_pictures_of_searches(scale: int) -> None:
    """Three panels; a limit far away does not stretch the axis; uniform formats have names."""
    figure = draw_search(record(scale), 1.0)
    assert len(figure.axes) == 3
    for axes in figure.axes:
        assert max(tick for tick in axes.get_yticks()) <= 100
    low, high = figure.axes[0].get_xlim()
    assert low >= 0
    assert high < 40 * scale
    named = {name for name, _ in texts(figure)}
    assert {"fixed4", "fixed8", "answer = fixed16", "limit 522,240"} <= named
    assert collisions(figure) == []


def test_estimates_are_on_no_front_beside_what_was_measured() -> None:
    """A trial's latency is an estimate, its arena is not."""
    tried = [{"number": 7, "arena_bytes": 1, "latency_us": 1.0, "flash_bytes": 1, "quality": 1.0}]
    for field, kind in (("arena_bytes", "front"), ("latency_us", "tried"), ("flash_bytes", "tried")):
        points = points_of({**record(1), "tried": tried}, field)
        assert [point["kind"] for point in points if point["name"] == "trial 7"] == [kind]
        assert ("trial 7" in {point["name"] for point in front_of(points, field)}) == (kind == "front")


@pytest.mark.parametrize("suffix", ["svg"])
def test_a_closed_pipe_loses_no_file(suffix: str, tmp_path: Path) -> None:
    """Who reads the output may go: the picture is written, and that is no failure."""
    read, write = os.pipe()
    os.close(read)
    arguments = command("plan", "--model", "digits_mlp", "--plot", f"map.{suffix}")
    done = subprocess.run(arguments, cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / f"map.{suffix}").stat().st_size > 1000


def test_printing_into_a_closed_pipe_goes_on(tmp_path: Path) -> None:
    program = (
        "import click\n"
        "from tinyhil.harness import cli\n"
        "@cli.hil.command()\n"
        "def many():\n"
        "    for number in range(3):\n"
        "        click.echo('x' * 100_000)\n"
        "        open(f'{number}.txt', 'w').close()\n"
        "cli.main(['many'])\n"
    )
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, stdout=write, check=False)
    os.close(write)
    assert done.returncode == 0
    assert len(list(tmp_path.glob("*.txt"))) == 3
