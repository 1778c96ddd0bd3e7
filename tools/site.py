"""Hook of mkdocs: links that leave docs/ lead into the repository."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\]\((?P<path>(?:\.\./)+[^)#]+)(?P<anchor>#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """`../README.md` and its like become addresses; links between pages stay."""
    folder = posixpath.dirname(page.file.src_uri)

    def address(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, found["path"]))
        if path.startswith("docs/"):
            return found[0]
        return f"]({config.repo_url.rstrip('/')}/blob/main/{path}{found['anchor'] or ''})"

    return LINK.sub(address, markdown)
