"""Formats on offer, from text: names, and families of posits whose es the search is to find."""

from __future__ import annotations

import re

# MinUn, phase I: es of 8-bit posits from {0, 2}, of 16-bit posits from {1, 2}
ES_CHOICES = {8: (0, 2), 16: (1, 2)}
OTHER_ES = (0, 1, 2)


def family(name: str) -> tuple[str, ...]:
    """The formats that `posit8` stands for; empty for what is no family."""
    bits = re.fullmatch(r"posit(\d+)", name.strip())
    return () if bits is None else tuple(f"{bits[0]}es{es}" for es in ES_CHOICES.get(int(bits[1]), OTHER_ES))


def formats_on_offer(text: str) -> list[str]:
    """Names between commas; `posit8` stands for its es on offer. Unknown names are left to the registry to refuse."""
    names = [part.strip() for part in text.split(",")]
    return [one for name in names for one in family(name) or (name,)]


def stands_for(text: str) -> str:
    """What there is to say of the families among names between commas; empty where there are none."""
    found = {name.strip(): family(name) for name in text.split(",")}
    return "; ".join(f"{name} stands for {', '.join(formats)}" for name, formats in found.items() if formats)
