"""Charts of a record, as specifications of Vega-Lite. Colours come from the page: light and dark are its business."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"  # a name: nothing is fetched
Spec = dict[str, Any]
MOST_NAMED = 24  # instants that are called by their operations
MOST_TEXT = 20  # classes of a confusion matrix whose counts are written
NARROW_BUFFER, LOW_BUFFER = 0.07, 0.05  # of the map's width and height: smaller rectangles carry no name


def _spec(values: Sequence[Mapping[str, Any]], height: int, **rest: Any) -> Spec:
    size = {"width": "container", "height": height}
    fit = {"autosize": {"type": "fit-x", "contains": "padding"}}
    return {"$schema": SCHEMA, "data": {"values": list(values)}, **size, **fit, **rest}


def memory_map(plan: Mapping[str, Any]) -> Spec | None:
    """Buffers over time: instants across, bytes up, regions one above the other. Pointing at one fades the others."""
    rectangles = map_rectangles(plan)
    if not rectangles:
        return None
    last, top = max(r["end"] for r in rectangles), max(1, plan["peak_bytes"])
    for r in rectangles:
        wide, high = (r["end"] - r["start"]) / last, (r["high"] - r["low"]) / top
        r["label"] = r["name"] if wide >= NARROW_BUFFER and high >= LOW_BUFFER else ""
    x = {"field": "start", "type": "quantitative", "title": "operation", "axis": _instants(plan.get("steps", ()), last)}
    x["scale"] = {"domain": [0, last], "nice": False}
    y = {"field": "low", "type": "quantitative", "title": "bytes", "scale": {"domain": [0, top], "nice": False}}
    over = {
        "name": "pointed",
        "select": {"type": "point", "fields": ["name"], "on": "pointerover", "clear": "pointerout"},
    }
    selected = {"name": "selected", "select": {"type": "point", "fields": ["name"], "on": "click"}}
    tips = [{"field": field} for field in ("name", "bytes", "offset", "region", "from", "until")]
    boxes = {
        "params": [over, selected],
        "mark": {"type": "rect", "stroke": "#8886", "strokeWidth": 1, "cornerRadius": 2, "cursor": "pointer"},
        "encoding": {
            "x": x,
            "x2": {"field": "end"},
            "y": y,
            "y2": {"field": "high"},
            "color": {"field": "name", "legend": None, "scale": {"scheme": "tableau20"}},
            "opacity": {
                "condition": {
                    "test": {"and": [{"param": "pointed"}, {"param": "selected"}]},
                    "value": 0.85,
                },
                "value": 0.2,
            },
            "tooltip": tips,
        },
    }
    return _spec(rectangles, 340, layer=[boxes, _names(), *_peak(plan, top)])


def _instants(steps: Sequence[str], last: int) -> Spec:
    """Below the middle of each instant the operation that runs in it; numbers where they are too many to be read."""
    names = [*map(str, steps[:last]), *["end"] * (last - len(steps))]  # outputs live on behind the last operation
    if not steps or last > MOST_NAMED:
        step = max(1, last // 10)
        return {"values": list(range(0, last + 1, step)), "format": "d"}
    return {
        "values": [instant + 0.5 for instant in range(last)],
        "labelExpr": f"{json.dumps(names)}[floor(datum.value)]",
        "labelAngle": -35,
        "labelLimit": 110,
        "grid": False,
    }


def _names() -> Spec:
    middle_x = {"calculate": "(datum.start + datum.end) / 2", "as": "x"}
    middle_y = {"calculate": "(datum.low + datum.high) / 2", "as": "y"}
    within = {"expr": "max(1, scale('x', datum.end) - scale('x', datum.start) - 4)"}  # a label stays on its buffer
    return {
        "transform": [{"filter": "datum.label"}, middle_x, middle_y],
        "mark": {"type": "text", "fontSize": 11, "color": "black", "tooltip": None, "limit": within},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "y", "type": "quantitative"},
            "text": {"field": "label"},
        },
    }


def _peak(plan: Mapping[str, Any], top: int) -> list[Spec]:
    """The instant that proves the peak, where there is one."""
    witness = plan.get("witness")
    if not plan["proven"] or witness is None:
        return []
    values = {"values": [{"start": witness, "end": witness + 1, "low": 0, "high": top, "what": "full at this instant"}]}
    return [
        {
            "data": values,
            "mark": {"type": "rect", "fillOpacity": 0, "stroke": "#d33", "strokeDash": [4, 3], "tooltip": None},
            "encoding": {
                "x": {"field": "start", "type": "quantitative"},
                "x2": {"field": "end"},
                "y": {"field": "low", "type": "quantitative"},
                "y2": {"field": "high"},
            },
        }
    ]


def map_rectangles(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One rectangle per section of a buffer's live range, later ones in front."""
    floors, floor = {}, 0
    for region, peak in plan.get("peaks", {}).items():
        floors[region] = floor
        floor += peak
    steps = plan.get("steps", ())

    def at(instant: int) -> str:
        return f"{instant} ({steps[instant]})" if 0 <= instant < len(steps) else str(instant)

    found = [
        {
            "name": b["name"],
            "bytes": b["size_bytes"],
            "offset": b["offset"],
            "region": b["region"],
            "from": at(start),
            "until": at(end - 1),
            "start": start,
            "end": end,
            "low": floors.get(b["region"], 0) + b["offset"],
            "high": floors.get(b["region"], 0) + b["offset"] + b["size_bytes"],
        }
        for b in plan.get("buffers", ())
        for start, end in b["sections"]
    ]
    return sorted(found, key=lambda r: (r["start"], r["low"]))


def parts(values: Sequence[Mapping[str, Any]]) -> Spec:
    """Bytes by part, one bar a memory; `values`: memory, part, bytes."""
    order = list(dict.fromkeys(value["part"] for value in values))
    return _spec(
        values,
        90,
        mark={"type": "bar", "cornerRadius": 2},
        encoding={
            "y": {"field": "memory", "type": "nominal", "title": None, "sort": ["flash", "RAM"]},
            "x": {"field": "share", "type": "quantitative", "title": "share of what is used", "axis": {"format": "%"}},
            "color": {
                "field": "part",
                "type": "nominal",
                "scale": {"scheme": "tableau10"},
                "sort": list(dict.fromkeys(order)),
                "legend": {"orient": "bottom", "columns": 3},
            },
            "order": {"field": "rank", "type": "quantitative"},
            "tooltip": [{"field": field} for field in ("memory", "part", "bytes")],
        },
    )


def latencies(ticks: Sequence[int], unit: str) -> Spec | None:
    """How the samples' times are distributed; None where all are the same."""
    if len(set(ticks)) < 2:
        return None
    x = {"bin": {"maxbins": 40, "minstep": 1}, "field": "ticks", "type": "quantitative", "title": f"{unit} per sample"}
    x["axis"] = {"format": ",.0f"}
    return _spec(
        [{"ticks": tick} for tick in ticks],
        160,
        mark={"type": "bar", "tooltip": True},
        encoding={"x": x, "y": {"aggregate": "count", "title": "samples"}},
    )


def class_name(number: int, names: Sequence[str]) -> str:
    """Of a class that has a name, its number and that; else its number."""
    return f"{number} {names[number]}" if 0 <= number < len(names) and names[number] != str(number) else str(number)


def confusion(matrix: Sequence[Sequence[int]], names: Sequence[str] = ()) -> Spec:
    """Labels down, the board's classes across; colours by the share of a label's samples. `names`: of classes."""
    called = [class_name(number, names) for number in range(len(matrix))]
    values = [
        {"label": called[label], "class": called[column], "samples": count, "share": count / max(1, sum(row))}
        for label, row in enumerate(matrix)
        for column, count in enumerate(row)
    ]
    across = {"labelAngle": 0 if called == [str(number) for number in range(len(matrix))] else -45}
    axes = {
        "y": {"field": "label", "type": "ordinal", "title": "label", "sort": called},
        "x": {"field": "class", "type": "ordinal", "title": "class on the board", "axis": across, "sort": called},
    }
    colour = {"field": "share", "type": "quantitative", "scale": {"scheme": "blues", "domain": [0, 1]}, "legend": None}
    tips = [{"field": "label"}, {"field": "class"}, {"field": "samples"}, {"field": "share", "format": ".1%"}]
    layers: list[Spec] = [{"mark": "rect", "encoding": {**axes, "color": colour, "tooltip": tips}}]
    if len(matrix) <= MOST_TEXT:
        ink = {"condition": {"test": "datum.share > 0.5", "value": "white"}, "value": "black"}
        shown = {"text": {"field": "samples"}, "color": ink}
        layers.append({"transform": [{"filter": "datum.samples > 0"}], "mark": "text", "encoding": {**axes, **shown}})
    return _spec(values, max(140, min(520, 26 * len(matrix))), layer=layers)


def pareto(points: Sequence[Mapping[str, Any]], field: str, title: str, quality: str) -> Spec:
    """Quality over a resource: what was tried, the front, uniform formats with their names, the answer.

    `points`: kind (tried, front, uniform, answer), quality in percent, the resource, a name. Axes from the data.
    """
    qualities = [point["quality"] for point in points]
    room = max(0.2, 0.08 * (max(qualities) - min(qualities)))
    domain = [max(0.0, min(qualities) - room), min(100.0, max(qualities) + room)]
    y = {"field": "quality", "type": "quantitative", "title": quality, "scale": {"domain": domain, "nice": False}}
    x = {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False, "padding": 44}}
    kinds = ["tried", "front", "uniform", "answer"]
    colours = ["#999999", "#1f77b4", "#ff7f0e", "#d62728"]
    shapes = ["circle", "circle", "square", "triangle-up"]
    legend = {"orient": "bottom", "title": None}
    marks = {
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.9},
        "encoding": {
            "x": x,
            "y": y,
            "color": {"field": "kind", "scale": {"domain": kinds, "range": colours}, "legend": legend},
            "shape": {"field": "kind", "scale": {"domain": kinds, "range": shapes}, "legend": legend},
            "tooltip": [{"field": "name"}, {"field": "kind"}, {"field": "quality", "format": ".2f"}, {"field": field}],
        },
    }
    line = {
        "transform": [{"filter": "datum.kind === 'front' || datum.kind === 'answer'"}],
        "mark": {"type": "line", "interpolate": "step-after", "color": "#1f77b4", "strokeWidth": 1, "tooltip": None},
        "encoding": {"x": x, "y": y},
    }
    names = {
        "data": {"values": _joined_names(points, field)},
        "mark": {"type": "text", "dy": -11, "fontSize": 11, "tooltip": None},
        "encoding": {"x": x, "y": y, "text": {"field": "name"}},
    }
    return _spec(list(points), 280, layer=[line, marks, names])


def _joined_names(points: Sequence[Mapping[str, Any]], field: str) -> list[dict[str, Any]]:
    """One name for each place where something named lies; answers last, which keep their name where room is short."""
    found: dict[tuple[float, float], list[Mapping[str, Any]]] = {}
    for point in points:
        if point["kind"] in ("uniform", "answer"):
            found.setdefault((point[field], point["quality"]), []).append(point)
    named = [
        {field: x, "quality": y, "name": " = ".join(str(one["name"]) for one in same), "kind": same[-1]["kind"]}
        for (x, y), same in found.items()
    ]
    return sorted(named, key=lambda one: one["kind"] == "answer")
