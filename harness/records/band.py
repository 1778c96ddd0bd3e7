"""What is known of a modelled time: between which two the chip's lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def time_text(us: float) -> str:
    """A time in the unit that suits it."""
    return f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.2f} us"


def band(latency: Mapping[str, Any]) -> str:
    """ ", on the chip between A and B" if a record's latency is that of a model; empty if it is exact or measured."""
    if "low" not in latency:
        return ""
    low, high = (time_text(1e6 * latency[end] / latency["clock_hz"]) for end in ("low", "high"))
    return f", on the chip between {low} and {high}"


def us_text(us: float) -> str:
    """Microseconds as a limit of them is typed: an accelerator takes one or two, an Uno a million."""
    return f"{us:,.4g} us" if us < 100 else f"{us:,.0f} us"
