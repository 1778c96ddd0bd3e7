"""Tables between two markers of a Markdown file."""

from __future__ import annotations

import sys
from pathlib import Path


def replace_between(path: Path, begin: str, end: str, text: str) -> None:
    """Put `text` between the markers; exit with a message where one is missing."""
    old = path.read_text(encoding="utf-8")
    if begin not in old or end not in old:
        sys.exit(f"{path}: the markers {begin!r} and {end!r} are missing")
    before, after = old.split(begin)[0], old.split(end)[1]
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
