"""docs/measured/search.md holds the tables of the committed figures, and `--docs` changes nothing else in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.search.pages import PAGE, PAGES, RESULTS, with_tables
from tools.stale import unmarked

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_is_that_of_the_figures() -> None:
    text = unmarked(PAGE.read_text())
    assert unmarked(with_tables(text)) == text


@pytest.mark.parametrize(
    ("there", "damaged"),
    [
        ("<!-- truth: end -->", ""),
        ("<!-- truth: begin -->", ""),
        ("<!-- truth: begin -->\n", "<!-- truth: begin -->\n<!-- truth: end -->\n\n"),
    ],
)
def test_nothing_is_lost_where_a_marker_is(there: str, damaged: str) -> None:
    with pytest.raises(ValueError, match="'truth' must stand between two markers"):
        with_tables(PAGE.read_text().replace(there, damaged))


def test_every_table_of_a_search_is_on_the_page() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} == {*PAGES, "op_costs"}
