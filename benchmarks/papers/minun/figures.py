"""Figures 5 and 6: formats of 8 bits without a search, and the least RAM that loses next to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from benchmarks.papers.judge import more_often, worst
from benchmarks.papers.minun.facts import NETWORKS
from benchmarks.papers.minun.networks import ROWS
from benchmarks.papers.minun.widths import ALLOWED_POINTS, OFFERS, request
from benchmarks.papers.paper import Cell, Claim, Row, Rows, Verdict, table, under
from benchmarks.search.tables import measured
from tinyhil import data
from tinyhil.compiler.calibrate import Ranges
from tinyhil.compiler.lower import lower
from tinyhil.errors import HilError
from tinyhil.harness.job.job import open_model
from tinyhil.harness.job.zoo import find_model
from tinyhil.harness.search.total import placed
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.native import default_cache_dir
from tinyhil.search.engine.library import load_engine
from tinyhil.search.evaluator import Evaluator, make_examples

EIGHT_BITS = ("fixed8", "fixed8pc", "int8", "posit8es0", "posit8es1", "posit8es2", "fp8e4m3", "fp8e5m2")
WIDE = ("float32", "bfloat16", "fixed16")
NARROW = {"fixed": ("fixed8", "fixed16"), "posit": ("posit8es2", "posit16es1")}
ZOO = (*(name for name in NETWORKS if name not in ROWS), "fastgrnn_fsdd", "digits_mlp", "digits_cnn", "lenet5_mnist")
QUICK = "digits_mlp"  # its data is part of the package
EVALUATIONS = 20
STEPS = 4  # limits between all narrow and all wide


def cells() -> Iterator[Cell]:
    for name in ZOO:
        yield Cell(f"figure5/{name}", partial(_eight_bits, name))
        yield Cell(f"figure6/{name}", partial(_least, name))


def quick() -> Iterator[Cell]:
    return (cell for cell in cells() if cell.key.endswith(f"/{QUICK}"))


@cache
def _model(name: str) -> tuple[Graph, Ranges]:
    opened = open_model(name)
    return opened.model.graph, opened.required_ranges(None)


def _eight_bits(name: str) -> Row:
    """Points of accuracy lost by format, on the whole test part; None where a format can not hold the network."""
    (graph, ranges), found = _model(name), data.load(find_model(name).dataset or "")
    examples = make_examples(graph, found.x_test, found.y_test)
    evaluator = Evaluator(load_engine(default_cache_dir()), examples)
    assert examples.float_accuracy is not None
    row: Row = {}
    for fmt in EIGHT_BITS:
        try:
            score = evaluator.score(lower(graph, Assignment(fmt), ranges))
        except HilError:
            row[fmt] = None
            continue
        assert score.correct is not None
        row[fmt] = round(100 * (examples.float_accuracy - score.correct / score.samples), 3)
    return row


def _least(name: str) -> Row:
    """Arenas of uniform formats, and by family the least tried at which a search loses little on the test part."""
    arenas = {fmt: _arena(name, fmt) for fmt in WIDE}
    return {**arenas, **{family: _least_of(name, family) for family in NARROW}}


def _arena(name: str, fmt: str) -> int:
    graph, ranges = _model(name)
    return placed(lower(graph, Assignment(fmt), ranges), None, "ram").plan.peak_bytes


def _least_of(name: str, family: str) -> Row | None:
    """From the arena of all narrow upwards; None if not even all wide loses little."""
    low, high = (_arena(name, fmt) for fmt in NARROW[family])
    for step in range(STEPS + 1):
        limit = low + (high - low) * step // STEPS
        found = measured(request(name, limit, OFFERS[family], evaluations=EVALUATIONS))
        if "error" not in found and found["points_lost"] <= ALLOWED_POINTS:
            return {"ram": found["ram"], "points_lost": found["points_lost"], "tried": step + 1}
    return None


def body(rows: Rows) -> str:
    fives = [
        (f"`{name}`", *("-" if row[fmt] is None else f"{row[fmt]:+.2f}" for fmt in EIGHT_BITS))
        for name, row in _good(rows, "figure5").items()
    ]
    sixes = [
        (f"`{name}`", *(row[fmt] for fmt in WIDE), *(_share(row, family) for family in NARROW))
        for name, row in _good(rows, "figure6").items()
    ]
    return (
        "## Figure 5: 8 bits for everything\n\n"
        "Points of accuracy lost on the test part with one format, without search.\n\n"
        f"{table(('Network', *EIGHT_BITS), fives)}\n\n"
        "## Figure 6: RAM\n\nArenas in bytes of one format for everything, and the least at which a search "
        f"({EVALUATIONS} evaluations, limits upwards from all 8 bits) loses at most {ALLOWED_POINTS} points on the "
        "test part.\n\n" + table(("Network", *WIDE, *(f"{family} 8/16: B (of float32)" for family in NARROW)), sixes)
    )


def _good(rows: Rows, figure: str) -> dict[str, Row]:
    return {name: row for name, row in under(rows, figure).items() if "failed" not in row}


def _share(row: Row, family: str) -> str:
    found = row[family]
    if found is None:
        return "-"
    return f"{found['ram']} (1/{row['float32'] / found['ram']:.1f})"


def draw_figure5(rows: Rows) -> Any:
    columns = {fmt: {name: row[fmt] for name, row in _good(rows, "figure5").items()} for fmt in EIGHT_BITS}
    return _bars(columns, "points of accuracy lost, 8 bits for everything", "symlog")


def draw_figure6(rows: Rows) -> Any:
    good = _good(rows, "figure6")
    columns = {fmt: {name: row[fmt] for name, row in good.items()} for fmt in WIDE}
    columns |= {f: {name: row[f] and row[f]["ram"] for name, row in good.items()} for f in NARROW}
    return _bars(columns, f"arena, bytes; searched: at most {ALLOWED_POINTS} points lost", "log")


def _bars(columns: dict[str, dict[str, float | None]], label: str, scale: str) -> Any:
    """Bars of each column for each network."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    axes = figure.add_subplot()
    width = 0.85 / len(columns)
    names = list(next(iter(columns.values())))
    for index, (column, heights) in enumerate(columns.items()):
        at = [place + (index - len(columns) / 2 + 0.5) * width for place in range(len(names))]
        axes.bar(at, [heights[name] or 0.0 for name in names], width, label=column)
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=7)
    axes.set_yscale(scale, **({"linthresh": 1.0} if scale == "symlog" else {}))
    axes.set_ylabel(label)
    axes.legend(fontsize=7, ncol=4)
    return figure


def _judge_narrow(formats: tuple[str, ...], rows: Rows) -> Verdict:
    found = _good(rows, "figure5")
    if not found:
        return Verdict("not testable here", "not measured yet")
    counts = {fmt: sum(row[fmt] is None or row[fmt] > ALLOWED_POINTS for row in found.values()) for fmt in formats}
    said = ", ".join(f"{fmt} in {count}" for fmt, count in counts.items())
    outcome = worst(more_often(count, len(found) - count) for count in counts.values())
    return Verdict(outcome, f"of {len(found)} networks more than {ALLOWED_POINTS} points are lost by {said}; sign test")


def _judge_posits(rows: Rows) -> Verdict:
    both = [row for row in _good(rows, "figure6").values() if row["fixed"] and row["posit"]]
    if not both:
        return Verdict("not testable here", "not measured yet")
    less = sum(row["posit"]["ram"] < row["fixed"]["ram"] for row in both)
    more = sum(row["posit"]["ram"] > row["fixed"]["ram"] for row in both)
    said = f"within {ALLOWED_POINTS} points posits take less RAM on {less} of {len(both)} networks, more on {more}"
    return Verdict(more_often(less, more), f"{said}; sign test (our search may move the scales of fixed point)")


CLAIMS = (
    Claim(
        '"assign high-precision to a few tensors": 8 bits for everything do not do; fixed point',
        partial(_judge_narrow, ("fixed8", "fixed8pc")),
        "abstract, figure 5",
        about=("figure5/",),
    ),
    Claim(
        "The same: posits of 8 bits",
        partial(_judge_narrow, tuple(fmt for fmt in EIGHT_BITS if fmt.startswith("posit"))),
        "figure 5",
        about=("figure5/",),
    ),
    Claim(
        "Posits 8/16 need less RAM than fixed point 8/16",
        _judge_posits,
        "table 2",
        "493 B for 740 B, ...",
        ("figure6/",),
    ),
)
