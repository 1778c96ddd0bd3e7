"""What computing in place takes off the peak of networks whose activations are operations of their own: from shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.papers.paper import Cell, Row, Rows, table, under
from benchmarks.shape_graphs import NETWORKS, Shapes, resnet18
from tinyhil.language.program import Program, Role, walk
from tinyhil.memplan.arena.passes import ALL_NAMES
from tinyhil.memplan.arena.placement import place

SHAPES: dict[str, Callable[[Shapes], Program]] = {"ResNet-18": resnet18, **dict(NETWORKS)}
PACKED = frozenset(ALL_NAMES)  # live ranges packed, nothing else
IN_PLACE = PACKED - {"in-place"}
SMALL = "SqueezeNet 1.1"


def cells() -> Iterator[Cell]:
    for name in SHAPES:
        yield Cell(f"in place/{name}", partial(_row, name))


def quick() -> Iterator[Cell]:
    yield Cell(f"in place/{SMALL}", partial(_row, SMALL))


def _row(name: str) -> Row:
    """Bytes of 8-bit activations: a place for each, live ranges packed, elements also in place."""
    program = SHAPES[name](Shapes())
    written = {op.output for op in walk(program.body)}
    apart = sum(program.tensors[name].count for name in written if program.tensors[name].role == Role.ARENA)
    peaks = {"packed": PACKED, "in place": IN_PLACE}
    return {"apart": apart, **{label: place(program, without).plan.peak_bytes for label, without in peaks.items()}}


def saved(row: Row) -> float:
    """Of the packed peak."""
    return 1 - float(row["in place"]) / float(row["packed"])


def body(rows: Rows) -> str:
    found = under(rows, "in place")
    lines = [
        (name, *(f"{row[key] / 1e6:.3f}" for key in ("apart", "packed", "in place")), f"{100 * saved(row):.1f} %")
        for name, row in found.items()
    ]
    heads = ("Network", "a place each, MB", "live ranges packed", "+ in place", "saved")
    return "## In place\n\nTheirs: 15 to 20 % off the peak.\n\n" + table(heads, lines) if lines else ""
