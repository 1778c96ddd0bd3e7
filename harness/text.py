"""Text that may come from a device, or from a program that talks to one, made fit for a terminal."""

from __future__ import annotations

LONGEST = 2000  # characters of one line for people
LONGEST_NAME = 48  # characters of a tensor's name in a line with others


def printable(text: str, longest: int = LONGEST) -> str:
    """`text` in one line: control characters (escape sequences, bells, carriage returns) become `?`, the end is cut."""
    clean = "".join(character if character.isprintable() else _stand_in(character) for character in text[: longest + 1])
    return clean if len(clean) <= longest else clean[: longest - 1] + "…"


def in_short(name: str) -> str:
    """`name` with an ellipsis for its middle if it is long: TensorFlow Lite joins the names of all that was fused."""
    half = (LONGEST_NAME - 1) // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


def _stand_in(character: str) -> str:
    return " " if character in "\n\t" else "?"
