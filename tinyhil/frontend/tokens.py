"""Text of the DSL -> tokens with their line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tinyhil.errors import ModelError

MAX_NUMBER_LENGTH = 40
MAX_NAME_LENGTH = 200
KEYWORDS = ("input", "let", "in", "loop")
INFINITE = "inf"  # a number: masks hold it
BEYOND = "a number beyond the range of float32; scale it"
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|//[^\n]*)
      | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf(?![A-Za-z_0-9]))
      | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
      | (?P<string>"[^"\n]*")
      | (?P<mark>\^T(?![A-Za-z_0-9])|<\*>|<\+>|<->|\|\*\||:\+|>=|<=|==|[-+*/()\[\]{},=:;?<>$])
    """,
    re.VERBOSE,
)


class DslError(ModelError):
    """An error at a place in a DSL text; the message begins with line and column."""


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, counted from 1."""

    line: int
    column: int

    def error(self, message: str) -> DslError:
        """A DslError that begins with `line:column`."""
        return DslError(f"{self.line}:{self.column}: {message}")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is number, name, keyword, string, mark or end."""

    kind: str
    text: str
    at: Place

    def __str__(self) -> str:
        return "the end of the file" if self.kind == "end" else f"'{self.text[:40]}'"


def tokens(text: str) -> Iterator[Token]:
    """Every token of `text`, an `end` token last; DslError at the first character that belongs to none."""
    position, line, line_start = 0, 1, 0
    while position < len(text):
        at = Place(line, position - line_start + 1)
        found = _TOKEN.match(text, position)
        if found is None:
            raise at.error(f"{text[position]!r} does not belong here; the grammar is in `hil docs dsl`")
        kind, said = str(found.lastgroup), found.group()
        position = found.end()
        if kind == "space":
            breaks = said.count("\n")
            line, line_start = line + breaks, found.start() + said.rfind("\n") + 1 if breaks else line_start
            continue
        if kind == "number" and len(said) > MAX_NUMBER_LENGTH:
            raise at.error(f"a number of {len(said)} characters, the limit is {MAX_NUMBER_LENGTH}; round it")
        if kind == "name" and len(said) > MAX_NAME_LENGTH:
            raise at.error(f"a name of {len(said)} characters, the limit is {MAX_NAME_LENGTH}; shorten it")
        yield Token("keyword" if said in KEYWORDS else kind, said, at)
    yield Token("end", "", Place(line, position - line_start + 1))
