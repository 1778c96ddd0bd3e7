"""docs/measured/search.md holds the tables of the committed figures, and `--docs` changes nothing else in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.search.pages import PAGE, PAGES, RESULTS, with_tables

ROOT = Path(__file__).resolve().parent.parent
TABLES = [*RESULTS.glob("*.json"), *RESULTS.parent.glob("*.json")]
HASH = re.compile(r"[0-9a-f]{40}")


def test_the_page_is_that_of_the_figures() -> None:
    assert with_tables(PAGE.read_text()) == PAGE.read_text()


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


@pytest.mark.parametrize("path", sorted(TABLES), ids=lambda path: path.stem)
def test_figures_say_which_commit_they_are_of(path: Path) -> None:
    found = json.loads(path.read_text())
    provenance = found["provenance"]
    assert HASH.fullmatch(provenance.get("commit") or provenance["committed_with"])
    assert len(found) > 1
    assert path.parent != RESULTS or path.stem in {*PAGES, "op_costs"}
