"""How the lockstep engine holds the numbers of a format: integers, doubles or floats (search/engine/lanes.hpp)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyhil.formats.affine import Affine
from tinyhil.formats.codebook import Codebook
from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import Format
from tinyhil.formats.minifloat import Minifloat
from tinyhil.formats.single import Single

LANES = 16
INTS, DOUBLES, FLOATS = range(3)
NUMBERS = (np.int32, np.float64, np.float32)  # by kind
INT8, INT16, DECODED = range(3)  # how inputs lie in memory


class Unsupported(Exception):
    """The lockstep engine can not run a program; says why."""


def kind_of(fmt: Format) -> int:
    """How numbers of a format lie in the lanes."""
    if isinstance(fmt, Single):
        return FLOATS
    return INTS if isinstance(fmt, Affine | Codebook) or (isinstance(fmt, Fixed) and fmt.bits <= 16) else DOUBLES


def kept_dtype(fmt: Format) -> np.dtype[Any]:
    """How numbers of a format are kept between evaluations: as short as holds them all."""
    kind = kind_of(fmt)
    if kind == INTS and not isinstance(fmt, Codebook):
        return np.dtype(np.int8 if fmt.bits <= 8 else np.int16)
    short = kind == DOUBLES and fmt.bits <= 16  # single precision holds them, largest and smallest included
    return np.dtype(np.float32 if short else NUMBERS[kind])


def numbers_of(codes: np.ndarray, fmt: Format) -> np.ndarray:
    """Codes as the lanes hold them; a minifloat's negative zero stays one."""
    kind = kind_of(fmt)
    if kind == INTS and not isinstance(fmt, Codebook):
        return np.asarray(codes, np.int32)
    values = fmt.decode(codes)
    if isinstance(fmt, Minifloat):
        values = np.where(np.asarray(codes) == 1 << (fmt.bits - 1), -0.0, values)
    return values.astype(NUMBERS[kind])


def codes_of(numbers: np.ndarray, fmt: Format) -> np.ndarray:
    """Codes (int64) of what the lanes hold, given as doubles."""
    if kind_of(fmt) == INTS:
        return numbers.astype(np.int64)
    codes = fmt.encode(numbers)[0]
    if isinstance(fmt, Minifloat):
        codes = np.where((numbers == 0) & np.signbit(numbers), 1 << (fmt.bits - 1), codes)
    return codes


def given_inputs(inputs: np.ndarray, fmt: Format) -> tuple[np.ndarray, int]:
    """Inputs of the program as the engine reads them, and which of INT8, INT16, DECODED they are."""
    if kind_of(fmt) == INTS:
        return np.ascontiguousarray(inputs, storage_dtype(fmt)), INT8 if fmt.storage_bytes == 1 else INT16
    numbers = np.ascontiguousarray(numbers_of(np.asarray(inputs, np.int64), fmt))
    if not np.isfinite(numbers).all():
        raise Unsupported("an input that is no finite number")
    return numbers, DECODED
