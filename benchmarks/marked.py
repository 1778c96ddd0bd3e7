"""Tables between two markers of a Markdown file, with the commit that was measured."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tools.measured import line_of


def replace_between(path: Path, begin: str, end: str, text: str, measured_at: Mapping[str, str]) -> None:
    """Put `text` between the markers, and `provenance()` from before the measurement below it; exit with a message
    where a marker is missing."""
    old = path.read_text(encoding="utf-8")
    if begin not in old or end not in old:
        sys.exit(f"{path}: the markers {begin!r} and {end!r} are missing")
    before, after = old.split(begin)[0], old.split(end)[1]
    path.write_text(f"{before}{begin}\n{text}\n\n{line_of(measured_at)}\n{end}{after}", encoding="utf-8")
