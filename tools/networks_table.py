"""The table of docs/measured/peers.md, from results/networks.json (benchmarks/peers.py); that of engines beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools import engines_table
from tools.measured import line, read

PAGE = Path(__file__).resolve().parent.parent / "docs" / "measured" / "peers.md"
BEGIN, END = "<!-- networks: begin -->", "<!-- networks: end -->"
HEAD = (
    "network", "board", "fixed8", "int8", "fixed16", "int8 / fixed8", "fastest peer", "won", "fastest of 16 bits",
    "RAM B", "flash B",
)  # fmt: skip
IN_CYCLES = "cycles"  # in the name of a peer that was measured so
Row = Mapping[str, Any]


def page() -> str:
    """docs/measured/peers.md with its tables made anew."""
    lines = [f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|", *map(_line, read("networks")), "", line("networks")]
    found = PAGE.read_text()
    for begin, end, text in (
        (BEGIN, END, "\n".join(lines)),
        (engines_table.BEGIN, engines_table.END, engines_table.block()),
    ):
        before, rest = found.split(begin)
        found = f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"
    return found


def _line(row: Row) -> str:
    found = row["formats"]
    costs = {fmt: None if cost is None else _cost(row["board"], cost) for fmt, cost in found.items()}
    first, other = found["fixed8"], costs["int8"]
    ratio = f"{other / costs['fixed8']:.2f}" if other and costs["fixed8"] else ""
    cells = [_short(costs[fmt]) for fmt in ("fixed8", "int8", "fixed16")]
    beside = "none measured" if row["peer"] is None else f"{_short(row['cost'])} ({row['peer']})"
    wide = "none measured" if row["wide_peer"] is None else f"{_short(row['wide_cost'])} ({row['wide_peer']})"
    sizes = [f"{first[key]:,}" for key in ("ram_bytes", "flash_bytes")]
    return "| " + " | ".join([row["network"], row["board"], *cells, ratio, beside, _won(row), wide, *sizes]) + " |"


def _won(row: Row) -> str:
    """By which of our formats; peers of 8 bits are held against ours of 8."""
    if row["peer"] is None:
        return ""
    in_cycles = IN_CYCLES in row["peer"]
    ours = {
        fmt: cost["cycles"] if in_cycles else _cost(row["board"], cost)
        for fmt, cost in row["formats"].items()
        if cost is not None
    }
    won = [fmt for fmt, cost in ours.items() if cost < row["cost"]]
    return "all" if len(won) == len(row["formats"]) else ", ".join(won) or "no"


def _cost(board: str, costs: Mapping[str, int]) -> int:
    """Cycles of an Uno are exact, on ARM instructions are."""
    return costs["cycles"] if board == "uno" else costs["instructions"]


def _short(count: float | None) -> str:
    if count is None:
        return "does not fit"
    return f"{count / 1e6:.3g}M" if count >= 1e6 else f"{count / 1e3:.3g}k"
