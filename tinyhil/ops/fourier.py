"""Fourier transforms of real whole numbers as TensorFlow Lite Micro computes them: kissfft in fixed point.

n points are n / 2 complex ones (even samples real, odd ones imaginary), transformed in stages of radix 4, 2 and 3,
decimation in time, and taken apart (kissfft's kiss_fft.c and kiss_fftr.c: what they compute, none of their text).
Fractions have F = 15 bits for int16 and 31 for int32. A stage of radix p first multiplies all its inputs by
(2**F - 1) div p, a product is rounded once per component, sums wrap: so no bound is needed, a spectrum is that of
TensorFlow Lite Micro whatever comes in. Twiddles are floor(1/2 + (2**F - 1) cos) and the same of sin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from tinyhil.language.graph import Node, Shape, element_count
from tinyhil.ops.operator import refuse
from tinyhil.ops.whole import Params, Routine, Table

BITS = {"int16": 16, "int32": 32}
SHORTEST, LONGEST = 4, 4096
Complex = np.ndarray  # int64 (..., 2)


@lru_cache
def radices(points: int) -> tuple[int, ...]:
    """Of the stages, the outermost first: 4 as often as possible, then 2, then 3. ValueError for other lengths."""
    found, rest = [], points
    for radix in (4, 2, 3):
        while rest % radix == 0:
            found.append(radix)
            rest //= radix
    if rest != 1:
        raise ValueError(f"{points} points have the factor {rest}")
    return tuple(found)


@lru_cache
def order_of(points: int) -> tuple[int, ...]:
    """Which point stands at each place before the first stage."""
    order = []
    for place in range(points):
        source, stride, rest, size = 0, 1, place, points
        for radix in radices(points):
            size //= radix
            source += rest // size * stride
            rest, stride = rest % size, stride * radix
        order.append(source)
    return tuple(order)


def unit(phase: float, top: int) -> tuple[int, int]:
    """A point of the circle."""
    return math.floor(0.5 + top * math.cos(phase)), math.floor(0.5 + top * math.sin(phase))


@lru_cache
def circles(half: int, bits: int, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Twiddles of the complex transform, and of its taking apart, as (count, 2)."""
    top = (1 << (bits - 1)) - 1
    turns = [unit(sign * 2 * math.pi * i / half, top) for i in range(half)]
    apart = [unit(sign * math.pi * ((i + 1) / half + 0.5), top) for i in range(half // 2)]
    return np.array(turns, np.int64), np.array(apart, np.int64)


class _Fixed:
    """Arithmetic of samples of `bits`."""

    def __init__(self, bits: int) -> None:
        self.bits, self.fraction = bits, bits - 1
        self.top = (1 << self.fraction) - 1

    def wrap(self, x: np.ndarray) -> np.ndarray:
        return x.astype(f"int{self.bits}").astype(np.int64)

    def rounded(self, x: np.ndarray) -> np.ndarray:
        return self.wrap((x + (1 << (self.fraction - 1))) >> self.fraction)

    def part(self, x: np.ndarray, count: int) -> np.ndarray:
        return self.rounded(x * (self.top // count))

    def times(self, a: Complex, b: Complex) -> Complex:
        real = a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1]
        imaginary = a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0]
        return np.stack([self.rounded(real), self.rounded(imaginary)], axis=-1)


def _turned(x: Complex, sign: int) -> Complex:
    """x times the imaginary unit, `sign` its sign."""
    return np.stack([-sign * x[..., 1], sign * x[..., 0]], axis=-1)


def _combined(f: _Fixed, parts: list[Complex], sign: int, third: int) -> list[Complex]:
    """The outputs of one butterfly; `third`: the imaginary part of the twiddle of a third of a turn."""
    if len(parts) == 2:
        return [f.wrap(parts[0] + parts[1]), f.wrap(parts[0] - parts[1])]
    if len(parts) == 3:
        plus, minus = f.wrap(parts[1] + parts[2]), f.wrap(parts[1] - parts[2])
        middle, side = f.wrap(parts[0] - (plus >> 1)), _turned(f.rounded(minus * third), 1)
        return [f.wrap(parts[0] + plus), f.wrap(middle + side), f.wrap(middle - side)]
    even, odd = f.wrap(parts[0] + parts[2]), f.wrap(parts[0] - parts[2])
    plus, quarter = f.wrap(parts[1] + parts[3]), _turned(f.wrap(parts[1] - parts[3]), sign)
    return [f.wrap(even + plus), f.wrap(odd + quarter), f.wrap(even - plus), f.wrap(odd - quarter)]


def transformed(x: Complex, bits: int, sign: int) -> Complex:
    """(..., points, 2) -> its transform; `sign` -1 forward, 1 backward."""
    f, points = _Fixed(bits), x.shape[-2]
    turns, _ = circles(points, bits, sign)
    x, size = x[..., list(order_of(points)), :], 1
    for radix in reversed(radices(points)):
        stride = points // (size * radix)
        blocks = f.part(x.reshape(*x.shape[:-2], stride, radix, size, 2), radix)
        column = np.arange(size)
        parts = [blocks[..., 0, :, :]]
        parts += [f.times(blocks[..., q, :, :], turns[column * q * stride]) for q in range(1, radix)]
        third = int(turns[stride * size][1]) if radix == 3 else 0
        x = np.stack(_combined(f, parts, sign, third), axis=-3).reshape(x.shape)
        size *= radix
    return x


def _pairs(f: _Fixed, z: Complex, half: int) -> tuple[np.ndarray, Complex, Complex]:
    """Of both halves of a spectrum: indices, sums and differences of z[k] and the conjugate of z[half - k], halved."""
    k = np.arange(1, half // 2 + 1)
    there, back = f.part(z[..., k, :], 2), f.part(f.wrap(z[..., half - k, :] * np.array([1, -1])), 2)
    return k, f.wrap(there + back), f.wrap(there - back)


def forward(x: np.ndarray, length: int, bits: int) -> np.ndarray:
    """Spectrum (samples, length + 2) of real numbers (samples, up to length), real and imaginary parts in turn."""
    f, half = _Fixed(bits), length // 2
    x = np.concatenate([x, np.zeros((len(x), length - x.shape[1]), np.int64)], axis=1)
    z = transformed(x.reshape(-1, half, 2), bits, -1)
    out = np.zeros((len(x), half + 1, 2), np.int64)
    first = f.part(z[:, 0], 2)
    out[:, 0, 0], out[:, half, 0] = f.wrap(first[:, 0] + first[:, 1]), f.wrap(first[:, 0] - first[:, 1])
    k, plus, minus = _pairs(f, z, half)
    turned = f.times(minus, circles(half, bits, -1)[1])
    out[:, k] = f.wrap((plus + turned) >> 1)
    out[:, half - k] = f.wrap(((plus - turned) * np.array([1, -1])) >> 1)
    return out.reshape(len(x), -1)


def backward(spectrum: np.ndarray, length: int, bits: int) -> np.ndarray:
    """Real numbers (samples, length) of a spectrum (samples, length + 2)."""
    f, half = _Fixed(bits), length // 2
    s = spectrum.reshape(len(spectrum), half + 1, 2)
    z = np.zeros((len(s), half, 2), np.int64)
    ends = np.stack([s[:, 0, 0] + s[:, half, 0], s[:, 0, 0] - s[:, half, 0]], axis=-1)
    z[:, 0] = f.part(f.wrap(ends), 2)
    k, plus, minus = _pairs(f, s, half)
    turned = f.times(minus, circles(half, bits, 1)[1])
    z[:, k] = f.wrap(plus + turned)
    z[:, half - k] = f.wrap((plus - turned) * np.array([1, -1]))
    return transformed(z, bits, 1).reshape(len(s), -1)


# ---- as operators


def _length(node: Node) -> int:
    length = int(node.attrs["length"])
    if not SHORTEST <= length <= LONGEST or length % 4:
        raise refuse(node, f"a length of {length}", f"multiples of 4 from {SHORTEST} to {LONGEST} are supported")
    try:
        radices(length // 2)
    except ValueError as error:
        raise refuse(node, f"a length of {length} ({error})", "factors of 2 and 3 are supported") from None
    return length


def _rows(node: Node, shapes: Sequence[Shape], of_input: int) -> int:
    if not shapes[0] or shapes[0][-1] > of_input:
        raise refuse(node, f"rows of {list(shapes[0])} for a length of {_length(node)}", "the file is damaged")
    return element_count(shapes[0][:-1])


def _params(node: Node, shapes: Sequence[Shape]) -> dict[str, int]:
    length = _length(node)
    is_forward = node.op == "WholeRfft"
    rows = _rows(node, shapes, length if is_forward else length + 2)
    return {"rows": rows, "given": shapes[0][-1], "length": length, "bits": BITS[node.attrs["whole"]]}


def _stages(length: int) -> list[int]:
    """Radix, points already joined and distance of twiddles of every stage, the innermost first; behind the last 0."""
    numbers, size = [], 1
    for radix in reversed(radices(length // 2)):
        numbers += [radix, size, length // 2 // (size * radix)]
        size *= radix
    return [*numbers, 0]


def _tables(p: Params, sign: int) -> list[Table]:
    half, kind = p["length"] // 2, f"int{p['bits']}"
    turns, apart = circles(half, p["bits"], sign)
    return [
        ("stages", np.array(_stages(p["length"])), "int16"),
        ("order", np.array(order_of(half)), "int16"),
        ("turns", turns.reshape(-1), kind),
        ("apart", apart.reshape(-1), kind),
    ]


def _by_rows(x: np.ndarray, p: Params, transform: object) -> np.ndarray:
    assert callable(transform)
    rows = x.reshape(-1, p["given"])
    return np.asarray(transform(rows, p["length"], p["bits"])).reshape(len(x), -1)


_NAMES = ("rows", "given", "length", "bits")
RFFT = Routine(
    "WholeRfft",
    "whole_rfft",
    "spectrum of rows of real numbers: real and imaginary parts in turn",
    lambda node, shapes: (*shapes[0][:-1], _length(node) + 2),
    _params,
    _NAMES,
    lambda p, arrays: _by_rows(arrays[4], p, forward),
    ("length",),
    lambda p: _tables(p, -1),
)
IRFFT = Routine(
    "WholeIrfft",
    "whole_irfft",
    "real numbers of rows of a spectrum",
    lambda node, shapes: (*shapes[0][:-1], _length(node)),
    _params,
    _NAMES,
    lambda p, arrays: _by_rows(arrays[4], p, backward),
    ("length",),
    lambda p: _tables(p, 1),
)
ROUTINES = (RFFT, IRFFT)
KERNELS = tuple(routine.kernel for routine in ROUTINES)
OPERATORS = tuple(routine.operator for routine in ROUTINES)
