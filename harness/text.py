"""Text that may come from a device, or from a program that talks to one, made fit for a terminal."""

from __future__ import annotations

LONGEST = 2000  # characters of one line for people


def printable(text: str, longest: int = LONGEST) -> str:
    """`text` in one line: control characters (escape sequences, bells, carriage returns) become `?`, the end is cut."""
    clean = "".join(character if character.isprintable() else _stand_in(character) for character in text[: longest + 1])
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def _stand_in(character: str) -> str:
    return " " if character in "\n\t" else "?"
