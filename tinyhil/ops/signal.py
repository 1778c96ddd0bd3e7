"""What makes features of sound, as TensorFlow Lite Micro's signal operators compute it, in whole numbers.

Window, automatic gain before a Fourier transform (fourier.py), energies, a bank of filters and its square root, noise
that is estimated and subtracted, gain by it (PCAN), logarithm (tensorflow/lite/micro/kernels and signal/src of
tflite-micro: what they compute, none of their text). Frames, stacks and delays only move elements; the front end makes
them of Concat and Slice (frontend/tflite_signal.py). The sums of a bank have 64 bits and are rooted at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.language.kernel import Arrays
from tinyhil.ops.operator import refuse
from tinyhil.ops.whole import Params, Routine, Table, same_shape

WORD, LONG = (1 << 16) - 1, (1 << 32) - 1
GAINS = 125  # entries of a table of gains: two, one, and three for each of 30 octaves, in four places
LN2 = 45426  # ln 2 in units of 2**-16
SEGMENTS = 128  # of the logarithm's table


def _rows(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    if not shapes[0]:
        raise refuse(node, "a scalar", "the file is damaged")
    return {"elements": element_count(shapes[0])}


def _number(node: Node, name: str, least: int, most: int) -> int:
    value = int(node.attrs[name])
    if not least <= value <= most:
        raise refuse(node, f"{name} {value}", f"{least} to {most} is possible; the file is damaged")
    return value


# ---- window and gain


def _window_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    if len(shapes[1]) != 1 or not shapes[0] or shapes[0][-1] != shapes[1][0]:
        raise refuse(node, f"a window {list(shapes[1])} for {list(shapes[0])}", "the file is damaged")
    return {**_rows(node, shapes), "period": shapes[1][0], "shift": _number(node, "shift", 0, 31)}


def _window(p: Params, arrays: Arrays) -> np.ndarray:
    x, weights = arrays
    products = x * np.tile(weights, (1, x.shape[1] // weights.shape[1]))
    return np.clip(products >> p["shift"], -32768, 32767)


WINDOW = Routine(
    "SignalWindow",
    "signal_window",
    "rows times a window, to the right, saturated",
    same_shape,
    _window_params,
    ("elements", "period", "shift"),
    _window,
    ("shift",),
    operands=2,
    in_place=True,
)


def _gain(_: Params, arrays: Arrays) -> np.ndarray:
    largest = np.array([_last_largest(row) for row in arrays[0]], np.int64)
    bits = np.array([int(value).bit_length() if value > 0 else 32 for value in largest])
    return np.asarray(np.maximum(15 - bits, 0))[:, None]


def _last_largest(row: np.ndarray) -> int:
    """The running maximum of the magnitudes in an int16: -32768 makes it -32768, and then counts what exceeds that as
    it is, negative or not."""
    lowest = np.flatnonzero(row == -32768)
    if not lowest.size:
        return int(np.abs(row).max())
    largest = -32768
    for value in row[lowest[-1] + 1 :].tolist():
        largest = value if value > largest else max(largest, -value)
    return largest


GAIN = Routine(
    "SignalGain",
    "signal_gain",
    "bits by which the largest magnitude may be moved to the left",
    lambda node, shapes: (),
    _rows,
    ("elements",),
    _gain,
)
LIFT = Routine(
    "SignalLift",
    "signal_lift",
    "moved to the left by a number of bits computed before",
    same_shape,
    _rows,
    ("elements",),
    lambda p, arrays: arrays[0] << np.clip(arrays[1], 0, 31),
    operands=2,
    in_place=True,
)


# ---- energies and filters


def _energy_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    bins = shapes[0][-1] // 2
    start, end = _number(node, "start", 0, bins), _number(node, "end", 0, bins)
    return {"rows": element_count(shapes[0][:-1]), "bins": bins, "start": start, "end": end}


def _energy(p: Params, arrays: Arrays) -> np.ndarray:
    parts = arrays[0].reshape(-1, p["bins"], 2)
    sums = (parts * parts).sum(axis=2) & LONG
    sums[:, : p["start"]] = 0
    sums[:, p["end"] :] = 0
    return sums.reshape(len(arrays[0]), -1)


ENERGY = Routine(
    "SignalEnergy",
    "signal_energy",
    "squares of the magnitudes of a spectrum, 0 outside of its bins",
    lambda node, shapes: (*shapes[0][:-1], shapes[0][-1] // 2),
    _energy_params,
    ("rows", "bins", "start", "end"),
    _energy,
    ("start", "end"),
)


def _bank_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    channels = _number(node, "channels", 1, 4096)
    if any(shape != (channels + 1,) for shape in shapes[3:6]) or shapes[1] != shapes[2] or len(shapes[0]) != 1:
        raise refuse(node, f"tables {[list(shape) for shape in shapes[1:6]]} of {channels} channels", "damaged")
    return {"channels": channels}


def _bank(p: Params, arrays: Arrays) -> np.ndarray:
    energies = arrays[0].astype(np.uint64)
    weights, unweights, firsts, starts, widths = (array.reshape(-1) for array in arrays[1:6])
    carried, roots = np.zeros(len(energies), np.uint64), []
    for n in range(p["channels"] + 1):
        bins = energies[:, firsts[n] : firsts[n] + widths[n]]
        rising, falling = (
            (bins * table[starts[n] : starts[n] + widths[n]].astype(np.uint64)).sum(axis=1, dtype=np.uint64)
            for table in (weights, unweights)
        )
        roots.append(_root(carried + rising))
        carried = falling
    return np.stack(roots[1:], axis=1) >> np.clip(arrays[6], 0, 63)


def _root(x: np.ndarray) -> np.ndarray:
    """Of uint64 to nearest, of numbers below 2**32 no more than 65535."""
    root = np.array([math.isqrt(int(value)) for value in x], np.uint64)
    most = np.where(x < np.uint64(1 << 32), np.uint64(WORD), np.uint64(LONG))
    return np.asarray(root + ((x - root * root > root) & (root != most))).astype(np.int64)


BANK = Routine(
    "SignalFilterBank",
    "signal_filter_bank",
    "root of what passes triangular filters, to the right by a number of bits computed before",
    lambda node, shapes: (int(node.attrs["channels"]),),
    _bank_params,
    ("channels",),
    _bank,
    ("channels",),
    operands=7,
)


# ---- noise

_NOISE = ("smoothing", "keep", "odd_smoothing", "odd_keep", "smoothing_bits", "bits", "clamped", "least")


def _noise_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    if shapes[0] != shapes[1]:
        raise refuse(node, f"noise {list(shapes[1])} beside {list(shapes[0])}", "the file is damaged")
    limits = {"smoothing_bits": 31, "bits": 31, "clamped": 1}
    numbers = {name: _number(node, name, 0, limits.get(name, LONG)) for name in _NOISE}
    return {"elements": element_count(shapes[0]), **numbers}


def _units(p: Params, x: np.ndarray) -> np.ndarray:
    return (x << p["smoothing_bits"]) & LONG


def _noise(p: Params, arrays: Arrays) -> np.ndarray:
    x, before = arrays
    odd = (np.arange(x.shape[1]) & 1).astype(bool)
    new = np.where(odd, p["odd_smoothing"], p["smoothing"]).astype(np.uint64)
    old = np.where(odd, p["odd_keep"], p["keep"]).astype(np.uint64)
    sums = _units(p, x).astype(np.uint64) * new + before.astype(np.uint64) * old
    estimate = (sums >> np.uint64(p["bits"])).astype(np.int64) & LONG
    return np.minimum(estimate, _units(p, x)) if p["clamped"] else estimate


def _subtracted(p: Params, arrays: Arrays) -> np.ndarray:
    x, noise = arrays
    units = _units(p, x)
    least = (x.astype(np.uint64) * np.uint64(p["least"])) >> np.uint64(p["bits"])
    return np.maximum((units - np.minimum(noise, units)) >> p["smoothing_bits"], least.astype(np.int64) & LONG)


_NOISE_NAMES = ("elements", *_NOISE)
NOISE = Routine(
    "SignalNoise",
    "signal_noise",
    "estimate of a channel's noise from the one before",
    same_shape,
    _noise_params,
    _NOISE_NAMES,
    _noise,
    _NOISE,
    operands=2,
    in_place=True,
)
SUBTRACTION = Routine(
    "SignalSubtraction",
    "signal_subtraction",
    "channels less their noise, a share of them at least",
    same_shape,
    _noise_params,
    _NOISE_NAMES,
    _subtracted,
    _NOISE,
    operands=2,
    in_place=True,
)


# ---- gain by the noise, logarithm


def _gain_by_noise_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    if shapes[0] != shapes[1] or shapes[2] != (GAINS,):
        raise refuse(node, f"{[list(shape) for shape in shapes]}", "the file is damaged")
    return {"elements": element_count(shapes[0]), "shift": _number(node, "shift", 0, 31)}


def _octave(x: np.ndarray) -> np.ndarray:
    """Bits of numbers below 2**53."""
    return np.asarray(np.frexp(x.astype(np.float64))[1]).astype(np.int64)


def _of_table(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """A parabola on each octave of `x`, of three numbers in four places."""
    octave = np.maximum(_octave(x), 2)
    at = np.where(x > 2, 4 * octave - 6, 0)
    fraction = np.where(octave < 11, x << np.maximum(11 - octave, 0), x >> np.maximum(octave - 11, 0)) & 1023
    start, slope, bend = (table[np.minimum(at + n, GAINS - 1)] for n in range(3))
    rising = ((bend * fraction) >> 5) + (slope << 5)
    value = (((rising * fraction).astype(np.int32).astype(np.int64) + (1 << 14)) >> 15) + start
    return np.where(x > 2, value.astype(np.int16), table[np.minimum(x, 2)]).astype(np.int64)


def _gained(p: Params, arrays: Arrays) -> np.ndarray:
    x, noise = arrays[:2]
    gain = _of_table(noise, arrays[2].reshape(-1)) & LONG
    ratio = ((x.astype(np.uint64) * gain.astype(np.uint64)) >> np.uint64(p["shift"])).astype(np.int64) & LONG
    return np.where(ratio < 8192, (ratio * ratio) >> 20, ((ratio >> 6) - 64) & LONG)


PCAN = Routine(
    "SignalPcan",
    "signal_pcan",
    "channels times a gain by the table, of their noise, compressed",
    same_shape,
    _gain_by_noise_params,
    ("elements", "shift"),
    _gained,
    ("shift",),
    operands=3,
    in_place=True,
)


def _log_params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    factor, lift = _number(node, "factor", 0, WORD), _number(node, "lift", 0, 31)
    return {"elements": element_count(shapes[0]), "factor": factor, "lift": lift}


def _log_table(_: Params) -> Sequence[Table]:
    """How far log2 lies above its chord, in units of 2**-16, between two powers of two."""
    over = [round(65536 * (math.log2(1 + i / SEGMENTS) - i / SEGMENTS)) for i in range(SEGMENTS + 1)]
    return [("log", np.array(over), "int16")]


def _log(p: Params, arrays: Arrays) -> np.ndarray:
    table, x = arrays[0].reshape(-1), (arrays[1] << p["lift"]) & LONG
    whole = np.maximum(_octave(x) - 1, 0)
    rest = np.where(x > 0, x - (np.int64(1) << whole), 0)
    rest = np.where(whole < 16, rest << np.maximum(16 - whole, 0), rest >> np.maximum(whole - 16, 0))
    segment = rest >> 9
    low, high = table[segment], table[np.minimum(segment + 1, SEGMENTS)]
    part = rest + low + (((high - low) * (rest - 512 * segment)) >> 16)
    natural = (LN2 * ((whole << 16) + part) + 32768) >> 16
    made = ((p["factor"] * natural + 32768) & LONG) >> 16
    return np.where(x > 1, np.minimum(made, 32767), 0)


LOG = Routine(
    "SignalLog",
    "signal_log",
    "natural logarithm times a factor",
    same_shape,
    _log_params,
    ("elements", "factor", "lift"),
    _log,
    ("factor", "lift"),
    _log_table,
)
ROUTINES = (WINDOW, GAIN, LIFT, ENERGY, BANK, NOISE, SUBTRACTION, PCAN, LOG)
KERNELS = tuple(routine.kernel for routine in ROUTINES)
OPERATORS = tuple(routine.operator for routine in ROUTINES)
