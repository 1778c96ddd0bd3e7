"""Records for other programs: a trace for Perfetto, layers as CSV, Markdown, an overlay for Model Explorer."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tinyhil.errors import DataError
from tinyhil.harness.records.bench_stats import ticks_text
from tinyhil.harness.records.figures import at_worst, formats_by, planned_with, share_of, title_of
from tinyhil.harness.records.search_schema import search_title
from tinyhil.harness.records.verdict import RecordLike, verdict_of
from tinyhil.quoting import csv_cell, markdown

COLUMNS = (
    *("board", "model", "format", "number", "name", "kernel", "output", "executions", "elements", "macs", "ticks"),
    *("assignment", "planned", "weight_bytes", "activation_bytes", "saturations", "error", "sensitivity"),
    "accumulator_bits",
)
COOL, WARM = "#e8f0fe", "#d93025"  # of the overlay's gradient
FIGURES = ("samples equal", "differ from float", "accuracy", "latency", "RAM", "flash")
MARKS = {"valid": "✅", "degraded": "⚠️", "invalid": "❌"}


def as_trace(record: RecordLike) -> dict[str, Any]:
    """Events of one sample in the trace event format that Perfetto reads, and the arena's use as a counter.

    DataError for records without a profile.
    """
    events = (record.get("profile") or {}).get("events")
    clock_hz = record["latency"]["clock_hz"]
    if not events:
        raise DataError(f"{record['model']} on {record['board']}: no profile in this record; make one: hil profile")
    layers = {layer["number"]: layer for layer in record["layers"]}
    live = live_bytes(record["plan"]) if record.get("plan") else {}
    per_us = (clock_hz or 1e6) / 1e6  # instructions have no clock: one a microsecond
    thread = {"pid": 1, "tid": 1}
    name = title_of(record)
    found: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": name}}]
    inside = 0
    for number, ticks, outside in events:
        start, layer = (inside + outside) / per_us, layers[number]
        details = {key: layer[key] for key in ("kernel", "output", "macs", "elements")} | {"ticks": ticks}
        event = {"ph": "X", "name": layer["name"], "cat": layer["kernel"], "ts": start, "dur": ticks / per_us}
        found.append({**event, **thread, "args": details})
        found.append({"ph": "C", "name": "arena", "ts": start, "pid": 1, "args": {"bytes": live.get(number, 0)}})
        inside += ticks
    end = (inside + events[-1][2]) / per_us
    found.append({"ph": "C", "name": "arena", "ts": end, "pid": 1, "args": {"bytes": 0}})
    provenance = {"command": record["provenance"].get("command"), "fidelity": record["latency"].get("fidelity")}
    return {"traceEvents": found, "displayTimeUnit": "ns", "otherData": provenance}


def live_bytes(plan: Mapping[str, Any]) -> dict[int, int]:
    """Bytes of the arena in use while each operation runs: the highest byte that a live buffer reaches."""
    found: dict[int, int] = {}
    for instant in range(len(plan.get("steps", ()))):
        tops: dict[str, int] = {}
        for buffer in plan.get("buffers", ()):
            if any(start <= instant < end for start, end in buffer["sections"]):
                top = buffer["offset"] + buffer["size_bytes"]
                tops[buffer["region"]] = max(tops.get(buffer["region"], 0), top)
        found[instant] = sum(tops.values())
    return found


def as_csv(records: Sequence[RecordLike]) -> str:
    """One line per operation of every record; `ticks` where they were measured."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerows({key: csv_cell(value) for key, value in line.items()} for line in _lines(record))
    return text.getvalue()


def _lines(record: RecordLike) -> Iterator[dict[str, Any]]:
    operations = (record.get("profile") or {}).get("operations") or []
    layers = record.get("layers") or []
    measured = [operation["ticks"] for operation in operations]
    if [layer["name"] for layer in layers] != [operation["name"] for operation in operations]:
        measured = [None] * len(layers)
    head = {key: record[key] for key in ("board", "model", "format")}
    head["assignment"] = formats_by(record).removeprefix(" by ")
    head["planned"] = planned_with(record).strip().removeprefix("--")
    for layer, ticks in zip(layers, measured, strict=True):
        yield {**layer, **head, "ticks": ticks}


def as_markdown(records: Sequence[RecordLike]) -> str:
    """A line per record, for a pull request or $GITHUB_STEP_SUMMARY."""
    lines = [f"| | model | board | format | {' | '.join(FIGURES)} |", f"|---|---|---|---|{'---:|' * len(FIGURES)}"]
    notes = []
    for record in records:
        found = verdict_of(record)
        lines.append(
            f"| {MARKS[found['verdict']]} {found['verdict']} | " + " | ".join(map(markdown, _cells(record))) + " |"
        )
        name = markdown(title_of(record))
        notes += [f"- {name}: `{issue['code']}` {markdown(issue['text'])}" for issue in found["issues"]]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def searches_as_markdown(records: Sequence[RecordLike]) -> str:
    """A line per answer, of a front one per point; decisions and accuracy are of samples held out."""
    titles = ("search", "searched on", "held out", "differ from float", "accuracy", "worst latency", "RAM", "flash")
    lines = [f"| {' | '.join(titles)} |", f"|---|{'---:|' * (len(titles) - 1)}"]
    for record in records:
        for row in record.get("points") or [record]:
            name = search_title(record) + (f", point {row['number']}" if row is not record else "")
            lines.append(f"| {' | '.join(map(markdown, (name, *_figures_of_search(record, row))))} |")
    return "\n".join(lines) + "\n"


def _figures_of_search(record: RecordLike, row: Mapping[str, Any]) -> list[str]:
    searched = row.get("searched_disagreements", (record.get("search") or {}).get("disagreements"))
    units, about = (("latency_us", "us"), ("ram_bytes", "B"), ("flash_bytes", "B")), "~" * row.get("estimated", False)
    return [
        "" if searched is None else f"{searched:,} differ",
        f"{record['samples']:,}",
        "" if row.get("disagreements") is None else f"{row['disagreements']:,}",
        "" if row["accuracy"] is None else share_of(row["accuracy"], record["samples"], 2),
        *("" if row.get(field) is None else f"{about}{row[field]:,.0f} {unit}" for field, unit in units),
    ]


def _cells(record: RecordLike) -> list[str]:
    board = record["board"] + (" (emulated)" if record["emulator"] else "")
    return [record["model"], board, record["format"] + formats_by(record) + planned_with(record), *figures_of(record)]


def figures_of(record: RecordLike) -> list[str]:
    """What people ask first of a run, under the titles FIGURES."""
    latency, memory = record["latency"], record["memory"]
    equal = record.get("equal_samples", record["samples"] if record["bit_exact"] else None)
    ram, worst = memory.get("total_bytes"), at_worst(memory)
    more = "" if worst is None else f" (at worst {worst:,} B)"
    return [
        f"{'?' if equal is None else equal} of {record['samples']}",
        "" if record.get("disagreements") is None else f"{record['disagreements']:,}",
        "" if record["accuracy"] is None else share_of(record["accuracy"], record["samples"], 2),
        f"{ticks_text(latency['median'])} {latency['unit']}",
        f"{memory['static_bytes']:,} B static" if ram is None else f"{ram:,} B{more}",
        f"{record['flash_bytes']:,} B",
    ]


def as_overlay(record: RecordLike) -> dict[str, Any]:
    """Node data of Google's Model Explorer: ticks (else products) of what computes each tensor, by its name.

    DataError if the record lists no operations.
    """
    rows = list(_lines(record))
    if not rows:
        raise DataError(f"{record['model']} on {record['board']}: this record lists no operations; measure again")
    timed = any(row["ticks"] is not None for row in rows)
    results: dict[str, dict[str, float]] = {}
    for row in rows:
        value = row["ticks"] if timed else row["macs"] or 0
        results[row["output"]] = {"value": results.get(row["output"], {"value": 0})["value"] + (value or 0)}
    gradient = [{"stop": 0, "bgColor": COOL}, {"stop": 1, "bgColor": WARM}]
    graph = record["provenance"].get("graph") or record["model"]
    return {graph: {"results": results, "gradient": gradient}}
