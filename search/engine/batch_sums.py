"""Calls of the batch engine for sums of products: layers of every kind, and products of computed matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyhil.formats.format import CODED, INTEGER, SINGLE
from tinyhil.formats.quire import Window, granule_of
from tinyhil.language.arithmetic import scaled
from tinyhil.language.form import Form, Joined
from tinyhil.language.program import Op
from tinyhil.ops import affine, affine_pair, batched, channels, conv, gathered, linear, pair, sparse
from tinyhil.ops.sparse import matrix
from tinyhil.ops.window import FIELDS, window_of
from tinyhil.search.engine.numbers import INTS, Unsupported, kind_of
from tinyhil.search.engine.operands import Maker, Operands
from tinyhil.search.engine.tables import (
    DOUBLE_BITS,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    NARROW_BITS,
    ONCE,
    PLAIN,
    STARTS,
    TWICE,
    WEIGHTS,
    WIDE,
    WINDOW,
    WINDOW_AT,
    Call,
)


def limit_of(flat: Operands, op: Op) -> tuple[int, tuple[float, ...]]:
    """What keeps a layer's results within an activation, and its ends as codes.

    Unsupported for limits of coded results.
    """
    if "low" not in op.params:
        return 0, ()
    if "high" not in op.params:
        return 1, ()
    if op.domain != INTEGER or kind_of(flat.program.tensors[op.output].format) != INTS:
        raise Unsupported("limits of coded results")
    return 2, (float(op.params["low"]), float(op.params["high"]))


# ---- sums of products


def _sum(
    flat: Operands, op: Op, weights: np.ndarray, bias: np.ndarray | None, copies: int
) -> tuple[int, tuple[int, int], tuple[float, ...], tuple[int, int], int]:
    """(mode, weights and start, reals, (low, flags), clipped) of a layer: `weights` (outputs, inner) and `bias`
    (outputs,) as the domain loads them, `copies`: how often each bias is used."""
    start = np.zeros(len(weights), weights.dtype) if bias is None else bias
    power = op.params.get("bias_shift", 0)
    if op.domain == CODED:
        return _window_sum(flat, op, weights, start, power, copies)
    mode = FLOAT32 if op.domain == SINGLE else _exact_mode(op.accumulator_bits)
    addresses = flat.keep(weights, WEIGHTS[mode]), flat.keep(scaled(start, power), STARTS[mode])
    return mode, addresses, (), (0, 0), 0


def _exact_mode(bits: int) -> int:
    return INT32 if bits <= NARROW_BITS else FLOAT64 if bits <= DOUBLE_BITS else INT64


def _window_sum(
    flat: Operands, op: Op, weights: np.ndarray, bias: np.ndarray, power: int, copies: int
) -> tuple[int, tuple[int, int], tuple[float, ...], tuple[int, int], int]:
    window = Window(op.accumulator_bits, op.low, op.guard)
    start, clipped = window.start(bias, power)
    units = np.ldexp(weights, -op.low)
    sizes = np.abs(units)
    reals = (
        float(sizes.sum(axis=1).max(initial=0.0)),
        float(np.abs(start).max(initial=0)),
        float(sizes.max(initial=0.0)),
        float(window.limit) if op.guard else 0.0,
    )
    x = flat.format(op, 1)
    cuts = granule_of(weights) + (x.granule if x.domain == CODED else 0) < op.low
    flags = int(max(flat.format(op, 0).bits, x.bits) <= 16) | 2 * int(cuts)
    addresses = flat.keep(units, np.float64), flat.keep(start, np.int64)
    return WINDOW, addresses, reals, (op.low, flags), int(clipped.sum()) * copies


def _layer(flat: Operands, op: Op, weights: np.ndarray, bias: np.ndarray | None) -> Call:
    """A dense layer or a convolution; x is operand 1."""
    p = op.params
    copies = window_of(p).pixels if "kernel_y" in p else p["rows"]
    mode, addresses, reals, (low, flags), clipped = _sum(flat, op, weights, bias, copies)
    limit, ends = limit_of(flat, op)
    params = _layer_params(op, weights, (p.get("shift", 0), low, flags, PLAIN, 0, 0, limit))
    reals = reals or ends
    (source,), _ = flat.batched(op, 1)
    return _layer_call(op, params, source, (*addresses, 0, 0, 0), reals, mode, clipped)


def _layer_params(op: Op, weights: np.ndarray, rest: tuple[int, ...]) -> list[int]:
    p = op.params
    outer = p["groups"] if "kernel_y" in p else p["rows"]
    params = [outer, *weights.shape, *rest]
    if "kernel_y" in p:
        params += [0] * (WINDOW_AT - len(params)) + [p[name] for name in FIELDS]
    return params


def _layer_call(
    op: Op, params: list[int], source: int, data: tuple[int, ...], reals: tuple[float, ...], mode: int, clipped: int
) -> Call:
    if source < 0:
        raise Unsupported("a layer of a constant")
    return Call(Form(op.kernel.base), params, (-1, source), data, reals, mode, clipped)


def _plain_layer(flat: Operands, op: Op) -> Call:
    weights = flat.scalars(op, 0).reshape(op.params["outputs"], -1)
    bias = flat.scalars(op, 2) if len(op.inputs) == 3 else None
    return _layer(flat, op, weights, bias)


def _layer_sum(flat: Operands, op: Op) -> Call:
    """A layer whose sums a computed tensor joins."""
    weights = flat.scalars(op, 0).reshape(op.params["outputs"], -1)
    call = _layer(flat, op, weights, flat.scalars(op, 2) if len(op.inputs) == 4 else None)
    (addend,), _ = flat.batched(op, len(op.inputs) - 1)
    if addend < 0 or op.domain != INTEGER:
        raise Unsupported("a sum with a constant")
    call.inputs = (*call.inputs, addend)
    call.reals = (*(*call.reals, 0.0, 0.0)[:2], float(op.params["add_shift"]), 1.0)
    return call


def _layer_pair(flat: Operands, op: Op) -> Call:
    """Two layers in one sum: the weights of the second one are moved left to the unit of the first one's sums."""
    p = op.params
    weights = flat.scalars(op, 0).reshape(p["outputs"], -1)
    return _with_second(flat, op, _layer(flat, op, weights, flat.scalars(op, 2) if len(op.inputs) == 5 else None))


def _affine_layer_pair(flat: Operands, op: Op) -> Call:
    return _with_second(flat, op, _affine_layer(flat, op))


def _with_second(flat: Operands, op: Op, call: Call) -> Call:
    """`call` of the first of two layers, with the products of the second."""
    p = op.params
    (more,), _ = flat.batched(op, len(op.inputs) - 1)
    if more < 0:
        raise Unsupported("a layer of a constant")
    moved = scaled(flat.scalars(op, len(op.inputs) - 2).reshape(p["outputs"], -1), p["lift"])
    call.inputs = (*call.inputs, more)
    call.data = (*call.data[:2], flat.keep(moved, WEIGHTS[call.mode]), *call.data[3:])
    call.reals = (*(*call.reals, 0.0, 0.0)[:2], float(p["more_inner"]), 2.0)
    return call


def _sparse_layer(flat: Operands, op: Op) -> Call:
    """As a dense layer: in a batch a zero costs less than an index."""
    p = op.params
    weights = matrix(flat.codes(op, 0), flat.scalars(op, 1), p["outputs"], p["inner"])
    bias = flat.scalars(op, 3) if len(op.inputs) == 4 else None
    inner = replace(op, inputs=op.inputs[1:])
    return _layer(flat, inner, weights, bias)


def _channel_layer(flat: Operands, op: Op) -> Call:
    """A shift for each output."""
    weights = flat.scalars(op, 0).reshape(op.params["outputs"], -1)
    start = flat.format(op, 2).decode(flat.codes(op, 2))
    call = _layer(flat, op, weights, start if op.domain == CODED else start.astype(np.int64))
    call.data = (*call.data[:3], flat.keep(flat.codes(op, 3), np.int64), 0)
    return call


def _affine_layer(flat: Operands, op: Op) -> Call:
    """A multiplier and a shift for each output."""
    p, is_narrow = op.params, _exact_mode(op.accumulator_bits) == INT32
    weights = flat.codes(op, 0).reshape(p["outputs"], -1)
    mode = INT32 if is_narrow else FLOAT64
    finish = WIDE if not is_narrow else TWICE if "kernel_y" in p else ONCE
    limit, ends = limit_of(flat, op)
    params = _layer_params(op, weights, (0, 0, 0, finish, p["zero"], p.get("pad", 0), limit))
    addresses = flat.keep(weights, WEIGHTS[mode]), flat.keep(flat.codes(op, 2), STARTS[mode])
    factors = flat.keep(flat.codes(op, 4), np.int64), flat.keep(flat.codes(op, 3), np.int64)
    (source,), _ = flat.batched(op, 1)
    return _layer_call(op, params, source, (*addresses, 0, *factors), ends, mode, 0)


def _dense_at(flat: Operands, op: Op) -> Call:
    """Weights of one row of a table, chosen for each sample."""
    flat.require_ints(op, 0)
    p = op.params
    weights = flat.scalars(op, 1).reshape(-1, p["inner"])
    layer = replace(op, inputs=op.inputs[1:])
    mode, (stored, _), reals, (low, flags), _ = _sum(flat, layer, weights, None, 1)
    index, codes = flat.batched(op, 0, raw=True)
    (source,), _ = flat.batched(op, 2)
    if source < 0:
        raise Unsupported("a layer of a constant")
    params = [p["rows"], p["outputs"], p["inner"], p["shift"], low, flags, p["size"], p["drop"]]
    return Call(op.kernel, params, (*index, -1, source), (*codes, stored), reals, mode)


def _matmul(flat: Operands, op: Op) -> Call:
    p = op.params
    inputs, data = flat.batched(op, 0, 1)
    low, flags, mode = 0, 0, FLOAT32
    reals: tuple[float, ...] = ()
    if op.domain == INTEGER:
        mode = _exact_mode(op.accumulator_bits)
        if mode != INT32:
            data = tuple(flat.repeated(op, n, STARTS[mode]) if source < 0 else 0 for n, source in enumerate(inputs))
    elif op.domain == CODED:
        window = Window(op.accumulator_bits, op.low, op.guard)
        mode, low = WINDOW, op.low
        flags = int(max(flat.format(op, 0).bits, flat.format(op, 1).bits) <= 16)
        reals = (0.0, 0.0, 0.0, float(window.limit) if op.guard else 0.0)
    steps = (p.get("batch", 1), p.get("a_step", 0), p.get("b_step", 0))
    params = [p["rows"], p["inner"], p["columns"], p["shift"], low, flags, *steps]
    return Call(linear.MATMUL.form, params, inputs, data, reals, mode)


# with an activation inside, or without
MAKERS: dict[Form, Maker] = {
    **dict.fromkeys((linear.DENSE.form, conv.CONV.form), _plain_layer),
    **{replace(form, joined=Joined.SUM): _layer_sum for form in (linear.DENSE.form, conv.CONV.form)},
    pair.PAIR.form: _layer_pair,
    sparse.SPARSE.form: _sparse_layer,
    **{kernel.form: _channel_layer for kernel in channels.LAYERS},
    **dict.fromkeys((affine.DENSE.form, affine.CONV.form), _affine_layer),
    affine_pair.PAIR.form: _affine_layer_pair,
    **dict.fromkeys((linear.MATMUL.form, batched.BATCH_MATMUL.form), _matmul),
    gathered.DENSE_AT.form: _dense_at,
}
