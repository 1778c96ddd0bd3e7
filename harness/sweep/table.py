"""A sweep as one table: a row per cell, for a terminal, Markdown, a page and other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinyhil.harness.records.exports import FIGURES, MARKS, figures_of
from tinyhil.harness.records.figures import at_worst
from tinyhil.harness.records.schema import Run, read_record
from tinyhil.harness.records.search_schema import MIXTURE
from tinyhil.harness.records.verdict import issue_texts, verdict_of
from tinyhil.harness.sweep.cell import Cell
from tinyhil.quoting import markdown

TITLES = ("model", "board", "formats", "strategy", "--prefer", *FIGURES, "result")
FIRST = TITLES.index(FIGURES[0])
HALF = " (searched half of these samples)"


@dataclass(frozen=True, slots=True)
class Row:
    """A cell with what became of it. `folder`: where its files are. `record` None: it failed before there was one.
    `replaced`: the format for all tensors that stands in place of what the strategy chose."""

    cell: Cell
    outcome: Mapping[str, Any]
    folder: Path
    record: Mapping[str, Any] | None
    replaced: str | None = None

    @classmethod
    def of(cls, cell: Cell, outcome: Mapping[str, Any], folder: Path) -> Row:
        """The row of an outcome, its records read from `folder`."""
        record, search, replaced = outcome.get("record"), outcome.get("search"), None
        if search is not None:
            with suppress(OSError, ValueError, AttributeError):  # of another version, or cut off
                own = json.loads((folder / search).read_text(encoding="utf-8")).get("replaced")
                replaced = None if own is None else own.get("by") or "one format"
        read = None if record is None else read_record(folder / record, Run)
        return cls(cell, outcome, folder, read, replaced)

    @property
    def exit_code(self) -> int:
        """That of `hil run` or `hil search` for this cell (docs/cli.md)."""
        return int(self.outcome["exit_code"])

    @property
    def error(self) -> str | None:
        """Why it failed."""
        found: str | None = self.outcome["error"]
        return found

    @property
    def one_format(self) -> str:
        """`fixed8 for all`, where a search among several has chosen one; empty elsewhere."""
        found = "" if self.record is None else str(self.record["format"])
        return f"{found} for all" if self.cell.strategy and found in self.cell.formats else ""

    @property
    def prefer(self) -> str | None:
        """What its plan of memory is of."""
        return None if self.record is None else (self.record.get("plan") or {}).get("prefer")

    @property
    def result(self) -> str:
        """The verdict, or that it failed."""
        if self.record is None or self.error:
            return f"failed ({self.exit_code})"
        return str(verdict_of(self.record)["verdict"])

    @property
    def reasons(self) -> list[str]:
        """Why it failed or, of a record that is no valid one, its issues; and what else its figures can be misread
        without."""
        if self.record is None or self.error:
            return [self.error] if self.error else []
        return [*issue_texts(self.record), *self.outcome.get("warnings", ())]

    @property
    def texts(self) -> tuple[str, ...]:
        """Under TITLES."""
        cell = self.cell
        figures = ["–"] * len(FIGURES) if self.record is None else figures_of(self.record)
        board = cell.board + (
            " (emulated)" if self.record and self.record["emulator"] and "@" not in cell.board else ""
        )
        formats, strategy = ", ".join(cell.formats), cell.strategy or ""
        answer = self.replaced if self.record is None or self.replaced == MIXTURE else self.one_format
        strategy += f": {answer}" if strategy and answer else ""
        given = cell.order.get("search") or {}
        strategy += HALF if given.get("inputs") and not given.get("calibrate") else ""
        return (cell.model, board, formats, strategy, self.prefer or "", *figures, self.result)

    def as_json(self) -> dict[str, Any]:
        """What the table says, as numbers, and where the files are."""
        cell, record = self.cell, self.record
        known: dict[str, Any] = {}
        if record is not None:
            latency, memory = record["latency"], record["memory"]
            names = ("bit_exact", "samples", "disagreements", "accuracy", "float_accuracy", "flash_bytes")
            known = {key: record[key] for key in names}
            known |= {"latency": latency["median"], "unit": latency["unit"], "latency_us": latency.get("median_us")}
            known |= {"ram_bytes": memory.get("total_bytes"), "ram_at_worst_bytes": at_worst(memory)}
            known |= {"arena_bytes": memory["arena_bytes"], "input_bytes": memory.get("input_bytes")}
            known |= {"replaced": self.replaced, "format": record["format"]}
            known["prefer"] = self.prefer
        places = {key: self.outcome.get(key) for key in ("record", "search", "assignment")}
        return {
            **{"model": cell.model, "board": cell.board, "formats": list(cell.formats), "strategy": cell.strategy},
            **{"key": cell.key, "exit_code": self.exit_code, "error": self.error, **known},
            "warnings": self.outcome.get("warnings", []),
            **{key: None if path is None else str(self.folder / path) for key, path in places.items()},
            **{key: self.outcome.get(key) for key in ("seconds", "processor_s", "machine", "process")},
        }


def as_markdown(rows: Sequence[Row]) -> str:
    """For a pull request or $GITHUB_STEP_SUMMARY; why a cell failed or is degraded follows below."""
    right = ["---:" if title in FIGURES else "---" for title in TITLES]
    lines = [f"| {' | '.join(TITLES)} |", f"|{'|'.join(right)}|"]
    for row in rows:
        mark = MARKS["invalid"] if row.error else MARKS[row.result]
        *texts, result = map(markdown, row.texts)
        lines.append(f"| {' | '.join(texts)} | {mark} {result} |")
    notes = [f"- {markdown(line)}" for line in reasons(rows)]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def reasons(rows: Sequence[Row]) -> list[str]:
    """Why cells failed or are no valid ones: each reason once, with the first cell that has it and how many others."""
    cells: dict[str, list[str]] = {}
    for row in rows:
        for reason in row.reasons:
            cells.setdefault(reason, []).append(row.cell.title)
    more = {reason: f" and {len(titles) - 1} more" if len(titles) > 1 else "" for reason, titles in cells.items()}
    return [f"{titles[0]}{more[reason]}: {reason}" for reason, titles in cells.items()]


def as_html(rows: Sequence[Row]) -> str:
    """A section at the head of the report."""
    from tinyhil.harness.report.html import Cell as Shown
    from tinyhil.harness.report.html import escape, section, table

    def shown(row: Row) -> list[Shown]:
        keys = [None] * len(TITLES)
        if (record := row.record) is not None:
            sizes = (record["memory"].get("total_bytes"), record["flash_bytes"])
            decided = (record.get("equal_samples"), record["disagreements"], record["accuracy"])
            figures = (*decided, record["latency"]["median"], *sizes)
            keys[FIRST : FIRST + len(FIGURES)] = figures
        texts = row.texts
        return [Shown(text, key) for text, key in zip(texts, keys, strict=True)]

    why = [escape(line) for line in reasons(rows)]
    failed = sum(bool(row.error) for row in rows)
    said = f'<p class="verdict">{failed} of {len(rows)} cells failed.</p>' if failed else ""
    listed = f"<ul>{''.join(f'<li>{line}</li>' for line in why)}</ul>" if why else ""
    return section("Sweep", said + listed + table(TITLES, map(shown, rows)), "Sorted by a click on a title.")


def print_table(rows: Sequence[Row], width: int | None) -> None:
    """On stdout. `width`: None for that of the terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in TITLES:
        table.add_column(title, overflow="fold", justify="right" if title in FIGURES else "left")
    for row in rows:
        table.add_row(*map(Text, row.texts))
    Console(highlight=False, width=width).print(table)
