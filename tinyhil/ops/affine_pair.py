"""LayerPair of asymmetric integers: two products with constant weights in one exact sum, one rounding.

The scales of weights are chosen so that the products of both have one unit in each output, but for a power of two
(`lift`), and so that the factor to the result's scale is a whole number of 2^-16 where that is below 2^-8: the
rounding is a product with one byte then, and weights lose an eighth of their resolution at most. The common unit is the
coarser one of an output: of the other product's weights there the error in the sum is no larger than of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyhil.formats.affine import MOST_BIAS, SMALLEST_RANGE, as_affine, rescale_once
from tinyhil.formats.format import Format
from tinyhil.language.graph import Node
from tinyhil.language.lowering_context import Lowering
from tinyhil.language.program import Op
from tinyhil.ops import affine
from tinyhil.ops.limits import forms, limited_form
from tinyhil.ops.operator import Arithmetic, Arrays, Form, Joined, Kernel, Limit, attr

LARGEST = 127  # code of a weight
MOST_LIFT = 8
FACTOR_BITS = 16
MOST_FACTOR = 255
FEWEST_STEPS = 8  # of a factor, so that rounding it up costs no weight more than an eighth


@dataclass(frozen=True, slots=True)
class _Product:
    """Rows of weights in units of `scale`, of the operand `x` with zero point `zero`."""

    name: str
    x: str
    rows: np.ndarray
    scale: float
    zero: int

    @property
    def least_units(self) -> np.ndarray:
        """The finest unit of each output's products."""
        return np.maximum(np.abs(self.rows).max(axis=1, initial=0.0), SMALLEST_RANGE) * self.scale / LARGEST

    def codes(self, units: np.ndarray) -> np.ndarray:
        """The weights where products have these units."""
        return np.clip(np.rint(self.rows * self.scale / units[:, None]), -LARGEST, LARGEST).astype(np.int64)


def lower(node: Node, lowering: Lowering) -> None:
    """One call of dense_affine_pair."""
    products = [_product(layer, lowering) for layer in node.attrs["layers"]]
    products.sort(key=lambda product: float(np.median(product.least_units)))
    fine, coarse = products
    apart = np.median(coarse.least_units / fine.least_units)
    lift = int(min(max(np.floor(np.log2(apart) + 0.5), 0), MOST_LIFT))
    bias = _bias(node, lowering, len(fine.rows))
    out = lowering.define(node.outputs[0])
    target = as_affine(out.format)
    units = np.maximum(fine.least_units, coarse.least_units / (1 << lift))
    units, factors = _whole(np.maximum(units, np.abs(bias) / MOST_BIAS), target.scale)
    codes, more = fine.codes(units), coarse.codes(units * (1 << lift))
    start = np.rint(bias / units).astype(np.int64) - fine.zero * codes.sum(axis=1)
    start -= coarse.zero * more.sum(axis=1) << lift
    sizes = np.abs(codes).sum(axis=1) + (np.abs(more).sum(axis=1) << lift)
    constants, bits = affine.constants_of(node, lowering, sizes, start, factors)
    names = (
        lowering.add_codes(fine.name, codes.reshape(-1), affine.BYTE),
        lowering.tensor(fine.x),
        *constants,
        lowering.add_codes(coarse.name, more.reshape(-1), affine.BYTE),
        lowering.tensor(coarse.x),
    )
    form, ends = limited_form(PAIR.form, node, target)
    params = {
        "rows": out.count // len(codes),
        "outputs": len(codes),
        "inner": codes.shape[1],
        "more_inner": more.shape[1],
        "lift": lift,
        "zero": target.zero,
        **ends,
    }
    lowering.emit(node, Op(form, node.name, names, out.name, params, bits))


def _product(layer: Node, lowering: Lowering) -> _Product:
    x, w = layer.inputs[:2]
    weights = lowering.constant(w)
    assert weights is not None
    fmt = as_affine(lowering.format(x))
    rows = weights if attr(layer, "transB", 0) else weights.T
    return _Product(w, x, rows.astype(np.float64), fmt.scale, fmt.zero)


def _bias(node: Node, lowering: Lowering, outputs: int) -> np.ndarray:
    name = next((layer.inputs[2] for layer in node.attrs["layers"] if len(layer.inputs) == 3), None)
    values = None if name is None else lowering.constant(name)
    return np.zeros(outputs) if values is None else np.broadcast_to(values, (1, outputs))[0].astype(np.float64)


def _whole(units: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Units not below these, and their factors to `scale`: whole numbers of 2^-FACTOR_BITS if those are bytes."""
    whole = np.ceil(units / scale * (1 << FACTOR_BITS))
    if whole.max() > MOST_FACTOR or whole.min() < FEWEST_STEPS:
        return units, units / scale
    factors = np.ldexp(whole, -FACTOR_BITS)
    return factors * scale, factors


def _execute(op: Op, arrays: Arrays, out: Format) -> tuple[np.ndarray, np.ndarray]:
    p = op.params
    weights, x, bias, multipliers, shifts, more, y = arrays
    first = x.reshape(-1, p["rows"], p["inner"]) @ weights.reshape(-1, p["inner"]).T
    second = y.reshape(-1, p["rows"], p["more_inner"]) @ more.reshape(-1, p["more_inner"]).T
    sums = first + (second << p["lift"]) + bias.reshape(-1)
    codes = rescale_once(sums, multipliers.reshape(-1), shifts.reshape(-1)) + p["zero"]
    return affine.limited(codes, op, out)


PAIR = Kernel(
    Form("dense", Arithmetic.AFFINE, joined=Joined.PAIR),
    "two dense_affine in one exact sum, one rounding",
    _execute,
    ("rows", "outputs", "inner", "more_inner", "lift", "zero"),
    ("lift", "zero"),
    is_sum=True,
    codes=tuple(range(7)),
)
KERNELS = (PAIR, *forms((PAIR,), (Limit.CLIP,)))
