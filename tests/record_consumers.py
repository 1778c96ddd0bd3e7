"""Everything that reads records, as functions of files of them; and records with one thing wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tinyhil.errors import HilError
from tinyhil.harness.measure.golden import read_golden
from tinyhil.harness.records import exports
from tinyhil.harness.records.compare import compared, differences, newest
from tinyhil.harness.records.render import FORMATS, tables_of
from tinyhil.harness.records.schema import read_any
from tinyhil.harness.records.verdict import exit_code_of, gate_line, verdict_of
from tinyhil.harness.records.view import Record as View
from tinyhil.harness.report.run_sections import run_article
from tinyhil.harness.report.search_sections import search_article
from tinyhil.harness.sweep.cell import Cell
from tinyhil.harness.sweep.table import Row, as_html, as_markdown

CELL = Cell("m", "uno", ("fixed8",), None, {}, {}, (), ())
WRONG: tuple[Any, ...] = (
    *(None, True, "zz", "", -1, 0, 3, 10**400, -(10**400), 1.5, 1e308, -1e308, 5e-324, [], {}),
    *([{}], ["zz"], [[1, 2, 3]], [None], {"a": None}, {"a": {"b": []}}, "\ud800", "x" * 200_000, [[]] * 3),
)


def consume(path: Path, beside: Path) -> None:
    """Show, judge, compare and export the record in `path`; another in `beside` is compared with it. HilError if the
    file is no record."""
    record = read_any(path)
    if "strategy" in record:
        search_article(record, str(path), "a").encode()
        return
    run_article(record, str(path), "a").encode()
    verdict_of(record), exit_code_of(record), gate_line(record)
    for pair in ((path, beside), (beside, path), (path, path)):
        found = compared(*pair)
        for form in FORMATS:
            tables_of([found], [], form, equal=True).encode()
        json.dumps(found.as_json(), allow_nan=False)
    differences(record, record)
    newest(path.parent)
    for text in (
        exports.as_markdown([record]),
        exports.as_csv([record]),
        repr(View(record)),
        View(record)._repr_html_(),
    ):
        text.encode()
    refused(lambda: json.dumps(exports.as_trace(record), allow_nan=False))
    refused(lambda: json.dumps(exports.as_overlay(record), allow_nan=False))
    refused(lambda: read_golden(path))
    refused(lambda: _in_a_table(path))


def _in_a_table(path: Path) -> None:
    outcome = {"exit_code": 0, "error": None, "record": path.name, "seconds": 1.0}
    row = Row.of(CELL, outcome, path.parent)
    as_markdown([row]).encode()
    as_html([row]).encode()
    json.dumps(row.as_json(), allow_nan=False)


def refused(what: Any) -> None:
    """What a consumer does that not every record is meant for."""
    try:
        what()
    except HilError as error:
        assert "\n" not in str(error)  # noqa: PT017


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything inside: of a long list to its first and last two."""
    if way:
        yield way
    inner: Sequence[Any] = list(value) if isinstance(value, dict) else ()
    if isinstance(value, list):
        inner = sorted({*range(min(2, len(value))), *range(max(0, len(value) - 1), len(value))})
    for key in inner:
        yield from places(value[key], (*way, key))


def damaged(record: Any, way: Sequence[Any], wrong: Any, gone: bool = False) -> Any:
    """A copy in which something else is at the end of `way`, or nothing."""
    found = copy.deepcopy(record)
    inside = found
    for key in way[:-1]:
        inside = inside[key]
    if gone:
        del inside[way[-1]]
    else:
        inside[way[-1]] = wrong
    return found
