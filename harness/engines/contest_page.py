"""A comparison of engines as one page that needs no network: what ours loses first."""

from __future__ import annotations

from collections.abc import Sequence

from tinyhil.harness.engines.standing import COLUMNS, Row, cells_of, failures, losses, ratios
from tinyhil.harness.report.html import Cell, escape, section, table
from tinyhil.harness.report.page import document

LEFT = ("network", "board", "engine", "decides otherwise", "equal to ours", "first to differ")  # columns of no figures


def contest_page(rows: Sequence[Row]) -> str:
    """HTML of rows as comparison.rows_of gives them. ConfigError without the library of charts."""
    cells = [[_cell(name, text) for name, text in zip(COLUMNS, texts, strict=True)] for texts in cells_of(rows)]
    parts = (
        section("What ours loses", _listed(list(map(str, losses(rows)))) or "<p>No cycles, RAM or flash.</p>"),
        section("Beside ours", _listed(ratios(rows))),
        section("Measured", table(COLUMNS, cells) if cells else ""),
        section("Not measured", _listed(failures(rows))),
    )
    return document(title="Engines side by side", body="".join(parts))


def _cell(name: str, text: str) -> Cell:
    if name in LEFT or not text:
        return Cell(text)
    return Cell(text, float(text.split()[0].replace(",", "")))


def _listed(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in lines)}</ul>" if lines else ""
