"""Strings of others (devices, files, models) in the languages of tools: written so that they are read as what they are,
or refused. Whatever reaches a command line that is more than a list of words, or a file that others interpret, comes
through here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from tinyhil.errors import HilError

LONGEST = 2000  # characters of one line for people
FORMULA = ("=", "+", "-", "@")  # begins a formula in a spreadsheet's cell
MARKDOWN = re.compile(r"[\\`*\[\]!~|]|:(?=//)|(?<=www)\.", re.IGNORECASE)  # links of GitHub's, too
IN_PATHS = "/._-+,=:@ ~"  # beside letters and digits, of any language


def printable(text: str, longest: int = LONGEST) -> str:
    """`text` in one line: control characters (escape sequences, bells, carriage returns) become `?`, the end is cut."""
    clean = "".join(character if character.isprintable() else _stand_in(character) for character in text[: longest + 1])
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def _stand_in(character: str) -> str:
    return " " if character in "\n\t" else "?"


def tcl_word(text: str, what: str, error: type[HilError]) -> str:
    """One word of Tcl (openocd), which does nothing within braces but count them; `error` names what it can not hold.

    openocd's `program`, which evaluates its file's name, puts braces around it since 0.12, which is asked for.
    Source: rules 6 and 9 of the Tcl manual page.
    """
    _refuse(text, lambda c: c.isprintable() and c not in "{}\\", what, "openocd", error)
    return f"{{{text}}}"


def monitor_path(path: Path, error: type[HilError]) -> str:
    """A path as Renode's monitor reads it: blanks are escaped, a semicolon would end the statement."""
    return "@" + plain_path(path, "Renode", error).replace(" ", "\\ ")


def plain_path(path: Path, reader: str, error: type[HilError]) -> str:
    """An absolute path for a program that hands it to a language of its own (PlatformIO: SCons and a shell)."""
    text = str(path.absolute())
    _refuse(text, lambda c: c.isalnum() or c in IN_PATHS, "the path", reader, error)
    return text


def _refuse(text: str, fits: Callable[[str], bool], what: str, reader: str, error: type[HilError]) -> None:
    for character in text:
        if not fits(character):
            raise error(f"{what} {printable(text, 200)!r}: {reader} takes no {character!r} there; use another")


def yaml_word(text: str) -> str:
    """One scalar of YAML: its double-quoted strings take those of JSON."""
    return json.dumps(text)


def markdown(text: str) -> str:
    """Text in Markdown that is nothing but text: no link, no picture, no tag, no end of a cell."""
    return escape(MARKDOWN.sub(r"\\\g<0>", printable(text)), quote=False)


def csv_cell(value: object) -> object:
    """A cell that a spreadsheet takes for no formula: a text that begins one gets an apostrophe before it."""
    clean = printable(value) if isinstance(value, str) else value
    return f"'{clean}" if isinstance(clean, str) and clean.lstrip().startswith(FORMULA) else clean
