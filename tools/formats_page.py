"""docs/formats.md but for how ranges are cut: what is known of every format (tinyhil/harness/offline/formats.py)."""

from __future__ import annotations

import re
import textwrap
from collections import Counter

from tinyhil.formats.minifloat import GENERAL
from tinyhil.harness.offline.formats import Facts, all_facts, titles

COSTS = "Cycles, RAM and flash: [measured](measured/formats.md)."
SERIES = 4  # formats that differ in numbers alone: with more, the page shows those of SHOWN bits
SHOWN = (8, 16, 32)


def page() -> str:
    """Text of docs/formats.md."""
    text = [
        "# Number formats",
        "",
        "What formats hold, by `python -m tools.docs`; `hil formats` prints every one. Constants below 8 bits",
        "are packed; other values take a byte or more.",
        *textwrap.wrap(f"{GENERAL}.", 120),
        "",
        "A format is fitted to its tensor: fixed point, minifloats and posits by a power of two, asymmetric integers",
        "by a scale and a zero point. *Largest* and *smallest* (positive magnitude) and the significant bits at 1/2",
        "are those of a tensor whose largest magnitude is just below 1. Formats for weights (codebooks, and those with",
        "a scale per output channel) hold the matrices; other values get the format named beside them, fixed16 for",
        "codebooks.",
        "Rounding, saturation, NaN and the errors of functions: [the numeric contract](numerics.md).",
        "",
    ]
    found, called = all_facts(), titles()
    for name in dict.fromkeys(fact.family for fact in found):
        text += [f"## {called[name]}", "", f"![values and precision](formats/{name}.svg)", ""]
        text += _family([fact for fact in found if fact.family == name])
    text += [COSTS, ""]
    return "\n".join(text)


def _family(found: list[Facts]) -> list[str]:
    """Its table; of a series of formats what they are called, and some."""
    kinds = Counter(_kind(fact) for fact in found)
    long = [fact for fact in found if kinds[_kind(fact)] > SERIES]
    shown = [fact for fact in found if fact not in long or fact.bits in SHOWN]
    text = []
    if long:
        widths = sorted({fact.bits for fact in long})
        text += [
            f"{len(long)} formats from `{long[0].name}` to `{long[-1].name}`, of {_spans(widths)} bits, such as:",
            "",
        ]
    text += ["| Format | Bits | Largest | Smallest | Significant bits | |", "|---|---|---|---|---|---|"]
    for fact in shown:
        cells = [f"`{fact.name}`", str(fact.bits), f"{fact.largest:.4g}", f"{fact.smallest:.3g}", f"{fact.digits:.1f}"]
        text.append(f"| {' | '.join([*cells, fact.summary])} |")
    return [*text, ""]


def _kind(fact: Facts) -> str:
    return re.sub(r"\d+", "", fact.summary)


def _spans(widths: list[int]) -> str:
    """'2 to 16 and 32' of 2, 3, ..., 16, 32."""
    ends = [first for first in widths if first - 1 not in widths]
    spans = [(first, next(last for last in widths if last >= first and last + 1 not in widths)) for first in ends]
    return " and ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans)
