"""What the report says of one run, bench, profile or golden record. Parts that a record lacks are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tinyhil.harness.records.band import band
from tinyhil.harness.records.bench_stats import ticks_text
from tinyhil.harness.records.figures import at_worst, cold_first, share_of, title_of
from tinyhil.harness.records.terminal import copied
from tinyhil.harness.records.verdict import RecordLike, verdict_of
from tinyhil.harness.report import charts
from tinyhil.harness.report.graph_picture import draw_graph
from tinyhil.harness.report.html import Cell, chart, escape, number, pairs, section, table
from tinyhil.harness.report.sentence import sentence, time_of
from tinyhil.harness.report.time_bar import time_bar
from tinyhil.harness.report.worst_samples import worst_samples

UNTIMED = "Cycles of each operation are in a record of hil profile."
UNFELT = (
    " No sensitivity: it takes a run of the float model for each operation, which is too much beside a run of a model "
    "of this size; hil profile takes the time for models up to some ten million products."
)
COLUMNS: tuple[str | tuple[str, str], ...] = (
    "#",
    "operation",
    "kernel",
    ("format", "of the result"),
    ("products", "multiplications summed into results, of one sample"),
    ("time", "mean per sample"),
    ("share", "of all operations and what lies between them"),
    ("per product", "ticks per product"),
    ("at least", "the fewest cycles per product that the core's instructions allow"),
    ("weights B", "constants in flash"),
    ("activation B", "bytes of the result in the arena"),
    ("saturated", "results clipped, over all samples"),
    ("error", "root mean square distance from the float model, relative to the tensor's size"),
    ("sensitivity", "change of the outputs if this operation alone is rounded, relative to their size"),
)


def run_article(record: RecordLike, source: str, anchor: str, against: str = "") -> str:
    """The whole of one record; `source`: the file it is in; `against`: what sets it beside another one."""
    found = verdict_of(record)
    parts = [
        _head(record, found, source),
        _tiles(record),
        against,
        section("Where the time goes", _time_bar(record)),
        section("Graph", _graph(record), _about_graph(record)),
        section("Layers", _layers(record), _about_layers(record)),
        section("Memory over time", _memory(record), "Point at a buffer to see it alone; click to keep it."),
        section("RAM and flash by part", _parts(record)),
        section("Time of the samples", _times(record)),
        section("Decisions", _decisions(record)),
        section("Provenance", _provenance(record, source)),
    ]
    return f'<article id="{anchor}">{"".join(parts)}</article>'


def _head(record: RecordLike, found: Mapping[str, Any], source: str) -> str:
    where = record["emulator"]["fidelity"] if record["emulator"] else "measured on the board"
    if record["board"] == "host":
        where = "this computer, whatever else it does"
    badge = f'<span class="badge {found["verdict"]}">{found["verdict"]}</span>'
    issues = "".join(f"<li><code>{escape(i['code'])}</code> {escape(i['text'])}</li>" for i in found["issues"])
    emulated = f" (emulated by {record['emulator']['name']})" if record["emulator"] else ""
    title = title_of(record)
    listed = f'<ul class="issues">{issues}</ul>' if issues else ""
    return (
        f'<h2>{escape(title)} {badge}</h2><p class="verdict">{escape(sentence(record))}</p>'
        f'<p class="fidelity">Figures: {escape(where + emulated)}.</p>{listed}'
    )


def _tiles(record: RecordLike) -> str:
    latency, memory = record["latency"], record["memory"]
    more = f"median {ticks_text(latency['median'])} {latency['unit']}"
    more += f", max {latency['max']:,.0f}" if "max" in latency else ""
    more += band(latency)
    ram, limit = memory.get("total_bytes"), memory.get("limit_bytes")
    known = memory["static_bytes"] if ram is None else ram
    stack = memory.get("stack_bytes")
    ram_parts = f"{memory['static_bytes']:,} static" + (
        f" + {stack:,} stack" if stack is not None else ", stack unknown"
    )
    worst = at_worst(memory)
    if worst is not None:
        ram_parts += f"; at worst {worst:,} B"
    elif memory.get("stack_limit_unknown"):
        ram_parts += f"; at worst unknown: {memory['stack_limit_unknown']}"
    accuracy, wanted = (_share(record.get(key), record["samples"]) for key in ("accuracy", "float_accuracy"))
    changed = record.get("disagreements")
    decided = "" if changed is None else f"{changed} decisions differ from float"
    return (
        '<div class="tiles">'
        + "".join(
            (
                _tile("latency", time_of(latency), more),
                _tile("RAM", f"{known:,} B", ram_parts, known, limit),
                _tile(
                    "flash",
                    f"{record['flash_bytes']:,} B",
                    copied(memory).removeprefix(", "),
                    record["flash_bytes"],
                    record.get("flash_limit_bytes"),
                ),
                _tile("accuracy", accuracy, f"float {wanted}; {decided}".rstrip("; ")),
            )
        )
        + "</div>"
    )


def _tile(what: str, value: str, more: str, used: float | None = None, limit: float | None = None) -> str:
    meter = ""
    if used is not None and limit:
        share = used / limit
        full = " full" if share > 1 else ""
        meter = f'<div class="meter{full}"><i style="width:{min(100, 100 * share):.1f}%"></i></div>'
        more = f"{100 * share:.1f} % of {limit:,} B" + (f"; {more}" if more else "")
    return (
        f'<div class="tile"><div class="what">{escape(what)}</div><div class="value">{escape(value)}</div>'
        f'{meter}<div class="more">{escape(more)}</div></div>'
    )


def _share(share: float | None, samples: int) -> str:
    return "unknown" if share is None else share_of(share, samples, 2)


def ticks_of(record: RecordLike) -> list[float | None]:
    """Of each layer, from the profile that the record holds; None where there is none."""
    layers = record.get("layers") or []
    operations = (record.get("profile") or {}).get("operations") or []
    if [layer["name"] for layer in layers] != [operation["name"] for operation in operations]:
        return [None] * len(layers)
    return [operation["ticks"] for operation in operations]


def _summed(record: RecordLike) -> float:
    """Ticks of all layers and what lies between them: what every share of time is of."""
    outside = (record.get("profile") or {}).get("outside") or 0.0
    return sum(tick for tick in ticks_of(record) if tick is not None) + max(0.0, outside)


def _time_bar(record: RecordLike) -> str:
    is_cold = bool(record.get("profile")) and cold_first(record["raw"]["ticks"], record["raw"].get("instructions"))
    more = "The first of these samples found nothing in a cache: others take less. " if is_cold else ""
    unit = record["latency"]["unit"]
    return time_bar(record.get("layers") or [], ticks_of(record), _summed(record), unit, more)


def _graph(record: RecordLike) -> str:
    return draw_graph(record.get("layers") or [], ticks_of(record), _summed(record), record["latency"]["unit"])


def _about_graph(record: RecordLike) -> str:
    timed = any(tick is not None for tick in ticks_of(record))
    return "Each operation with its kernel, the format of its result and what it took." if timed else UNTIMED


def _layers(record: RecordLike) -> str:
    layers, ticks = record.get("layers") or [], ticks_of(record)
    if not layers:
        return ""
    total = _summed(record)
    rows = [_layer(place, layer, tick, total) for place, (layer, tick) in enumerate(zip(layers, ticks, strict=True))]
    return table(COLUMNS, rows, layers=True)


def _about_layers(record: RecordLike) -> str:
    layers = record.get("layers") or []
    known = {name for layer in layers for name in ("error", "sensitivity") if layer.get(name) is not None}
    return "Click a title to sort." + (UNFELT if known == {"error"} else "")


def _layer(place: int, layer: Mapping[str, Any], tick: float | None, total: float) -> Sequence[Cell]:
    macs, limit = layer["macs"], layer.get("ticks_per_mac_limit")
    each = tick / macs if tick is not None and macs else None
    formats = ", ".join(f"{name}: {text}" for name, text in layer["formats"].items())
    clipped = layer["saturations"]
    return (
        number(place),
        Cell(layer["name"]),
        Cell(layer["kernel"]),
        Cell(layer["formats"].get(layer["output"], ""), note=formats),
        number(macs),
        number(tick),
        number(None if tick is None or not total else 100 * tick / total, 1, " %"),
        number(each, 1),
        number(limit, 2),
        number(layer["weight_bytes"]),
        number(layer["activation_bytes"]),
        Cell(f"{clipped:,}", float(clipped), kind="bad" if clipped else ""),
        number(_per_mille(layer.get("error")), 2, " ‰"),
        number(_per_mille(layer.get("sensitivity")), 2, " ‰"),
    )


def _per_mille(share: float | None) -> float | None:
    return None if share is None else 1000 * share


def _memory(record: RecordLike) -> str:
    plan = record.get("plan")
    drawn = charts.memory_map(plan) if plan and plan.get("buffers") else None
    if plan is None or drawn is None:
        return ""
    proven = (
        ", the least possible in this schedule"
        if plan["proven"]
        else f"; at least {plan['lower_bound_bytes']:,} B are needed"
    )
    said = f'<p class="about">The arena takes {plan["peak_bytes"]:,} B{proven}.</p>'
    rows = [
        (
            Cell(r["name"]),
            number(r["bytes"]),
            number(r["offset"]),
            Cell(r["from"], r["start"]),
            Cell(r["until"], r["end"]),
        )
        for r in sorted(charts.map_rectangles(plan), key=lambda r: -r["bytes"])
    ]
    label = f"memory map of {len(rows)} buffers, peak {plan['peak_bytes']} bytes; the table below says the same"
    buffers = table(("buffer", "bytes", "offset", "from", "until"), rows)
    return (
        said
        + chart(drawn, label)
        + f"<details><summary>Buffers as a table: {len(rows)}</summary>{buffers}</details>"
        + f"<pre>{escape(plan.get('certificate', ''))}</pre>"
    )


def _parts(record: RecordLike) -> str:
    parts = record.get("parts")
    if not parts:
        return ""
    ram = dict(parts["ram"])
    for name in ("stack", "heap"):
        if record["memory"].get(f"{name}_bytes"):
            ram[name] = record["memory"][f"{name}_bytes"]
    values, rows = [], []
    for memory, found in (("flash", parts["flash"]), ("RAM", ram)):
        total = sum(found.values()) or 1
        for rank, (part, count) in enumerate(sorted(found.items(), key=lambda item: -item[1])):
            values.append({"memory": memory, "part": part, "bytes": count, "share": count / total, "rank": rank})
            rows.append((Cell(memory), Cell(part), number(count), number(100 * count / total, 1, " %")))
    return chart(charts.parts(values), "bytes by part") + table(("memory", "part", "bytes", "share"), rows)


def _times(record: RecordLike) -> str:
    drawn = charts.latencies(record["raw"]["ticks"], record["latency"]["unit"])
    if drawn is not None:
        return chart(drawn, "histogram of the samples' times")
    ticks = set(record["raw"]["ticks"])
    return f"<p>Every sample took {next(iter(ticks)):,} {escape(record['latency']['unit'])}.</p>" if ticks else ""


def _decisions(record: RecordLike) -> str:
    found = record.get("decisions")
    if not found:
        return ""
    matrix, names = "", found.get("names", [])
    if found["confusion"]:
        drawn = charts.confusion(found["confusion"], names)
        matrix = f"<div><h4>Confusion</h4>{chart(drawn, 'confusion matrix')}</div>"
    title = "Furthest from float, changed decisions first"
    worst = f"<div><h4>{title}</h4>{worst_samples(found['worst'], names)}</div>" if found["worst"] else ""
    return f'<div class="two">{matrix}{worst}</div>'


def _provenance(record: RecordLike, source: str) -> str:
    known = record["provenance"]
    compiler, data = known["compiler"], record.get("data") or {}
    rows = [
        ("record", source),
        ("measured", known.get("utc")),
        ("tinyhil", " ".join(filter(None, (known.get("tinyhil"), known.get("commit"), _dirty(known))))),
        ("compiler", f"{compiler['name']} {compiler['version']}"),
        ("model, SHA-256", known["model_sha256"]),
        ("image", known.get("image_hash")),
        ("data", " ".join(str(data[key]) for key in ("name", "source", "sha256") if data.get(key))),
        ("board", " ".join(str(known[key]) for key in ("port", "instance", "serial_number") if known.get(key))),
    ]
    shown = pairs((name, value) for name, value in rows if value)
    command = known.get("command")
    return shown + (f"<pre>{escape(command)}</pre>" if command else "")


def _dirty(known: Mapping[str, Any]) -> str:
    return "with uncommitted changes" if known.get("dirty") else ""
