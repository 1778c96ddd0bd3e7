"""The sum a layer computes, sum_k w[n][k] * x[k] + b[n]: its constants, its scale and the width that holds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER, Domain, Format
from tinyhil.formats.quire import granule_of, place
from tinyhil.language.form import Form, Joined
from tinyhil.language.graph import Node
from tinyhil.language.kernel import Kernel
from tinyhil.language.lowering_context import Lowering, domain_of, loaded
from tinyhil.language.program import Op, Tensor
from tinyhil.ops import affine, channels, groups
from tinyhil.ops.limits import ADDEND, limited_form
from tinyhil.ops.operator import accumulator_bits, refuse

BIAS_SHIFT = "bias_shift"
BIAS_BITS = 56  # of a bias in units of the sum it joins; the widest accumulator has 63


@dataclass(frozen=True, slots=True)
class Constant:
    """Weights (outputs in front) or bias (outputs,) of a layer: the name to store them under, and their format."""

    name: str
    array: np.ndarray
    format: Format
    steps: np.ndarray | None = None  # the scale of each element's integer, if the model states them

    @staticmethod
    def derived(name: str, array: np.ndarray, like: Format) -> Constant:
        """One that is not a value of the model, in a format like that of one that is."""
        return Constant(name, array, like.fitted(float(np.abs(array).max(initial=0.0))))


def with_bias(*kernels: Kernel) -> tuple[Kernel, ...]:
    """Each kernel, and its form with a constant bias inside the exact sum."""
    both: list[Kernel] = []
    for kernel in kernels:
        params, static = (*kernel.params, BIAS_SHIFT), (*kernel.static_params, BIAS_SHIFT)
        form = replace(kernel.form, bias=True)
        both += [kernel, replace(kernel, form=form, params=params, static_params=static)]
    return tuple(both)


def emit_layer(
    node: Node,
    lowering: Lowering,
    form: Form,
    operands: tuple[Constant, str, Constant | None],
    params: dict[str, int],
    scratch: Tensor | None = None,
) -> None:
    """One call of the form's base, in the arithmetic that the operands ask for, on constant weights, the value x and
    the bias.

    `params` lacks the shifts. The bias joins the exact sum. ModelError for operands of two kinds.
    """
    weights, x, bias = operands
    source, start = lowering.format(x), None if bias is None else bias.array
    if weights.format.is_per_group:
        parts = groups.grouped(weights.array, weights.steps) if weights.steps is not None else None
        if parts is not None and groups.takes(parts, source, lowering.format(node.outputs[0])):
            groups.emit_layer(node, lowering, (weights.name, parts, x, start), params)
            return
    if affine.is_affine(weights.format, source):
        made = affine.layer(node, weights.name, (weights.array, weights.steps), start, source.smallest)
        affine.emit_layer(node, lowering, form, x, made, params, scratch)
        return
    if _needs_multipliers(weights.format, source, lowering.format(node.outputs[0]), is_window=scratch is not None):
        affine.emit_layer(node, lowering, form, x, _as_it_is(weights, source, start), params, scratch)
        return
    if channels.takes(weights.format, lowering.format(x)):
        given = (weights.name, weights.array, None if bias is None else bias.array, x)
        channels.emit_layer(node, lowering, form, given, params, scratch)
        return
    if scratch is not None and affine.is_affine(lowering.format(x)):
        what = f"'{x}' is an asymmetric integer, its weights are {weights.format}"
        raise refuse(node, what, "give these int8 or fixed point of at most 16 bits, or none of both int8")
    out = lowering.define(node.outputs[0])
    if bias is not None and domain_of((weights.format, bias.format, lowering.format(x))) == INTEGER:
        largest = float(np.abs(bias.array).max(initial=0.0))
        least = channels.least_exponent(weights.format, lowering.format(x), largest, BIAS_BITS)
        if least is not None and least > weights.format.exponent:
            weights = replace(weights, format=weights.format.coarser(least))
    unit = loaded(lowering.format(x)).exponent + loaded(weights.format).exponent
    names = [lowering.add_constant(weights.name, weights.array, weights.format), lowering.tensor(x)]
    bias_shift = 0
    if bias is not None:
        fmt, bias_shift = joining(bias.format, unit, domain_of((weights.format, lowering.format(x))))
        names.append(lowering.add_constant(bias.name, bias.array, fmt))
    stored = (names[0], *names[2:])
    form, ends = limited_form(form, node, out.format)
    if ADDEND in node.attrs:  # tinyhil/ops/residual.py
        names.append(node.attrs[ADDEND])
        form = replace(form, joined=Joined.SUM)
        ends = {**ends, "add_shift": loaded(lowering.tensors[names[-1]].format).exponent - unit}
    params = {**params, "bias_shift": bias_shift, "shift": out.format.exponent - unit, **ends}
    patch = scratch.name if scratch is not None else ""
    op = Op(replace(form, bias=bias is not None), node.name, tuple(names), out.name, params, scratch=patch)
    lowering.emit(node, proven(op, lowering, weights, stored, x))


def _needs_multipliers(weights: Format, x: Format, out: Format, *, is_window: bool) -> bool:
    """Whether fixed-point weights meet asymmetric integers in a way that shifts can not say: windows of these, or
    results of these with a scale per channel. The kernels of asymmetric layers have a multiplier for each output."""
    if not weights.is_binary_point or weights.is_sign or weights.domain != INTEGER:
        return False
    if affine.is_affine(x):
        return is_window
    return weights.is_per_channel and x.is_binary_point and x.domain == INTEGER and affine.is_affine(out)


def _as_it_is(weights: Constant, x: Format, bias: np.ndarray | None) -> affine.Layer:
    """Fixed-point weights in their own codes, and the scale of each output."""
    rows = weights.array.reshape(len(weights.array), -1).astype(np.float64)
    start = np.zeros(len(rows)) if bias is None else bias.astype(np.float64)
    like = Fixed(x.bits, math.floor(math.log2(x.smallest))) if affine.is_affine(x) else x
    made = channels.scaled_rows(rows, weights.format, start, like)
    return affine.Layer(weights.name, made.codes, start, np.ldexp(1.0, made.exponents))


def joining(bias: Format, unit: int, domain: Domain) -> tuple[Format, int]:
    """The format of a bias in a sum of `domain` in units of 2**unit, and its shift into that unit.

    One that joins integers is never finer than they are. Sums of floats and of coded numbers have a unit that says
    nothing of their resolution: what joins them keeps its own.
    """
    granule = loaded(bias).exponent - bias.exponent
    if domain == bias.domain == INTEGER:
        bias = bias.scaled(max(bias.exponent, unit - granule))
    return bias, bias.exponent + granule - unit


def proven(op: Op, lowering: Lowering, weights: Constant, stored: Sequence[str], x: str) -> Op:
    """`op` with an accumulator that holds its sums, whatever the value `x` is.

    `stored`: the tensors of `weights` and, if there is one, of the bias.
    """
    rows = lowering.magnitudes(stored[0]).reshape(len(weights.array), -1)
    largest_bias = lowering.magnitudes(stored[1]) if len(stored) > 1 else np.zeros(1)
    bias_shift = op.params.get("bias_shift", 0)
    if domain_of(lowering.tensors[name].format for name in (*stored, lowering.tensor(x))) == INTEGER:
        # |sum| <= sum of |w| of an output times the largest |x| the format can hold, plus |b|
        bounds = rows.sum(axis=1).astype(object) * -lowering.loaded(x).lowest
        bounds = bounds + largest_bias.astype(np.int64).astype(object) * (1 << max(bias_shift, 0))
        if "add_shift" in op.params:
            bounds = bounds - (loaded(lowering.tensors[op.inputs[-1]].format).lowest << op.params["add_shift"])
        return replace(op, accumulator_bits=accumulator_bits(int(bounds.max(initial=0)), op.params["shift"]))
    start = np.ldexp(largest_bias.astype(np.float64), bias_shift)
    is_fixed = start.any() and lowering.tensors[stored[1]].format.domain == INTEGER
    granules = (weights.format.granule, granule_of(start) if is_fixed else None)
    window = place(rows.astype(np.float64), lowering.format(x), lowering.observed(x), start.max(initial=0.0), granules)
    return replace(op, accumulator_bits=window.bits, low=window.low, guard=window.guard)
