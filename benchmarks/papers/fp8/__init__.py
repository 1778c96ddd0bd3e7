"""FP8 by MLIR: networks of vision in E4M3, E5M2, E3M4 and int8 under several rules for scales, and memory in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.papers import networks
from benchmarks.papers.fp8 import in_place, scores
from benchmarks.papers.fp8.claims import CLAIMS
from benchmarks.papers.fp8.fake_quantize import BY_QMAX, CONSTANT, FORMATS, INT8, WHOLE_REACH, Scheme, schemes
from benchmarks.papers.fp8.scores import key_of, names_of, totals
from benchmarks.papers.paper import Cell, Paper, Rows, table, under

FLOATS = tuple(fmt for fmt in FORMATS if fmt != INT8)
MOST_SECONDS = 20
QUICK = ("squeezenet", range(4))
WHOLE_KEY = key_of(WHOLE_REACH)


def cells() -> Iterator[Cell]:
    yield from in_place.cells()
    yield from scores.cells()


def quick() -> Iterator[Cell]:
    name, chosen = QUICK
    scheme = Scheme("E4M3", "1.0")
    yield from in_place.quick()
    yield Cell(f"float/{name}/quick", partial(scores.float_row, name, chosen))
    yield Cell(f"fake/{name}/{key_of(scheme)}/quick", partial(scores.fake_row, name, scheme, chosen))
    yield Cell(f"engine/{name}/E4M3/1.0 quick", partial(scores.engine_row, name, scheme, chosen))
    yield Cell("float/yolov5n/quick", partial(scores.float_row, "yolov5n", range(2)))


def body(rows: Rows) -> str:
    parts = [_method()]
    parts += [_network(rows, name) for name in names_of(rows)]
    parts += [_on_engine(rows), in_place.body(rows), _users()]
    return "\n\n".join(part for part in parts if part)


def _method() -> str:
    return (
        "Operands of layers (weights, and what layers read; a sum of two reads it so, too) are held in 8 bits as "
        "S * round(x / S), everything else in float32. *Max* is the largest magnitude over Qmax, over "
        f"{networks.CALIBRATION} pictures not tested on (ResNet-20: {4 * networks.CALIBRATION}); *percentile* leaves "
        "out one magnitude in a thousand; *power of two* is what `hil` does. *Paper-literal* is as printed: of what "
        "layers read the 99.99th percentile over Qmax - Qmin, of weights each channel's largest over 448, rounded to "
        "whole numbers before the cast (its equation 7). Qmax - Qmin cuts off what lies above half of the percentile: "
        "MobileNetV2's 0 %, 53 layers deep, is the formula's (*by Qmax*: the same over Qmax). Sums of floats follow "
        "the processor's BLAS: up to 2 of 64 answers differ between machines. E3M4 ends at 31. *Channel*: weights have "
        "a scale for each output. Right answers in %; of YOLOv5n mAP at an overlap of 0.5, by pycocotools. Claims "
        "choose scales on half the pictures and count on the others."
    )


def _network(rows: Rows, name: str) -> str:
    found, floats = totals(rows, "fake", name), totals(rows, "float", name)
    (whole,) = floats.values()
    oracle = scores.total([row["onnxruntime"] for row in under(rows, f"float/{name}").values()])
    apart = max(row["apart"] for row in under(rows, f"float/{name}").values())
    lines = []
    for scheme in schemes():
        if scheme.format == "E4M3":
            same = [Scheme(fmt, scheme.rule, scheme.by_channel) for fmt in FORMATS]
            given = [found.get(key_of(one)) for one in same]
            if any(given):
                shown = [f"{100 * one['score']:.1f}" if one else None for one in given]
                where = "-" if scheme.rule in CONSTANT else "channel" if scheme.by_channel else "tensor"
                lines.append((scheme.rule, where, *shown))
    if WHOLE_KEY in (cause := totals(rows, "cause", name)):
        lines.append((BY_QMAX, "channel", f"{100 * cause[WHOLE_KEY]['score']:.1f}", None, None, None))
    said = (
        f"float32 {100 * whole['score']:.1f} %, onnxruntime {100 * oracle['score']:.1f} %, over {whole['pictures']} "
        f"pictures; outputs at most {apart:.0e} of the largest apart."
    )
    heads = ("Scale", "per", *FORMATS)
    return f"## {networks.network(name).title}\n\n{said}\n\n{table(heads, lines)}"


def _on_engine(rows: Rows) -> str:
    """Integers beside fake quantisation."""
    lines = []
    for key, row in under(rows, "engine").items():
        name, fmt, *rule = key.split("/")
        if "fake" in row and rule != ["1.0"]:
            pair = [100 * scores.total([part])["score"] for part in (row, row["fake"])]
            counts = (row["pictures"], f"{pair[0]:.1f}", f"{pair[1]:.1f}", f"{100 * row['equal']:.1f} %")
            lines.append((networks.network(name).title, fmt, *counts, f"{row['apart']:.0e}"))
    heads = ("Network", "Format", "pictures", "engine", "fake", "outputs equal", "furthest apart")
    text = (
        "## The same in integers\n\nThe host engine runs the programs that boards get (exact products and sums, one "
        "rounding), with scales that are powers of two. Fake quantisation with the same biases and sums of float64 is "
        "equal to the bit where nothing but layers, sums of two and limits computes, but for a tie in float32 "
        "(MobileNetV2 in E5M2); elsewhere the order of additions or a sigmoid's last place differs."
    )
    single = under(rows, "engine").get(f"yolov5n/{scores.SINGLE}")
    parts = [text, table(heads, lines), _everywhere(rows)]
    if single:
        parts.append(
            f"A picture of YOLOv5n in E4M3 takes the engine {single['engine_processor_s']} s (goal: {MOST_SECONDS} s)."
        )
    return "\n\n".join(part for part in parts if part) if lines else ""


def _everywhere(rows: Rows) -> str:
    lines: list[list[object]] = []
    for name in dict.fromkeys(key.split("/")[0] for key in under(rows, "everywhere")):
        found = under(rows, f"everywhere/{name}")
        shown = [f"{100 * scores.total([found[fmt]])['score']:.1f}" if fmt in found else None for fmt in FORMATS]
        lines.append([networks.network(name).title, *shown, next(iter(found.values()))["pictures"]])
    said = "Every value in the format (`hil run --format`), not layers' operands alone; behind the last layers float32:"
    return f"{said}\n\n{table(('Network', *FORMATS, 'pictures'), lines)}" if lines else ""


def _users() -> str:
    files = ", ".join(one.file for one in networks.OF_THE_USER)
    return f"Yours join in from the folder models of HIL_DATA: {files} (float32)."


def _figure(rows: Rows) -> Any:
    """Score over float, per rule; a panel for each network."""
    from matplotlib.figure import Figure

    names = names_of(rows)
    figure = Figure(figsize=(3.2 * max(1, len(names)), 3.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, max(1, len(names)), squeeze=False)[0], names, strict=False):
        found, (whole,) = totals(rows, "fake", name), totals(rows, "float", name).values()
        shown = [*{scheme.rule: scheme for scheme in reversed(schemes()) if scheme.format == "E4M3"}.values()][::-1]
        for fmt in FORMATS:
            keys = [key_of(replace(scheme, format=fmt)) for scheme in shown]
            points = [(place, found[key]["score"]) for place, key in enumerate(keys) if key in found]
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, label=fmt)
        axes.axhline(whole["score"], color="grey", linewidth=0.8, linestyle=":")
        axes.set_xticks(range(len(shown)), [scheme.rule for scheme in shown], rotation=60, ha="right", fontsize=7)
        axes.set_ylim(0, 1)
        axes.set_title(networks.network(name).title, fontsize=9)
        axes.tick_params(axis="y", labelsize=7)
    if names:
        figure.axes[0].legend(fontsize=7)
    return figure


PAPER = Paper(
    "fp8",
    "FP8 quantisation and in-place memory through MLIR",
    cells,
    quick,
    body,
    CLAIMS,
    {"scales": _figure},
    {"ResNet-18, ResNet-50, YOLOv5s": "weights; shapes are planned, files run where they are given"},
)
