"""Hooks of mkdocs: links out of docs/ lead into the repository, words that a newcomer lacks to the glossary; the page
of all figures is made."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.plugins import event_priority

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # mkdocs loads this file by its path
from tools import reference
from tools.figures import PAGE, figures_page

LINK = re.compile(r"\]\((?P<path>(?:\.\./)+[^)#]+)(?P<anchor>#[^)]*)?\)")


def repository(config: Any) -> str:
    """The address of the sources."""
    return str(config.extra["social"][0]["link"]).rstrip("/")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """With the pages that nobody writes by hand: what git and the code say."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=figures_page(repository(config))))
    files.append(File.generated(config, reference.COMMANDS, content=reference.commands_page()))
    files.append(File.generated(config, reference.PYTHON, content=reference.python_page()))
    return files


# Words that a newcomer lacks, as pages write them, and the glossary's word
WORDS = {
    "arena": "arena",
    "lowered": "lowering",
    "lowering": "lowering",
    "instant": "instant",
    "instants": "instant",
    "disagreement": "disagreement",
    "disagreements": "disagreement",
    "golden record": "golden record",
    "golden records": "golden record",
    "saturations": "saturation",
    "calibration": "calibration",
}
WORD = re.compile(rf"(?<![\w`\[/#-])({'|'.join(sorted(WORDS, key=len, reverse=True))})(?![\w`\]/-])")
ROW = re.compile(r"^\| ([a-z][\w ]*?)((?:,| \()[^|]*)? \|", re.MULTILINE)
APART = re.compile(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))")  # code and links


def anchor(word: str) -> str:
    """Of a word in the glossary."""
    return word.replace(" ", "-")


def with_words_linked(markdown: str, folder: str) -> str:
    """The first use of each of WORDS in running text leads to the glossary."""
    base = posixpath.relpath("glossary.md", folder or ".")
    known: set[str] = set()
    fenced, lines = False, []
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        if fenced or line.startswith(("```", "#", "|", "<", "    ")):
            lines.append(line)
            continue
        parts = APART.split(line)
        lines.append("".join(part if n % 2 else _linked(part, base, known) for n, part in enumerate(parts)))
    return "\n".join(lines)


def with_code_apart(markdown: str) -> str:
    """A blank line behind each block of code: without one, mkdocs makes no paragraph of the text that follows."""
    fenced, lines = False, list[str]()
    for line in markdown.split("\n"):
        if lines and not fenced and lines[-1].startswith("```") and line.strip():
            lines.append("")
        fenced ^= line.startswith("```")
        lines.append(line)
    return "\n".join(lines)


def _linked(text: str, base: str, known: set[str]) -> str:
    def link(found: re.Match[str]) -> str:
        word = WORDS[found[1]]
        if word in known:
            return found[1]
        known.add(word)
        return f"[{found[1]}]({base}#{anchor(word)})"

    return WORD.sub(link, text)


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """`../README.md` and its like become addresses; links between pages stay."""
    folder = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri == "glossary.md":
        return ROW.sub(lambda row: f'| <a id="{anchor(row[1])}"></a>{row[1]}{row[2] or ""} |', markdown)
    markdown = with_code_apart(with_words_linked(markdown, folder))

    def address(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, found["path"]))
        if path.startswith("docs/"):
            return found[0]
        return f"]({repository(config)}/blob/main/{path}{found['anchor'] or ''})"

    return LINK.sub(address, markdown)


@event_priority(-100)  # after the search has written its index
def on_post_build(config: Any, **_: Any) -> None:
    """The index as a script, too: pages opened from a folder may not fetch it (docs/assets/offline.js)."""
    folder = Path(config.site_dir) / "search"
    index = (folder / "search_index.json").read_text(encoding="utf-8")
    (folder / "search_index.js").write_text(f"var __index = {index}", encoding="utf-8")
