"""Smooth functions that are a straight line plus something of the distance from zero: Erf, Gelu, Softplus, Elu, ...

y = max(x, 0) or nothing, plus or minus h(|x|). h comes from a table of unsigned 16-bit entries in steps of 1/32,
between them from the parabola through three neighbours (Newton's form). The line is added exactly, then one rounding.

| function | line | above 0 | below 0 | h(t) |
|---|---|---|---|---|
| Erf | no | + | - | erf(t) |
| Gelu | yes | - | - | t (1 - Phi(t)) |
| Softplus | yes | + | + | log(1 + exp(-t)) |
| Elu | yes | 0 | - | alpha (1 - exp(-t)) |

Error of h before the rounding, in units of the table (2**-16 for Erf, 2**-18 for Gelu, ...): half a unit by the entry,
1/8 more by the parabola, 1/(9 sqrt(3)) of the third difference, 1/8 by truncations; erf's last entries are cut off at
1 - 2**-16, one unit. `worst_error` says what that comes to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.codec import requantize
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import real_functions
from tinyhil.ops.exponential import infer_same
from tinyhil.ops.operator import Arrays, Form, Kernel, Operator, accumulator_bits, attr, by_domain

STEPS_LOG2 = 5
ENTRY_BITS = 16
PRODUCT_BITS = 19  # of f (1 - f): second differences up to 2**10 stay within 32 bits
GUARD_BITS = 4  # the interpolated value has so many bits more than an entry
MAX_FRACTION_BITS = 12
Function = Callable[[np.ndarray], np.ndarray]

_math_erf = np.frompyfunc(math.erf, 1, 1)


@dataclass(frozen=True, slots=True)
class Curve:
    """`h` for 0 <= t <= `reach`; `below` and `above` are its signs, `line` is 1 where max(x, 0) is added."""

    table: str
    h: Function
    reach: float
    line: int
    below: int
    above: int

    @property
    def last(self) -> int:
        """Index of the entry at `reach`."""
        return math.ceil(self.reach * (1 << STEPS_LOG2))

    @property
    def fraction_bits(self) -> int:
        """Of a table entry: the largest that keeps 16 bits."""
        t = np.linspace(0, self.reach, 1000)
        _, power = math.frexp(float(np.max(self.h(t))) * (1 - 2.0**-18))  # an h that only tends to 1 stays below
        return ENTRY_BITS - power

    @property
    def worst_error(self) -> float:
        """Bound of the absolute error: interpolation between the table's entries, and their rounding."""
        exact = self.h(np.arange(self.last + 3) / (1 << STEPS_LOG2))
        bent = float(np.abs(np.diff(exact, 3)).max()) / (9 * math.sqrt(3))
        return 1.1 * 2.0**-self.fraction_bits + bent

    def entries(self) -> np.ndarray:
        """One per step, and two more behind the end for the parabola."""
        t = np.arange(self.last + 3) / (1 << STEPS_LOG2)
        scaled = np.floor(self.h(t) * 2.0**self.fraction_bits + 0.5).astype(np.int64)
        return np.clip(scaled, 0, (1 << ENTRY_BITS) - 1)

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        """float32 of any shape, computed in float64: what the table approximates."""
        wide = x.astype(np.float64)
        h = self.h(np.abs(wide))
        return (self.line * np.maximum(wide, 0) + np.where(wide < 0, self.below, self.above) * h).astype(np.float32)


def _erf(t: np.ndarray) -> np.ndarray:
    made: np.ndarray = _math_erf(t).astype(np.float64)
    return made


def _normal_tail(t: np.ndarray) -> np.ndarray:
    return 0.5 * (1 - _erf(t / math.sqrt(2)))


def _tanh_tail(t: np.ndarray) -> np.ndarray:
    return 0.5 * (1 - np.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)))


ERF = Curve("erf_table", _erf, 4.0, 0, -1, 1)
GELU = Curve("gelu_table", lambda t: t * _normal_tail(t), 5.5, 1, -1, -1)
GELU_TANH = Curve("gelu_tanh_table", lambda t: t * _tanh_tail(t), 5.5, 1, -1, -1)
SOFTPLUS = Curve("softplus_table", lambda t: np.log1p(np.exp(-t)), 12.0, 1, 1, 1)


def elu(alpha: float) -> Curve:
    """alpha (exp(x) - 1) below zero. A negative alpha bends upwards."""
    size, sign = abs(alpha), -1 if alpha > 0 else 1
    return Curve(f"elu_table_{alpha!r}", lambda t: size * -np.expm1(-t), 12.0, 1, sign, 0)


def worst_error(op: Op) -> float:
    """Of what an operation with this kernel interpolates: told by its table."""
    elus = [elu(float(alpha)) for alpha in op.inputs[0].split("_")[2:3] if op.inputs[0].startswith("elu")]
    return max(curve.worst_error for curve in elus or (ERF, GELU, SOFTPLUS))


def curve_of(node: Node) -> Curve:
    """The curve that an Erf, Gelu, Softplus or Elu is."""
    if node.op == "Elu":
        return elu(float(attr(node, "alpha", 1.0)))
    if node.op == "Gelu":
        return GELU_TANH if real_functions.is_tanh_form(node) else GELU
    return {"Erf": ERF, "Softplus": SOFTPLUS}[node.op]


def _evaluate(node: Node, arrays: Arrays) -> list[np.ndarray]:
    return [curve_of(node).evaluate(arrays[0])]


def _lower(node: Node, lowering: Lowering) -> None:
    curve = curve_of(node)
    x, fmt = lowering.operand(node.inputs[0]), lowering.loaded(node.inputs[0])
    table = lowering.add_table(curve.table, curve.entries())
    out = lowering.define(node.outputs[0])
    below_point = -(fmt.exponent + STEPS_LOG2)
    unit = -(curve.fraction_bits + GUARD_BITS)  # exponent of an interpolated value
    exponent = min(fmt.exponent, unit) if curve.line else unit
    x_lift, h_lift = (fmt.exponent - exponent if curve.line else 0), unit - exponent
    shift = out.format.exponent - exponent
    params = {
        "count": out.count,
        "last": curve.last,
        "drop": min(max(below_point - MAX_FRACTION_BITS, 0), 16),
        "fraction_bits": min(max(below_point, 0), MAX_FRACTION_BITS),
        "lift": min(max(-below_point, 0), 14),
        "line": curve.line,
        "below": curve.below,
        "above": curve.above,
        "x_lift": x_lift,
        "h_lift": h_lift,
        "shift": shift,
    }
    bound = curve.line * (-fmt.lowest << x_lift) + (1 << (ENTRY_BITS + GUARD_BITS + h_lift + 1))
    lowering.emit(node, Op(CURVE.form, node.name, (table, x), out.name, params, accumulator_bits(bound, shift)))


def between(table: np.ndarray, position: np.ndarray, fraction_bits: int, last: int) -> np.ndarray:
    """h * 2**(fraction bits of an entry + 4) at `position` / 2**fraction_bits steps."""
    index = position >> fraction_bits
    f = np.where(index < last, position & ((1 << fraction_bits) - 1), 0)
    at = np.minimum(index, last)
    first, second, third = table[at], table[at + 1], table[at + 2]
    slope = ((second - first) * f << GUARD_BITS) >> fraction_bits
    spare = max(2 * fraction_bits - PRODUCT_BITS, 0)
    product = (f * ((1 << fraction_bits) - f)) >> spare
    bend = ((third - 2 * second + first) * product << (GUARD_BITS - 1)) >> (2 * fraction_bits - spare)
    result: np.ndarray = (first << GUARD_BITS) + slope - bend
    return result


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p, x = op.params, arrays[1]
    position = (np.abs(x) >> p["drop"]) << p["lift"]
    h = between(arrays[0].reshape(-1), position, p["fraction_bits"], p["last"])
    total = np.where(x < 0, p["below"], p["above"]) * (h << p["h_lift"])
    if p["line"]:
        total = total + (np.maximum(x, 0) << p["x_lift"])
    return requantize(total, p["shift"], out)


_SHAPE = ("last", "drop", "fraction_bits", "lift", "line", "below", "above", "x_lift", "h_lift", "shift")
CURVE = Kernel(
    Form("curve"),
    "a line above zero plus a tabulated function of |x|, parabolas between entries",
    _execute,
    ("count", *_SHAPE),
    ("fraction_bits", "line", "x_lift", "h_lift", "shift"),
    in_place=True,
)
KERNELS = (CURVE,)


def _operator(name: str, summary: str, attributes: tuple[str, ...] = ()) -> Operator:
    lower = by_domain(_lower, real_functions.function(_evaluate))
    return Operator(name, summary, infer_same, _evaluate, lower, attributes)


def _text(curve: Curve) -> str:
    return f"worst error {curve.worst_error:.1e} besides its rounding"


OPERATORS = (
    _operator("Erf", _text(ERF)),
    _operator("Gelu", f"exact or tanh form; {_text(GELU)}", ("approximate",)),
    _operator("Softplus", _text(SOFTPLUS)),
    _operator("Elu", f"{_text(elu(1.0))} for alpha 1", ("alpha",)),
)
