"""Rows of a comparison as text, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from tinyhil.harness.records.side_by_side import APART, BETTER, CHANGED, EQUAL, WORSE, Row
from tinyhil.quoting import markdown

if TYPE_CHECKING:
    from tinyhil.harness.records.compare import Compared

TITLES = ("", "before", "now", "change", "")
MARKS = {EQUAL: "", BETTER: "better", WORSE: "worse", CHANGED: "changed", APART: "not comparable"}
LONGEST = 44  # characters of a cell on a terminal
BEHIND = 12  # of what two long ones share are shown
FORMATS = ("text", "md", "html")


def tables_of(found: Sequence[Compared], alone: Sequence[str], form: str, equal: bool) -> str:
    """All comparisons in a form of FORMATS: what the gates say, then the table."""
    parts = []
    for one in found:
        rows = shown(one.rows, equal)
        counted = f"{len(one.failing)} of {len(one.differences)} differences fail"
        said = f"{one.name}: {counted if one.differences else 'equal'}"
        notes = [f"{'FAIL' if d in one.failing else 'note'} {d}" for d in one.differences]
        if form == "text":
            parts.append("\n".join([said, *(f"  {note}" for note in notes)]))
            parts += [as_text("", rows).lstrip("\n")] if rows else []
        elif form == "md":
            parts.append("\n".join([as_markdown(said, rows), "", *(f"- {markdown(note)}" for note in notes)]))
        else:
            items = "".join(f"<li>{escape(note)}</li>" for note in notes)
            parts.append(as_html(said, rows) + f"<ul>{items}</ul>")
    if form == "html":
        style = Path(__file__).parent.parent.joinpath("report", "style.css").read_text(encoding="utf-8")
        return page_of([*parts, *(f"<p>{escape(line)}</p>" for line in alone)], style).rstrip("\n")
    return "\n".join([*parts, *alone])


SUMMARY = (
    "verdict",
    "median",
    "max",
    "RAM at",
    "RAM B",
    "static",
    "flash B",
    "accuracy",
    "outputs",
    "largest",
    "disagreements",
)


def summary(rows: Sequence[Row]) -> list[Row]:
    """What people ask first of two models: cycles, RAM, flash, accuracy, outputs; equal ones included."""
    return [row for row in shown(rows, equal=True) if row.what.startswith(SUMMARY)]


def shown(rows: Sequence[Row], equal: bool = False) -> list[Row]:
    """What changed or may not be compared; `equal`: all that is known."""
    return [row for row in rows if (row.before or row.now or row.why) and (equal or row.status != EQUAL)]


def as_text(name: str, rows: Sequence[Row]) -> str:
    """Columns for a terminal."""
    cells = [TITLES, *(_cells(row) for row in rows)]
    cells = [(_cut(what), *_cut_apart(*pair), _cut(change), so) for what, *pair, change, so in cells]
    widths = [max(len(line[column]) for line in cells) for column in range(len(TITLES))]
    lines = []
    for line in cells:
        texts = [
            f"{text:<{width}}" if column in (0, 4) else f"{text:>{width}}"
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  " + "  ".join(texts).rstrip())
    return "\n".join([name, *lines])


def as_markdown(name: str, rows: Sequence[Row]) -> str:
    """For a pull request or $GITHUB_STEP_SUMMARY."""
    if not rows:
        return f"### {markdown(name)}\n\nNothing has changed."
    lines = [f"### {markdown(name)}", "", "| | before | now | change | |", "|---|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(markdown(cell) for cell in _cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def as_html(name: str, rows: Sequence[Row]) -> str:
    """A table; the page around it is `page_of`'s."""
    head = "".join(f'<th scope="col">{title}</th>' for title in ("figure", *TITLES[1:-1], "so it is"))
    body = []
    for row in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in _cells(row)[1:])
        body.append(f'<tr class="{row.status.replace(" ", "-")}"><th scope="row">{escape(row.what)}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table class="changes"><caption>{escape(name)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def page_of(tables: Sequence[str], style: str) -> str:
    """Tables as a page of their own."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>hil compare</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style></head><body><main>{''.join(tables)}</main></body></html>\n"
    )


def _cells(row: Row) -> tuple[str, ...]:
    mark = MARKS[row.status]
    return row.what, row.before, row.now, row.change, f"{mark}: {row.why}" if row.why else mark


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _cut_apart(before: str, now: str) -> tuple[str, str]:
    """Both cut, such that they are seen to differ."""
    first = next((at for at, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), 0)
    start = max(0, min(first - BEHIND, max(len(before), len(now)) - LONGEST + 1))
    mark = "…" if start else ""
    return _cut(mark + before[start:]), _cut(mark + now[start:])
