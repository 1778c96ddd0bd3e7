"""docs/measured/passes.md from results/passes.json (benchmarks/passes.py) and the one list of passes."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.passes_networks import NETWORKS
from tinyhil.passes.every import PASSES
from tools.measured import line, read

Row = Mapping[str, Any]
NAME = "passes"
FIGURES = ("cycles", "arena", "flash", "error")
LEAST = 0.0005  # of a figure that counts as a change in the table
TITLE = "# What each pass gains"
HEAD = (
    "What is lost where one pass is left out, by `python -m benchmarks.passes`: shares of cycles, arena and error "
    "without it, and of the image's flash; median of the cycles, most, least; a negative one is its price. `hil plan "
    "--passes` says the bytes for one model, `--without NAME` leaves a pass out."
)
OWN = (
    "For passes of which these have no use (`benchmarks/passes_networks.py`), with the root mean square error over "
    "the float results:"
)


def page() -> str:
    """Text of docs/measured/passes.md."""
    rows = read(NAME)
    own = [network.name for network in NETWORKS]
    of_others = [row for row in rows if row["model"] not in own]
    lines = [TITLE, "", *_wrapped(HEAD)]
    lines += [*_wrapped(f"{len(of_others)} networks of the zoo and MLPerf Tiny: {_listed(of_others)}."), ""]
    lines += _wrapped(f"{OWN} {', '.join(f'`{name}`' for name in own)}.")
    lines += [
        "",
        "| Pass | Does | Changes | Cycles, % | Arena, % | Flash, % | Error, % | Most cycles |",
        "|---|---|--:|---|---|---|---|---|",
        *(_line(one.name, one.summary, rows) for one in PASSES),
    ]
    return "\n".join([*lines, "", line(NAME)]) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 150, break_on_hyphens=False)


def _listed(rows: Sequence[Row]) -> str:
    by = Counter(f"{row['format']} on {row['board']}" for row in rows)
    return ", ".join(f"{count} in {way}" for way, count in by.items())


def changes(name: str, rows: Sequence[Row]) -> Iterator[tuple[Row, Mapping[str, int]]]:
    """Rows in which something is another without the pass, and what that is; of those that do not fit then none."""
    for row in rows:
        other = row["without"].get(name)
        if other is not None:
            yield row, other


def _line(name: str, summary: str, rows: Sequence[Row]) -> str:
    """One pass over all rows: how often it changes the sources, shares of what there is without it."""
    found = list(changes(name, rows))
    unfit = sum(name in row["without"] and row["without"][name] is None for row in rows)
    count = f"{len(found) + unfit}" + (f", {unfit} do not fit without" if unfit else "")
    cells = []
    for figure in FIGURES:
        gains = sorted(1 - row["all"][figure] / other[figure] for row, other in found if other.get(figure))
        if not any(abs(gain) > LEAST for gain in gains):
            cells.append("0" if gains else "")
            continue
        shown = [gains[-1], gains[0]]
        if figure == "cycles":
            shown = [gains[len(gains) // 2], *shown]
        cells.append(", ".join(f"{100 * gain:.1f}" for gain in shown))
    return f"| `{name}` | {summary} | {count} | {' | '.join([*cells, _most(name, rows)])} |"


def _most(name: str, rows: Sequence[Row]) -> str:
    """Where most cycles are saved."""
    found = [(1 - row["all"]["cycles"] / other["cycles"], row) for row, other in changes(name, rows)]
    if not found:
        return ""
    _, row = max(found, key=lambda one: one[0])
    return f"`{row['model']}/{row['format']}/{row['board']}`"
