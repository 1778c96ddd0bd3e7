"""Pieces of HTML. Whatever comes from a record is escaped here."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

FEW = 4  # columns that stand beside each other on a telephone, too


def escape(text: object) -> str:
    """Text as HTML."""
    return html.escape(str(text), quote=True)


@dataclass(frozen=True, slots=True)
class Cell:
    """`text` is shown, `key` sorts; `note`: what a pointer held over it says."""

    text: str
    key: float | None = None
    note: str = ""
    kind: str = ""


def number(value: float | None, digits: int = 0, unit: str = "") -> Cell:
    """A figure with thousands set apart; nothing where it is not known."""
    if value is None:
        return Cell("–", None)
    return Cell(f"{value:,.{digits}f}{unit}", float(value))


def table(
    titles: Sequence[str | tuple[str, str]], rows: Iterable[Sequence[Cell]], caption: str = "", layers: bool = False
) -> str:
    """A table that its reader sorts by its titles, each perhaps with an explanation. `layers`: rows are operations,
    which the page's other pictures point at by their number."""
    rows = list(rows)
    names = [title if isinstance(title, str) else title[0] for title in titles]
    head = []
    for column, title in enumerate(titles):
        name, note = (title, "") if isinstance(title, str) else title
        figures = any(_is_figure(row[column]) for row in rows)
        kind = ' class="number"' if figures else ""
        head.append(f'<th scope="col"{kind} title="{escape(note)}"><button type="button">{escape(name)}</button></th>')
    marks = [f' data-layer="{place}"' if layers else "" for place in range(len(rows))]
    body = "".join(f"<tr{mark}>{''.join(map(_cell, row, names))}</tr>" for mark, row in zip(marks, rows, strict=True))
    kinds = "sortable" if len(names) > FEW else "sortable few"
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll" tabindex="0"><table class="{kinds}">{said}<thead><tr>{"".join(head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _is_figure(cell: Cell) -> bool:
    """Also one that is not known: it stands where figures stand."""
    return cell.key is not None or cell.text == "–"


def _cell(cell: Cell, title: str) -> str:
    classes = " ".join(filter(None, ("number" if _is_figure(cell) else "", cell.kind)))
    note = f' title="{escape(cell.note)}"' if cell.note else ""
    key = "" if cell.key is None else f' data-key="{cell.key!r}"'
    return f'<td class="{classes}" data-title="{escape(title)}"{key}{note}>{escape(cell.text)}</td>'


def pairs(rows: Iterable[tuple[str, object]]) -> str:
    """Names and values, one pair a line."""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    return f'<dl class="pairs">{lines}</dl>'


def section(title: str, body: str, about: str = "") -> str:
    """A section with its title; nothing where there is no body."""
    said = f'<p class="about">{escape(about)}</p>' if about else ""
    return f"<section><h3>{escape(title)}</h3>{said}{body}</section>" if body else ""


def chart(spec: dict[str, Any], label: str) -> str:
    """A place for a chart; the page's script draws it from the specification inside."""
    text = json.dumps(spec, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return (
        f'<figure class="chart" role="img" aria-label="{escape(label)}">'
        f'<script type="application/json">{text}</script><div class="drawn"></div></figure>'
    )
