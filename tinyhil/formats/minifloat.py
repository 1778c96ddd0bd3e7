"""Small binary floating-point numbers: sign, exponent, mantissa, with subnormals; scale per tensor.

Rounding: to nearest, ties to the even code. Values that round beyond the largest finite number become it and count as
saturated: no encoder makes an infinity. NaN encodes to the format's NaN, or to 0 where it has none, and counts as
saturated. Zeros are +0; a negative value that underflows is -0, which decodes to 0. What the codes at the top stand for
is the policy: FINITE numbers throughout; NAN: all ones is NaN; IEEE: the highest exponent is infinity and NaNs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from tinyhil.formats.format import CODED, Domain, Format, NamedFormat, Rounding, floating
from tinyhil.formats.rounding import magnitudes, round_up

TITLE = "Small floats"  # of the family, in docs/formats.md
FINITE, NAN, IEEE = "Finite", "Nan", "Ieee"


@dataclass(frozen=True, slots=True)
class Minifloat(Format):
    """1 sign bit, `exponent_bits`, `mantissa_bits`; value = 1.m * 2**(e - bias), scaled by 2**`exponent`."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    policy: str = FINITE
    exponent: int = 0
    towards: ClassVar[str] = ""  # to the nearest, ties to even

    def __post_init__(self) -> None:
        if not (1 <= self.exponent_bits <= 8 and 0 <= self.mantissa_bits <= 10 and self.bits <= 16):
            raise ValueError(f"{self.c_type}: limits: 1 to 8 exponent bits, 0 to 10 mantissa bits, 16 bits in all")
        if self.policy not in (FINITE, NAN, IEEE) or (self.policy == NAN and self.mantissa_bits == 0):
            raise ValueError(f"{self.c_type}: unknown policy, or no mantissa bits for a NaN beside numbers")

    @property
    def bits(self) -> int:
        """Of a code, sign included."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def minus_zero(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def significant_bits(self) -> int:
        return self.mantissa_bits + 1

    @property
    def rounding(self) -> Rounding:
        return floating(self.mantissa_bits, self.granule, self.largest, has_nan=self.nan_code is not None)

    @property
    def domain(self) -> Domain:
        return CODED

    @property
    def c_type(self) -> str:
        fields = f"{self.exponent_bits}, {self.mantissa_bits}, {self.bias}, hil::Top::{self.policy}"
        return f"hil::Minifloat<{fields}>"

    @property
    def highest_code(self) -> int:
        """The code of the largest finite number."""
        codes = 1 << (self.bits - 1)
        return codes - {FINITE: 1, NAN: 2, IEEE: (1 << self.mantissa_bits) + 1}[self.policy]

    @property
    def nan_code(self) -> int | None:
        """The code a NaN encodes to: quiet, positive."""
        top = (1 << self.exponent_bits) - 1 << self.mantissa_bits
        if self.policy == IEEE and self.mantissa_bits:
            return top | (1 << self.mantissa_bits >> 1)
        return (1 << (self.bits - 1)) - 1 if self.policy == NAN else None

    @property
    def granule(self) -> int:
        return 1 - self.bias - self.mantissa_bits

    @property
    def largest(self) -> float:
        return float(self.decode(np.array([self.highest_code]))[0])

    @property
    def smallest(self) -> float:
        return math.ldexp(1.0, self.granule)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        codes = np.asarray(codes, np.int64)
        body = codes & ((1 << (self.bits - 1)) - 1)
        values = decode_fields(body, self.mantissa_bits, self.granule)
        if self.policy == IEEE:
            infinity = self.highest_code + 1
            values = np.where(body > infinity, np.nan, np.where(body == infinity, np.inf, values))
        elif self.policy == NAN:
            values = np.where(body > self.highest_code, np.nan, values)
        return np.where(codes >> (self.bits - 1) & 1, -values, values) + 0.0

    def encode(self, values: np.ndarray, residue: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        size, rest = magnitudes(values, residue)
        finite = np.isfinite(size)
        body = encode_fields(np.where(finite, size, 0.0), rest, self.mantissa_bits, self.granule)
        saturated = (body > self.highest_code) | ~finite
        body = np.where(saturated, self.highest_code, body)
        codes = body | (np.asarray(values) < 0).astype(np.int64) << (self.bits - 1)
        return np.where(np.isnan(size), self.nan_code or 0, codes), saturated

    def fitted(self, magnitude: float) -> Minifloat:
        return fit(magnitude, self.scaled(0))

    @property
    def name(self) -> str:
        """As users write it: what it is called where `_SHAPES` names it, else eXmY."""
        shape = (self.exponent_bits, self.mantissa_bits, self.bias, self.policy)
        return (_NAMES.get(shape) or _general_name(*shape)) + ("pc" if self.is_per_channel else "")

    def __str__(self) -> str:
        return f"{self.name} * 2^{self.exponent}"


@dataclass(frozen=True, slots=True)
class MinifloatPerChannel(Minifloat):
    """Weights of a layer that get an exponent for each output channel; elsewhere like any minifloat."""

    @property
    def is_per_channel(self) -> bool:
        return True


def decode_fields(body: np.ndarray, mantissa_bits: int, granule: int) -> np.ndarray:
    """Values of sign-less codes: exponent field 0 is subnormal, every other doubles the step."""
    field = body >> mantissa_bits
    implied = np.where(field > 0, np.int64(1) << mantissa_bits, 0)
    mantissa = (body & ((1 << mantissa_bits) - 1)) + implied
    return np.ldexp(mantissa.astype(np.float64), np.maximum(field - 1, 0) + granule)


def encode_fields(size: np.ndarray, rest: np.ndarray, mantissa_bits: int, granule: int) -> np.ndarray:
    """Sign-less codes nearest to finite values, without an upper limit: the exponent's steps above the subnormals, then
    the mantissa, whose implied one adds the last step."""
    _, power = np.frexp(size)
    steps = np.where(size > 0, np.maximum(power.astype(np.int64) - 1 - mantissa_bits - granule, 0), 0)
    units = np.ldexp(size, -(steps + granule))
    whole = np.floor(units)
    body = (steps << mantissa_bits) + whole.astype(np.int64)
    return body + round_up(units - whole, 0.5, (body & 1) == 1, rest)


E4M3 = Minifloat(4, 3, 7, NAN)
E5M2 = Minifloat(5, 2, 15, IEEE)
E2M1 = Minifloat(2, 1, 1)
E2M1_BIAS_0 = Minifloat(2, 1, 0)
E3M0 = Minifloat(3, 0, 3)
# FP6 of the OCP Microscaling specification (2023): between FP4 and FP8
E3M2 = Minifloat(3, 2, 3)
E2M3 = Minifloat(2, 3, 1)


def fit_channels(magnitude: float, shape: Minifloat) -> MinifloatPerChannel:
    """The format with a scale per channel that holds `magnitude`."""
    exponent = fit(magnitude, shape).exponent
    return MinifloatPerChannel(shape.exponent_bits, shape.mantissa_bits, shape.bias, shape.policy, exponent)


def fit(magnitude: float, shape: Minifloat) -> Minifloat:
    """The tensor's largest magnitude is scaled below the largest number, as near to it as a power of two allows."""
    if magnitude == 0.0:
        return shape
    exponent = math.frexp(magnitude)[1] - math.frexp(shape.largest)[1]
    return shape.scaled(exponent + (magnitude > math.ldexp(shape.largest, exponent)))


_SHAPES = (
    ("fp8e4m3", E4M3, "FP8 E4M3: largest 448, no infinities"),
    ("fp8e5m2", E5M2, "FP8 E5M2: largest 57344"),
    ("fp4e2m1", E2M1, "FP4 E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6"),
    ("fp4e2m1b0", E2M1_BIAS_0, "FP4 E2M1 with bias 0: twice the values of fp4e2m1"),
    ("fp4e3m0", E3M0, "FP4 E3M0: powers of two from 1/4 to 16"),
    ("fp6e3m2", E3M2, "FP6 E3M2: largest 28"),
    ("fp6e2m3", E2M3, "FP6 E2M3: largest 7.5"),
)
_NAMES = {(s.exponent_bits, s.mantissa_bits, s.bias, s.policy): name for name, s, _ in _SHAPES}


def _per_channel(name: str, shape: Minifloat, beside: str) -> NamedFormat:
    summary = f"{name} weights with a scale per output channel, beside {beside}"
    return NamedFormat(f"{name}pc", shape.bits, summary, partial(fit_channels, shape=shape), values=beside)


NAMED = (
    *(NamedFormat(name, shape.bits, summary, partial(fit, shape=shape)) for name, shape, summary in _SHAPES),
    *(_per_channel(*one) for one in (("fp8e4m3", E4M3, "fp8e4m3"), ("fp4e2m1", E2M1, "fp8e4m3"))),
)
_GENERAL = re.compile(r"e([1-8])m(\d|10)(?:b(-?\d{1,2}))?")
TOP = 128  # numbers below 2**TOP are finite in float32, by which some kernels compute
GENERAL = (
    "eXmY (e3m2; e3m2b5 with bias 5) has 1 to 8 exponent and 0 to 10 mantissa bits, 16 at most with the sign; its "
    "codes are finite numbers, but fp8e4m3 has NaN, fp8e5m2 and e8mY have infinities besides"
)


def usual_bias(exponent_bits: int) -> int:
    """That of a name without one."""
    return (1 << (exponent_bits - 1)) - 1


def usual_policy(exponent_bits: int) -> str:
    """What the highest exponent stands for: no kernel knows finite numbers there where float32 has none."""
    return IEEE if exponent_bits == 8 else FINITE


def _general_name(exponent_bits: int, mantissa_bits: int, bias: int, policy: str) -> str:
    """`e3m2`, `e3m2b5`; behind it what of the codes at the top are no numbers, which no name that is read says."""
    of_bias = "" if bias == usual_bias(exponent_bits) else f"b{bias}"
    return f"e{exponent_bits}m{mantissa_bits}{of_bias}{'' if policy == usual_policy(exponent_bits) else policy.lower()}"


def parse(name: str) -> NamedFormat | None:
    """`e3m2` or, with a bias other than 2**(e-1) - 1, `e3m2b5`: all codes are numbers but those of the highest of eight
    exponent bits; None where they reach 2**TOP. `pc` behind the name of any
    small float: weights with a scale per output channel, beside that float. None for other names."""
    if name.endswith("pc"):
        stem = name.removesuffix("pc")
        beside = next((one for one in NAMED if one.name == stem), None) or parse(stem)
        shape = beside.fit(0.0) if beside is not None and not beside.values else None
        return _per_channel(stem, shape, stem) if isinstance(shape, Minifloat) else None
    found = _GENERAL.fullmatch(name)
    if found is None:
        return None
    exponent_bits, mantissa_bits = int(found[1]), int(found[2])
    bias = int(found[3]) if found[3] else usual_bias(exponent_bits)
    if not 2 <= 1 + exponent_bits + mantissa_bits <= 16:
        return None
    shape = Minifloat(exponent_bits, mantissa_bits, bias, usual_policy(exponent_bits))
    if shape.largest >= 2.0**TOP:
        return None
    no = "no infinities" if shape.policy == FINITE else "its highest exponent is infinity and NaN"
    return NamedFormat(name, shape.bits, f"minifloat, bias {bias}, {no}", partial(fit, shape=shape))
