"""The tables of engines in docs/measured/peers.md, from results/engines.json (benchmarks/engines.py)."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from tinyhil.harness.engines.standing import COLUMNS, OURS, Row, cells_of, failures, losses, ratios, times_of
from tools.measured import line, read

BEGIN, END = "<!-- engines: begin -->", "<!-- engines: end -->"
WIDTH = 158  # of lines in an editor
LEFT_OUT = ("stack", "static", "largest difference")
NAMES = {"cmsis-nn": "CMSIS-NN", "tflm": "TensorFlow Lite Micro", "tinymaix": "TinyMaix"}  # others as they are


def block() -> str:
    """What stands between the markers: losses, ratios, a line for each engine, network and board, what failed."""
    rows = read("engines")
    lost, failed = losses(rows), failures(rows)
    texts = cells_of(rows)
    unknown = [name for place, name in enumerate(COLUMNS) if not any(cells[place] for cells in texts)]
    keep = [place for place, name in enumerate(COLUMNS) if name not in (*LEFT_OUT, *unknown)]
    head, *body = [f"| {' | '.join(cells[place] for place in keep)} |" for cells in (COLUMNS, *texts)]
    said = [_listed(lost) if lost else "No cycles, RAM or flash are lost to any of them.", _listed(ratios(rows))]
    parts = [*said, "\n".join([head, "|---" * len(keep) + "|", *body]), *([_listed(failed)] if failed else [])]
    return "\n\n".join([*parts, line("engines")])


def sentence(rows: Sequence[Row]) -> str:
    """What README quotes of it: how many times our cycles each engine takes, and how often it takes fewer."""
    words = []
    for engine in dict.fromkeys(row["engine"] for row in rows if row["engine"] != OURS):
        times = times_of(rows, engine, "cycles")
        if times:
            words.append(f"{NAMES.get(engine, engine)} {min(times):.2g} to {max(times):.2g}")
    fewer = sum("cycles" in text for text in losses(rows))
    return f"{', '.join(words)} times our cycles; fewer than ours in {fewer} of {_others(rows)} measurements"


def _others(rows: Sequence[Row]) -> int:
    return sum(row["engine"] != OURS and row["cycles"] is not None for row in rows)


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(fill(f"- {text}", WIDTH, subsequent_indent="  ", break_long_words=False) for text in lines)
