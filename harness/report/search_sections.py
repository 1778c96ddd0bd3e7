"""What the report says of a search: quality over each resource, with the front and the uniform formats."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tinyhil.harness.records.search_schema import search_title, shown_name
from tinyhil.harness.report import charts
from tinyhil.harness.report.html import Cell, chart, escape, number, pairs, section, table
from tinyhil.harness.report.sentence import search_sentence

RESOURCES = (
    ("arena_bytes", "arena, bytes"),
    ("latency_us", "latency of the worst sample, µs"),
    ("flash_bytes", "flash, bytes"),
)


def search_article(record: Mapping[str, Any], source: str, anchor: str) -> str:
    """The whole of one search's record."""
    title = search_title(record, source)
    effort = (
        f"{record['evaluations']:g} evaluations in {record['seconds']:.1f} s; {record['samples']} held-out samples."
    )
    panels = []
    for field, label in RESOURCES:
        points = points_of(record, field)
        if len({point[field] for point in points}) > 1:
            label_y = "quality on the search's samples, %"
            panels.append(f"<div>{chart(charts.pareto(points, field, label, label_y), label)}</div>")
    about = "Quality: accuracy where there are labels, else agreement with the float model."
    return (
        f'<article id="{anchor}"><h2>{escape(title)}</h2><p class="verdict">{escape(search_sentence(record))}</p>'
        f'<p class="fidelity">{escape(effort)}</p>'
        + section("Pareto fronts", f'<div class="two">{"".join(panels)}</div>' if panels else "", about)
        + section(f"{'The front' if 'points' in record else 'The answer'} beside uniform formats", _uniform(record))
        + section("What each tensor alone costs", _sensitivity(record), SENSITIVITY)
        + section("Phases", _phases(record))
        + section("Provenance", _provenance(record, source))
        + "</article>"
    )


def points_of(record: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """Trials, uniform formats and the answer as points of `pareto`, those that know the resource."""
    found = [
        {"kind": "tried", "name": f"trial {trial['number']}", "quality": 100 * trial["quality"], field: trial[field]}
        for trial in record.get("tried") or ()
        if trial.get(field) is not None
    ]
    for uniform in record["uniform"]:
        if uniform.get(field) is not None and uniform.get("quality") is not None:
            found.append(
                {
                    "kind": "uniform",
                    "name": uniform["format"],
                    "quality": 100 * uniform["quality"],
                    field: uniform[field],
                }
            )
    for point in record.get("points") or ():
        if point.get(field) is not None:
            name, share = f"point {point['number']}", 100 * point["quality"]
            found.append({"kind": "answer", "name": name, "quality": share, field: point[field]})
    answer = record.get("search") or {}
    if record.get(field) is not None and answer.get("quality") is not None:
        found.append({"kind": "answer", "name": "answer", "quality": 100 * answer["quality"], field: record[field]})
        found = _without_duplicates(found, field)
    for point in front_of(found, field):
        if point["kind"] == "tried":
            point["kind"] = "front"
    return found


def _estimated(points: Sequence[Mapping[str, Any]], field: str) -> bool:
    """Whether trials are estimates beside what a board has said: of bytes of arena all is exact."""
    return field != "arena_bytes" and any(point["kind"] in ("uniform", "answer") for point in points)


def _without_duplicates(points: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """The answer, last, takes the names of the uniform formats that lie where it lies."""
    *others, answer = points
    same = [
        p for p in others if p["kind"] == "uniform" and (p[field], p["quality"]) == (answer[field], answer["quality"])
    ]
    answer["name"] = " = ".join(("answer", *(point["name"] for point in same)))
    return [*(point for point in others if point not in same), answer]


def front_of(points: Sequence[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Points that no other beats in both, by increasing use of the resource; without trials whose use is an estimate
    beside what was measured."""
    front: list[dict[str, Any]] = []
    known = [p for p in points if p["kind"] != "tried"] if _estimated(points, field) else points
    for point in sorted(known, key=lambda point: (point[field], -point["quality"])):
        if not front or point["quality"] > front[-1]["quality"]:
            front.append(point)
    return front


def _uniform(record: Mapping[str, Any]) -> str:
    titles = ("format", "arena B", "RAM B", "worst latency µs", "flash B", "searched", "differ from float", "accuracy")
    points = record.get("points")
    if points is None:
        searched = {"searched_disagreements": (record.get("search") or {}).get("disagreements")}
        rows = [_row(shown_name({**record, "format": "the answer"}), {**record, **searched})]
    else:
        names = (f"point {point['number']}{', estimated' * point.get('estimated', False)}" for point in points)
        rows = [_row(name, point) for name, point in zip(names, points, strict=True)]
    for uniform in record["uniform"]:
        if uniform.get("reason"):
            rows.append((Cell(uniform["format"], note=uniform["reason"]), *[number(None)] * 7))
            continue
        rows.append(_row(shown_name(uniform), uniform))
    return table(titles, rows)


SENSITIVITY = """Rise of the outputs' error, as a share of the outputs, when the tensor alone has the format; on a few
samples of the search."""


def _sensitivity(record: Mapping[str, Any]) -> str:
    """A row per tensor, a column per choice that was measured."""
    found = record.get("sensitivity") or {"tensors": ()}
    choices = list(dict.fromkeys(choice for row in found["tensors"] for choice in row["errors"]))
    if not choices:
        return ""
    rows = []
    for row in found["tensors"]:
        errors = (row["errors"].get(choice) for choice in choices)
        shares = (number(None if error is None else 100 * error, 3, " %") for error in errors)
        rows.append((Cell(row["tensor"]), Cell(row["kind"]), number(row["elements"]), *shares))
    titles = (re.sub(r"([+-]\d+)$", r", offset \1", choice) for choice in choices)  # as assignment files say it
    return table(("tensor", "kind", "elements", *titles), rows)


def _phases(record: Mapping[str, Any]) -> str:
    rows = [
        (Cell(phase["phase"]), number(phase["seconds"], 1), number(phase["processor_seconds"], 1))
        for phase in record.get("phases") or ()
    ]
    return table(("phase", "s", "processor s"), rows) if rows else ""


def _row(name: str, found: Mapping[str, Any]) -> tuple[Cell, ...]:
    accuracy = found.get("accuracy")
    fields = ("arena_bytes", "ram_bytes", "latency_us", "flash_bytes", "searched_disagreements", "disagreements")
    cells = (number(found.get(field)) for field in fields)
    return (Cell(name), *cells, number(None if accuracy is None else 100 * accuracy, 2, " %"))


def _provenance(record: Mapping[str, Any], source: str) -> str:
    rows = [("record", source), ("finished", record.get("utc")), ("assignment", record.get("assignment_file"))]
    rows += [(f"point {point['number']}", point["assignment_file"]) for point in record.get("points") or ()]
    offered, weights = (", ".join(record.get(name) or ()) for name in ("formats", "weights"))
    rows += [("formats on offer", offered), ("for weights alone", weights or None), ("seed", record.get("seed"))]
    command = record.get("command")
    return pairs((name, value) for name, value in rows if value is not None) + (
        f"<pre>{escape(command)}</pre>" if command else ""
    )
