"""MinUn: Accurate ML Inference on Microcontrollers (Jaiswal et al., LCTES 2023)."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.papers.minun import figures, latency, planning, trades, widths
from benchmarks.papers.minun.facts import ABSENT
from benchmarks.papers.paper import Cell, Paper, Rows

SECTIONS = (widths, trades, planning, latency, figures)


def _cells() -> Iterator[Cell]:
    for section in SECTIONS:
        yield from section.cells()


def _quick() -> Iterator[Cell]:
    for section in SECTIONS:
        yield from section.quick()


def _body(rows: Rows) -> str:
    return "\n\n".join(section.body(rows) for section in SECTIONS)


PAPER = Paper(
    name="minun",
    title="MinUn: Accurate ML Inference on Microcontrollers (LCTES 2023)",
    cells=_cells,
    quick=_quick,
    body=_body,
    claims=tuple(claim for section in SECTIONS for claim in section.CLAIMS),
    figures={"figure5": figures.draw_figure5, "figure6": figures.draw_figure6},
    absent=ABSENT,
    differs="In every row networks, splits and boards differ from the paper's: see the last table.",
)
