"""Fake quantisation of the operands of layers: what FP8 in hardware would read, everything between them in float32.

An operand is held as S * round(x / S) in the numbers of a format; `RULES` says how S is found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.agreement.spread import LINEAR
from tinyhil.agreement.stored_constants import output_axis
from tinyhil.formats import named
from tinyhil.formats.clipping import LEFT_OUT, LEFT_OUT_AS_PRINTED, sketch
from tinyhil.formats.minifloat import Minifloat
from tinyhil.language.graph import Graph, Node
from tinyhil.references.evaluate import evaluate, replay

CONSTANT = ("1.0", "0.2", "0.1")  # scales that ask nothing of the values
FITTED = ("max", "power of two", "percentile", "paper-literal")
RULES = (*CONSTANT, *FITTED)
LITERAL = "paper-literal"
BY_QMAX = "paper-literal by Qmax"  # in none of `RULES`: what dividing by Qmax - Qmin costs
WEIGHTS_LITERAL = 448.0  # what the weights' largest becomes as printed: E4M3's largest
BATCH = 8  # pictures at once
INT8 = "int8"
FORMATS = {"E4M3": "fp8e4m3", "E5M2": "fp8e5m2", "E3M4": "e3m4", INT8: "fixed8"}  # as `hil` names them


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a format at scale 1, in float32: `minifloat` None for the integers -128..127."""

    minifloat: Minifloat | None

    @property
    def largest(self) -> float:
        return 127.0 if self.minifloat is None else self.minifloat.largest

    @property
    def span(self) -> float:
        """Qmax - Qmin."""
        return 255.0 if self.minifloat is None else 2 * self.largest

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """To nearest, ties to even, saturated: adding and taking away 1.5 * 2**23 units rounds."""
        if self.minifloat is None:
            return np.clip(np.rint(x), -128, 127)
        fmt = self.minifloat
        shift = (x.view(np.int32) & 0x7F800000).view(np.float32)  # 2 ** floor(log2 |x|)
        np.maximum(shift, 2.0 ** (1 - fmt.bias), out=shift)
        shift *= 1.5 * 2.0 ** (23 - fmt.mantissa_bits)
        rounded = x + shift
        rounded -= shift
        return np.clip(rounded, -fmt.largest, fmt.largest, out=rounded)


def numbers(name: str) -> Numbers:
    """Of a format of `FORMATS`."""
    fmt = None if name == INT8 else named(FORMATS[name]).fit(0.0)
    assert fmt is None or isinstance(fmt, Minifloat)
    return Numbers(fmt)


@dataclass(frozen=True, slots=True)
class Reach:
    """How far the magnitudes of a value go: all, all but one in a thousand, all but one in ten thousand."""

    largest: float
    percentile: float
    as_printed: float


def reach(values: np.ndarray) -> Reach:
    size = np.abs(values)
    cuts = [1.0, 1 - LEFT_OUT, 1 - LEFT_OUT_AS_PRINTED]
    return Reach(*map(float, np.quantile(size, cuts))) if size.size else Reach(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Scheme:
    """A format, a rule for its scales, and whether weights have one for each output channel.

    `paper-literal` is the paper's: S of activations is the 99.99th percentile over Qmax - Qmin, of weights for each
    output channel the largest over 448; x / S is rounded to a whole number before it is cast (equation 7).
    """

    format: str
    rule: str
    by_channel: bool = False

    @property
    def rounds_first(self) -> bool:
        """To whole numbers, before the cast."""
        return self.rule in (LITERAL, BY_QMAX)

    def scale(self, of: Reach) -> float:
        """S; 1 for what is zero throughout."""
        how = numbers(self.format)
        if self.rule in CONSTANT:
            return float(self.rule)
        if self.rule == "percentile":
            found = of.percentile / how.largest
        elif self.rounds_first:
            found = of.as_printed / (how.span if self.rule == LITERAL else how.largest)
        elif self.rule == "power of two":
            found = math.ldexp(1.0, named(FORMATS[self.format]).fit(of.largest).exponent)
        else:
            found = of.largest / how.largest
        return float(np.float32(found)) or 1.0

    def held(self, x: np.ndarray, scale: float | np.ndarray) -> np.ndarray:
        """`x` as the format holds it, float32."""
        scale = np.asarray(scale, np.float32)
        given = x.astype(np.float32) / scale
        how = numbers(self.format)
        return np.asarray(how.rounded(np.rint(given) if self.rounds_first else given) * scale)

    def _weight_scale(self, of: Reach) -> float:
        if not self.rounds_first:
            return self.scale(of)
        return float(np.float32(of.largest / min(WEIGHTS_LITERAL, numbers(self.format).largest))) or 1.0

    def weights(self, array: np.ndarray, axis: int) -> np.ndarray:
        """Constants of a layer, with a scale for each index of `axis` or one for all."""
        if not self.by_channel:
            return self.held(array, self._weight_scale(reach(array)))
        rows = np.moveaxis(array, axis, 0)
        scales = np.array([self._weight_scale(reach(row)) for row in rows], np.float32)
        return np.moveaxis(self.held(rows, scales.reshape(-1, *(1,) * (rows.ndim - 1))), 0, axis)


def schemes() -> tuple[Scheme, ...]:
    """Every format under every rule; weights by channel where the values decide."""
    return tuple(
        Scheme(fmt, rule, by_channel)
        for rule in RULES
        for by_channel in ((False,) if rule in CONSTANT else (True,) if rule == LITERAL else (False, True))
        for fmt in FORMATS
    )


WHOLE_REACH = Scheme("E4M3", BY_QMAX, True)


@dataclass(frozen=True, slots=True)
class Operands:
    """What the layers of a graph read: run-time values, and constants with the axis of their outputs."""

    values: frozenset[str]
    weights: Mapping[str, int]


def operands(graph: Graph) -> Operands:
    layers = [node for node in graph.nodes if node.op in LINEAR]
    read = [(node, name) for node in layers for name in node.inputs[:2]]
    constants = {name: output_axis(graph.constants[name].ndim, node) for node, name in read if name in graph.constants}
    return Operands(frozenset(name for _, name in read if name not in constants), constants)


def reaches(graph: Graph, x: np.ndarray) -> dict[str, Reach]:
    """Of the run-time operands over calibration pictures."""
    wanted, seen = operands(graph).values, dict[str, list[np.ndarray]]()

    def watch(name: str, array: np.ndarray) -> None:
        if name in wanted:
            seen.setdefault(name, []).append(sketch(np.abs(array), 1 << 16))

    for picture in x:
        evaluate(graph, picture[None], watch)
    return {name: reach(np.concatenate(parts)) for name, parts in seen.items()}


def fake_quantized(
    graph: Graph, scheme: Scheme | None, known: Mapping[str, Reach], x: np.ndarray, exact: bool = False
) -> np.ndarray:
    """Outputs (samples, elements), float32; of the float network without a scheme. `exact`: layers sum in float64."""
    if scheme is None:
        return evaluate(graph, x).reshape(len(x), -1)
    read = operands(graph)
    held = {name: scheme.weights(graph.constants[name], axis) for name, axis in read.weights.items()}
    held = {name: array.astype(np.float64 if exact else np.float32) for name, array in held.items()}
    graph = replace(graph, constants={**graph.constants, **held})

    def value(name: str, array: np.ndarray) -> np.ndarray:
        return scheme.held(array, scheme.scale(known[name])) if name in read.values else array

    def take(node: Node, _: list[np.ndarray], results: list[np.ndarray]) -> list[np.ndarray]:
        return [value(name, array) for name, array in zip(node.outputs, results, strict=False)]

    source = graph.inputs[0]
    given = x.reshape(len(x), *graph.shapes[source])
    parts = [replay(graph, value(source, part), take) for part in np.array_split(given, -(-len(x) // BATCH))]
    return np.concatenate(parts).reshape(len(x), -1)
