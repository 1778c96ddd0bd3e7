"""Who wins what: rows of a comparison of engines as lines, ratios and a table; what ours loses comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

OURS = "tinyhil"
SIZES = ("RAM", "arena", "stack", "static", "flash")
COLUMNS = (
    "network", "board", "engine", "cycles", *SIZES, "decides otherwise", "largest difference", "equal to ours",
    "first to differ",
)  # fmt: skip
QUOTED = {"cycles": "cycles", "RAM": "bytes of RAM", "flash": "bytes of flash"}
Row = Mapping[str, Any]  # what `row_of` of comparison.py gives: figures by name, None where not known


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Of a network on a board; those first in which ours takes most beside the fastest."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["network"], row["board"]), []).append(row)

    def behind(group: list[Row]) -> float:
        ours = next((row["cycles"] for row in group if row["engine"] == OURS), None)
        others = [row["cycles"] for row in group if row["engine"] != OURS and row["cycles"] is not None]
        return -(ours / min(others)) if ours is not None and others else 0.0

    return sorted(groups.values(), key=behind)


@dataclass(frozen=True, slots=True)
class Loss:
    """A figure (a name of QUOTED) of which another engine takes less than ours."""

    network: str
    board: str
    engine: str
    figure: str
    theirs: float
    mine: float

    def __str__(self) -> str:
        takes = f"{self.engine} takes {self.theirs:,.0f} {QUOTED[self.figure]}, {OURS} {self.mine:,.0f}"
        return f"lost: {self.network} on {self.board}: {takes}"


def losses(rows: Sequence[Row]) -> list[Loss]:
    """Every figure in which another engine takes less than ours."""
    found = []
    for group in _groups(rows):
        for ours in (row for row in group if row["engine"] == OURS):
            for name in QUOTED:
                for row in group:
                    mine, theirs = ours[name], row[name]
                    if row["engine"] != OURS and mine is not None and theirs is not None and theirs < mine:
                        found.append(Loss(ours["network"], ours["board"], row["engine"], name, theirs, mine))
    return found


def ratios(rows: Sequence[Row]) -> list[str]:
    """A line for every other engine: how many times ours its figures are, from least to most."""
    found = []
    for engine in dict.fromkeys(row["engine"] for row in rows if row["engine"] != OURS):
        words = []
        for name, unit in QUOTED.items():
            if times := times_of(rows, engine, name):
                words.append(f"{min(times):.2g} to {max(times):.2g} times the {unit} ({len(times)} measured)")
        if words:
            found.append(f"{engine} takes {', '.join(words)}")
    return found


def times_of(rows: Sequence[Row], engine: str, figure: str) -> list[float]:
    """How many times ours a figure of another engine is, wherever both are known."""
    pairs = [(row[figure], ours[figure]) for row in rows if row["engine"] == engine and (ours := _beside(row, rows))]
    return [theirs / mine for theirs, mine in pairs if theirs is not None and mine]


def _beside(row: Row, rows: Sequence[Row]) -> Row | None:
    """Ours of the same network and board."""
    where = (row["network"], row["board"], OURS)
    return next((one for one in rows if (one["network"], one["board"], one["engine"]) == where), None)


def failures(rows: Sequence[Row]) -> list[str]:
    """What could not be measured, a line each."""
    return [f"{row['network']} on {row['board']} by {row['engine']}: {row['why']}" for row in rows if row["why"]]


def cells_of(rows: Sequence[Row]) -> list[list[str]]:
    """Texts by COLUMNS. Cycles of emulated boards with the band in which the chip's lie; of a network on a board the
    fastest first."""
    ordered = [row for group in _groups(rows) for row in sorted(group, key=lambda row: row["cycles"] or inf)]
    return [_texts(row) for row in ordered if not row["why"]]


def _texts(row: Row) -> list[str]:
    cycles = f"{row['cycles']:,.0f}"
    if row["low"] is not None:
        cycles += f" ({row['low']:,.0f} to {row['high']:,.0f})"
    other = "" if row["disagreements"] is None else f"{row['disagreements']} of {row['samples']}"
    largest = "" if row["largest"] is None else f"{row['largest']:.3g}"
    equal = "" if row["equal"] is None else f"{row['equal']} of {row['samples']}"
    sizes = ["" if row[name] is None else f"{row[name]:,.0f}" for name in SIZES]
    return [row["network"], row["board"], row["engine"], cycles, *sizes, other, largest, equal, row["first"] or ""]


def table(rows: Sequence[Row]) -> str:
    """Markdown: what we lose, what others take beside ours, the table, what failed."""
    head = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    parts = [
        [str(one) for one in losses(rows)],
        ratios(rows),
        [*head, *(f"| {' | '.join(texts)} |" for texts in cells_of(rows))],
    ]
    return "\n\n".join("\n".join(part) for part in (*parts, failures(rows)) if part)
