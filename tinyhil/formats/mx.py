"""FP6 of the OCP Microscaling specification (2023): the two element formats between FP4 and FP8."""

from __future__ import annotations

from functools import partial

from tinyhil.formats.format import NamedFormat
from tinyhil.formats.minifloat import Minifloat, fit

E3M2 = Minifloat(3, 2, 3)
E2M3 = Minifloat(2, 3, 1)

NAMED = tuple(
    NamedFormat(name, shape.bits, summary, partial(fit, shape=shape))
    for name, shape, summary in (
        ("fp6e3m2", E3M2, "FP6 E3M2: largest 28"),
        ("fp6e2m3", E2M3, "FP6 E2M3: largest 7.5"),
    )
)
