"""Formats on offer, from text: names, and families of posits whose es the search is to find."""

from __future__ import annotations

import re

# MinUn, phase I: es of 8-bit posits from {0, 2}, of 16-bit posits from {1, 2}
ES_CHOICES = {8: (0, 2), 16: (1, 2)}
OTHER_ES = (0, 1, 2)


def formats_on_offer(text: str) -> list[str]:
    """Names between commas; `posit8` stands for its es on offer. Unknown names are left to the registry to refuse."""
    found: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        family = re.fullmatch(r"posit(\d+)", name)
        if family is None:
            found.append(name)
            continue
        bits = int(family[1])
        found += [f"posit{bits}es{es}" for es in ES_CHOICES.get(bits, OTHER_ES)]
    return found
