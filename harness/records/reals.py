"""The real values of recorded outputs, from the text of their format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from tinyhil.formats import FORMATS, minifloat
from tinyhil.formats.affine import Affine
from tinyhil.formats.codec import dequantize, storage_dtype
from tinyhil.formats.format import Format

# Numbers that a format of a record can have: others would overflow where values are made of them.
SCALED = re.compile(r"^(?P<name>[\w-]+) \* 2\^(?P<exponent>-?[0-4]?\d?\d)$", re.ASCII)
SHIFTED = re.compile(
    r"^int(?P<bits>8|16) \* (?P<scale>\d+(?:\.\d+)?(?:e[+-]?\d\d?)?), zero (?P<zero>-?\d{1,5})$", re.ASCII
)


def real_outputs(outputs: Sequence[str], text: str) -> np.ndarray | None:
    """Outputs (samples, elements) of hexadecimal codes in the format that `text` names; None for unknown formats."""
    fmt = format_of(text)
    if fmt is None or not outputs:
        return None
    rows = [np.frombuffer(bytes.fromhex(row), storage_dtype(fmt)).astype(np.int64) for row in outputs]
    return dequantize(np.array(rows), fmt) if len({len(row) for row in rows}) == 1 else None


def format_of(text: str) -> Format | None:
    """The format that prints as `text`; scales of asymmetric integers as precisely as they are printed."""
    scaled, shifted = SCALED.match(text), SHIFTED.match(text)
    if scaled is not None:
        known = _by_text().get(scaled["name"]) or _general(scaled["name"])
        return None if known is None else replace(known, exponent=int(scaled["exponent"]))  # type: ignore[type-var]
    if shifted is not None:
        return Affine(int(shifted["bits"]), float(shifted["scale"]), int(shifted["zero"]))
    return None


def _general(name: str) -> Format | None:
    found = minifloat.parse(name)
    return None if found is None else found.fit(1.0)


@cache
def _by_text() -> dict[str, Format]:
    """Formats of one scale by what they print as before it."""
    found: dict[str, Format] = {}
    for named in FORMATS:
        if named.fit_values is None and named.fit_range is None:
            fitted = named.fit(1.0)
            found.setdefault(str(fitted).split(" * ")[0], fitted)
        if named.fit_positive is not None:
            positive = named.fit_positive(1.0)
            found.setdefault(str(positive).split(" * ")[0], positive)
    return found
