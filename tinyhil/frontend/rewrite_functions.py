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


def _tan(site: Site) -> Results:
    return site.last("Div", site.make("Sin", site.input(0)), site.make("Cos", site.input(0)))


def _hyperbolic(site: Site) -> Results:
    """Half of e^x plus or minus e^-x; the sinus of small numbers is that of tanh: tanh(x) cosh(x), which cancels
    nothing."""
    up, down = (site.make("Exp", site.input(0), factor=factor) for factor in (1.0, -1.0))
    cosine = site.make("Mul", site.make("Add", up, down), site.constant("half", 0.5))
    return site.last("Mul", site.make("Tanh", site.input(0)), cosine) if site.call.op == "Sinh" else (cosine,)


def _atanh(site: Site) -> Results:
    """Half the logarithm of (1 + x) / (1 - x)."""
    x, one = site.input(0), site.constant("one", 1.0)
    ratio = site.make("Div", site.make("Add", one, x), site.make("Sub", one, x))
    return site.last("Mul", site.make("Log", ratio), site.constant("half", 0.5))


def _area(site: Site) -> Results:
    """log(|x| + sqrt(x² ± 1)), with the sign of x."""
    x, is_sine = site.input(0), site.call.op == "Asinh"
    size = site.make("Abs", x)
    square = site.make("Add", site.make("Mul", x, x), site.constant("one", 1.0 if is_sine else -1.0))
    grown = site.make("Log", site.make("Add", size, site.make("Sqrt", square)))
    return site.last("Mul", site.make("Sign", x), grown) if is_sine else (grown,)


# atan(t) / t of t² <= 1 by least squares at Chebyshev's points: wrong by 1e-7
_ARC_NODES = np.cos((np.arange(256) + 0.5) * math.pi / 512)
ARC = tuple(
    np.linalg.lstsq(np.stack([_ARC_NODES ** (2 * k + 1) for k in range(9)], axis=1), np.arctan(_ARC_NODES), rcond=None)[
        0
    ]
)


def _atan(site: Site) -> Results:
    """An odd polynomial of t = min(|x|, 1) / max(|x|, 1); beyond 1 a quarter turn less it, with the sign of x."""
    x, one = site.input(0), site.constant("one", 1.0)
    size = site.make("Abs", x)
    t = site.make("Div", site.make("Min", size, one), site.make("Max", size, one))
    square = site.make("Mul", t, t)
    terms = [site.constant("term", number) for number in reversed(ARC)]
    arc = site.make("Mul", t, reduce(lambda sum_, term: site.make("Add", site.make("Mul", sum_, square), term), terms))
    rest = site.make("Sub", site.constant("quarter", math.pi / 2), arc)
    return site.last("Mul", site.make("Sign", x), site.make("Where", site.make("Greater", size, one), rest, arc))


def _asin(site: Site) -> Results:
    """2 atan(x / (1 + sqrt(1 - x²))); the arc of the cosine is a quarter turn less it."""
    x, one = site.input(0), site.constant("one", 1.0)
    root = site.make("Sqrt", site.make("Sub", one, site.make("Mul", x, x)))
    half = site.make("Atan", site.make("Div", x, site.make("Add", one, root)))
    turn = site.make("Mul", half, site.constant("two", 2.0))
    if site.call.op == "Asin":
        return site.last("Identity", turn)
    return site.last("Sub", site.constant("quarter", math.pi / 2), turn)


REWRITES = (
    Rewrite("Tan", "as Sin over Cos", _tan),
    Rewrite("Sinh", "as Tanh and Exp", _hyperbolic),
    Rewrite("Cosh", "as Exp", _hyperbolic),
    Rewrite("Atanh", "as Log and Div", _atanh),
    Rewrite("Asinh", "as Log and Sqrt", _area),
    Rewrite("Acosh", "as Log and Sqrt", _area),
    Rewrite("Atan", "a polynomial of at most 1", _atan),
    Rewrite("Asin", "as Atan and Sqrt", _asin),
    Rewrite("Acos", "as Atan and Sqrt", _asin),
    Rewrite("Floor", "exact on the quantized value", _floor),
    Rewrite("Ceil", "exact on the quantized value", _ceil),
    Rewrite("Round", "to nearest, ties to even; exact on the quantized value", _round),
    Rewrite("Sin", "a polynomial of the distance to the nearest turn", _wave),
    Rewrite("Cos", "a polynomial of the distance to the nearest turn", _wave),
    Rewrite("Mish", "as Softplus, Tanh and Mul", _mish),
)
