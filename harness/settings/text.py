"""Names made fit for a line."""

from __future__ import annotations

LONGEST_NAME = 48  # characters of a tensor's name in a line with others


def in_short(name: str) -> str:
    """`name` with an ellipsis for its middle if it is long: TensorFlow Lite joins the names of all that was fused."""
    half = (LONGEST_NAME - 1) // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[-half:]}"
