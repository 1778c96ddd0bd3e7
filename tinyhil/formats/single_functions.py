"""Functions in IEEE single precision as fixed sequences of additions, multiplications and divisions.

The same as firmware/kernels/common/single_functions.hpp, operation by operation: the bits are the same on every chip.
Arguments and results are float32 arrays. Coefficients are minimax fits of the stated remainders, rounded to float32.
Measured errors are in docs/numerics.md; tests/test_format_functions.py repeats the measurement.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

F = np.float32
LOG2_E = F(1.44269504)
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)  # the high part has 10 bits: k * LN2_HIGH is exact
ROUNDER = F(12582912.0)  # 1.5 * 2**23: adding and subtracting it rounds to a whole number
EXP_OVER, EXP_UNDER = F(88.8), F(-104.0)
# (exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2
EXP = (0.000199193804, 0.00139472249, 0.00833326299, 0.0416662544, 0.166666672, 0.5)
# (log(1 + f) - f + f^2/2) / f^3 for sqrt(1/2) <= 1 + f < sqrt(2)
LOG = (
    *(0.0691560134, -0.117941029, 0.118750788, -0.123837985, 0.142183259),
    *(-0.166692704, 0.200022429, -0.249999866, 0.333333105),
)
# (tanh(x)/x - 1) / x^2 as a polynomial of x^2 for |x| <= 0.55
TANH = (0.00239899592, -0.00841679052, 0.0217837673, -0.0539597906, 0.133332953, -0.333333313)
# erf(x)/x as a polynomial of x^2 for |x| <= 1, and -log(erfc(x)) for 1 <= x <= 4
ERF = (
    -9.68013683e-06,
    0.000112705449,
    -0.000848471129,
    0.00522107491,
    -0.0268654451,
    0.112837829,
    -0.376126379,
    1.12837923,
)
ERFC = (
    2.16868502e-05,
    -0.000441336364,
    0.00420456193,
    -0.0252082571,
    0.108418576,
    0.633219898,
    1.12957847,
    -0.000188040227,
)


def scaled(x: np.ndarray, shift: int | np.ndarray) -> np.ndarray:
    """x * 2**shift; |shift| <= 253. Where 2**shift is no normal number, by two multiplications."""
    n = np.broadcast_to(np.asarray(shift, np.int64), np.shape(x))
    with np.errstate(over="ignore", under="ignore"):
        x = np.where(n > 127, x * F(2.0**127), np.where(n < -126, x * F(2.0**-126), x))
        n = np.where(n > 127, n - 127, np.where(n < -126, n + 126, n))
        return x * np.ldexp(F(1), n.astype(np.int32))


def _polynomial(x: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    value = np.full(x.shape, F(coefficients[0]))
    for coefficient in coefficients[1:]:
        value = value * x + F(coefficient)
    return value


def exp(x: np.ndarray) -> np.ndarray:
    """e**x in single precision, a fixed sequence of IEEE operations."""
    inside = np.where((x <= EXP_OVER) & (x >= EXP_UNDER), x, F(0))
    whole = (inside * LOG2_E + ROUNDER) - ROUNDER
    r = (inside - whole * LN2_HIGH) - whole * LN2_LOW
    power = (_polynomial(r, EXP) * (r * r) + r) + F(1)
    result = scaled(power, whole.astype(np.int64))
    return np.where(np.isnan(x), x, np.where(x > EXP_OVER, F(np.inf), np.where(x < EXP_UNDER, F(0), result)))


def log(x: np.ndarray) -> np.ndarray:
    """-infinity at 0, NaN below."""
    regular = (x > 0) & np.isfinite(x)
    mantissa, power = np.frexp(np.where(regular, x, F(1)))  # 1/2 <= mantissa < 1
    small = mantissa < F(0.70710678)
    mantissa = np.where(small, mantissa + mantissa, mantissa)
    power = (power - small).astype(F)
    f = mantissa - F(1)
    square = f * f
    rest = (_polynomial(f, LOG) * f) * square + power * LN2_LOW
    result = ((rest - square * F(0.5)) + f) + power * LN2_HIGH
    return np.where(regular, result, np.where(x == 0, F(-np.inf), np.where(x > 0, F(np.inf), F(np.nan))))


def divide(a: np.ndarray | np.float32, b: np.ndarray) -> np.ndarray:
    """IEEE division, correctly rounded."""
    with np.errstate(all="ignore"):
        quotient: np.ndarray = a / b
    return quotient


def remainder(a: np.ndarray, b: np.ndarray, truncates: bool) -> np.ndarray:
    """What a / b leaves, exact but for the last sum: with the sign of `a` if it `truncates`, else with that of `b`.

    NaN for a divisor of 0, and for what is not finite.
    """
    with np.errstate(all="ignore"):
        rest = np.fmod(np.abs(a), np.abs(b))
        rest = np.where(np.isfinite(a) & np.isfinite(b), np.where(a < 0, -rest, rest), F(np.nan))
        other = (rest != 0) & ((rest < 0) != (b < 0))
        return rest if truncates else np.where(other, rest + b, rest)


def whole_quotient(a: np.ndarray, b: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """How often `b` goes into `a` if `rest` is left: of numbers below 2**22 to the nearest whole one."""
    quotient = divide(a - rest, b)
    return np.where(np.abs(quotient) < F(4194304.0), (quotient + ROUNDER) - ROUNDER, quotient)


def reciprocal(x: np.ndarray) -> np.ndarray:
    """1 / x in single precision, a fixed sequence of IEEE operations."""
    return divide(F(1), x)


def sqrt(x: np.ndarray) -> np.ndarray:
    """IEEE square root, correctly rounded; NaN below 0."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(x)


def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x) in single precision, a fixed sequence of IEEE operations."""
    return divide(F(1), sqrt(x))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e**-x) in single precision, a fixed sequence of IEEE operations."""
    e = exp(-np.abs(x))
    return divide(np.where(x < 0, e, F(1)), e + F(1))


def tanh(x: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent in single precision, a fixed sequence of IEEE operations."""
    size = np.abs(x)
    square = size * size
    near = (_polynomial(square, TANH) * square) * size + size
    with np.errstate(over="ignore"):
        far = F(1) - divide(F(2), exp(size + size) + F(1))
    result = np.where(size < F(0.55), near, far)
    return np.where(x < 0, -result, result)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function in single precision, a fixed sequence of IEEE operations."""
    size = np.abs(x)
    inside = np.where(size < F(4), size, F(4))
    near = _polynomial(inside * inside, ERF) * inside
    far = F(1) - exp(-_polynomial(inside, ERFC))
    result = np.where(size < F(1), near, np.where(size < F(4), far, F(1)))
    return np.where(np.isnan(x), x, np.where(x < 0, -result, result))


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    f.__name__: f for f in (exp, log, reciprocal, sqrt, rsqrt, sigmoid, tanh, erf)
}
