"""Hooks of mkdocs: links that leave docs/ lead into the repository, and the page of all figures is made."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # mkdocs loads this file by its path
from tools.figures import PAGE, figures_page

LINK = re.compile(r"\]\((?P<path>(?:\.\./)+[^)#]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """With the page that nobody writes by hand: its history is git's."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=figures_page(config.repo_url)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """`../README.md` and its like become addresses; links between pages stay."""
    folder = posixpath.dirname(page.file.src_uri)

    def address(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, found["path"]))
        if path.startswith("docs/"):
            return found[0]
        return f"]({config.repo_url.rstrip('/')}/blob/main/{path}{found['anchor'] or ''})"

    return LINK.sub(address, markdown)
