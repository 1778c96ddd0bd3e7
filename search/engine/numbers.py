"""How the batch engine holds the numbers of a format: integers, doubles or floats (search/engine/batch.hpp)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.format import CODED, SINGLE, Format

BATCH = 16
INTS, DOUBLES, FLOATS = range(3)
NUMBERS = (np.int32, np.float64, np.float32)  # by kind
INT8, INT16, DECODED = range(3)  # how inputs lie in memory


class Unsupported(Exception):
    """The batch engine can not run a program; says why."""


def kind_of(fmt: Format) -> int:
    """How numbers of a format lie in a batch."""
    return {SINGLE: FLOATS, CODED: DOUBLES}.get(fmt.domain, INTS)


def stored_dtype(fmt: Format) -> np.dtype[Any]:
    """How numbers of a format are kept between evaluations: as short as holds them all."""
    kind = kind_of(fmt)
    if kind == INTS and fmt.grid is not None:
        return np.dtype(f"{'i' if fmt.lowest < 0 else 'u'}{1 if fmt.bits <= 8 else 2}")
    short = kind == DOUBLES and fmt.bits <= 16  # single precision holds them, largest and smallest included
    return np.dtype(np.float32 if short else NUMBERS[kind])


def numbers_of(codes: np.ndarray, fmt: Format) -> np.ndarray:
    """Codes as a batch holds them; a minifloat's negative zero stays one."""
    kind = kind_of(fmt)
    if kind == INTS and fmt.grid is not None:
        return np.asarray(codes, np.int32)
    values = fmt.decode(codes)
    if fmt.minus_zero is not None:
        values = np.where(np.asarray(codes) == fmt.minus_zero, -0.0, values)
    return values.astype(NUMBERS[kind])


def codes_of(numbers: np.ndarray, fmt: Format) -> np.ndarray:
    """Codes (int64) of what a batch holds, given as doubles."""
    if kind_of(fmt) == INTS:
        return numbers.astype(np.int64)
    codes = fmt.encode(numbers)[0]
    if fmt.minus_zero is not None:
        codes = np.where((numbers == 0) & np.signbit(numbers), fmt.minus_zero, codes)
    return codes


def given_inputs(inputs: np.ndarray, fmt: Format) -> tuple[np.ndarray, int]:
    """Inputs of the program as the engine reads them, and which of INT8, INT16, DECODED they are.

    Unsupported for what is no finite number.
    """
    if kind_of(fmt) == INTS:
        return np.ascontiguousarray(inputs, storage_dtype(fmt)), INT8 if fmt.storage_bytes == 1 else INT16
    numbers = np.ascontiguousarray(numbers_of(np.asarray(inputs, np.int64), fmt))
    if not np.isfinite(numbers).all():
        raise Unsupported("an input that is no finite number")
    return numbers, DECODED
