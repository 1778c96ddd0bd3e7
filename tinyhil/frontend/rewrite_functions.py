"""Rewrites of functions: whole parts, sine and cosine, Mish."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np

from tinyhil.frontend.rewrite import Results, Rewrite, Site

# sin(2 pi e) / e of e² <= 1/16: least squares at Chebyshev's points, wrong by 6e-8 before float32 rounds
_SINE_NODES = 0.25 * np.cos((np.arange(64) + 0.5) * math.pi / 128)
SINE = tuple(
    np.linalg.lstsq(
        np.stack([_SINE_NODES ** (2 * k + 1) for k in range(5)], axis=1), np.sin(2 * math.pi * _SINE_NODES), rcond=None
    )[0]
)


def _floor(site: Site) -> Results:
    whole = site.make("Truncate", site.input(0))
    return site.last("Sub", whole, site.make("Less", site.input(0), whole))


def _ceil(site: Site) -> Results:
    whole = site.make("Truncate", site.input(0))
    return site.last("Add", whole, site.make("Greater", site.input(0), whole))


def _round(site: Site) -> Results:
    """To nearest, ties to even: one more than floor above a half, and at a half where floor is odd."""
    x, half = site.input(0), site.constant("half", 0.5)
    below = site.make("Floor", x)
    rest, halves = site.make("Sub", x, below), site.make("Mul", below, half)
    even = site.make("Equal", site.make("Truncate", halves), halves)
    tie = site.make("And", site.make("Equal", rest, half), site.make("Not", even))
    return site.last("Add", below, site.make("Or", site.make("Greater", rest, half), tie))


def _wave(site: Site) -> Results:
    """A cosine of whole turns less the nearest one: sin(2 pi (1/4 - |d|)), an odd polynomial of |e| <= 1/4."""
    turns = site.make("Mul", site.input(0), site.constant("turn", 1 / (2 * math.pi)))
    if site.call.op == "Sin":
        turns = site.make("Sub", turns, site.constant("quarter", 0.25))
    nearest = site.make("Floor", site.make("Add", turns, site.constant("half", 0.5)))
    distance = site.make("Abs", site.make("Sub", turns, nearest))
    e = site.make("Sub", site.constant("quarter", 0.25), distance)
    square = site.make("Mul", e, e)
    terms = [site.constant("term", number) for number in reversed(SINE)]
    slope = reduce(lambda sum_, term: site.make("Add", site.make("Mul", sum_, square), term), terms)
    return site.last("Mul", e, slope)


def _mish(site: Site) -> Results:
    x = site.input(0)
    return site.last("Mul", x, site.make("Tanh", site.make("Softplus", x)))


REWRITES = (
    Rewrite("Floor", "exact on the quantized value", _floor),
    Rewrite("Ceil", "exact on the quantized value", _ceil),
    Rewrite("Round", "to nearest, ties to even; exact on the quantized value", _round),
    Rewrite("Sin", "a polynomial of the distance to the nearest turn", _wave),
    Rewrite("Cos", "a polynomial of the distance to the nearest turn", _wave),
    Rewrite("Mish", "as Softplus, Tanh and Mul", _mish),
)
