"""Labels of pictures that do not lie on each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

OFFSETS = ((0, 9), (0, -15), (9, 4), (-9, 4), (9, -12), (-9, -12), (0, 22), (0, -28), (14, 18), (-14, 18))  # points


def renderer_of(figure: Any) -> Any:
    """What measures texts, once the layout of `figure` is settled."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    figure.set_layout_engine("none")  # what follows moves nothing
    return canvas.get_renderer()


def keep_fitting(texts: Iterable[tuple[Any, Any]], renderer: Any) -> None:
    """Of texts with the patches they name only those stay that lie within them and on no other text."""
    taken: list[Any] = []
    for text, patch in texts:
        box, room = text.get_window_extent(renderer), patch.get_window_extent(renderer)
        fits = box.width <= room.width and box.height <= room.height
        if not fits or any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)


def name_points(axes: Any, points: Sequence[tuple[float, float, str]], renderer: Any) -> None:
    """A name beside each point, where it meets no other name and stays inside; else none."""
    taken: list[Any] = []
    inside = axes.get_window_extent(renderer)
    for x, y, name in points:
        for dx, dy in OFFSETS:
            side = "left" if dx > 0 else "right" if dx < 0 else "center"
            text = axes.annotate(name, (x, y), (dx, dy), textcoords="offset points", ha=side, fontsize=8)
            box = text.get_window_extent(renderer)
            within = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
            if within and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()
