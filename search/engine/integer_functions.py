"""Calls of the batch engine for functions of integers: quotients, rows normalized, softmax; and resizing."""

from __future__ import annotations

import numpy as np

from tinyhil.formats.format import CODED, INTEGER
from tinyhil.formats.quire import Window
from tinyhil.language.form import Form
from tinyhil.language.program import Op
from tinyhil.ops import affine_softmax, division, normalize, softmax, upsample
from tinyhil.ops.window import FIELDS
from tinyhil.search.engine.numbers import Unsupported
from tinyhil.search.engine.operands import Maker, Operands
from tinyhil.search.engine.tables import WINDOW_AT, Call

DISTANCES = 256  # between codes of 8 bits


def _of_integers(operands: int, *names: str, table: int | None = None) -> Maker:
    """`operands` tensors, the last inputs of the operation, and perhaps a constant table."""

    def make(flat: Operands, op: Op) -> Call:
        if op.domain != INTEGER:
            raise Unsupported(f"kernel '{op.kernel}' of operands that are no integers")
        first = len(op.inputs) - operands
        inputs, data = flat.batched(op, *range(first, len(op.inputs)))
        if table is not None:
            data = (*data, flat.keep(flat.codes(op, table), np.int64))
        return Call(op.kernel, [op.params[name] for name in names], inputs, data)

    return make


def _softmax_of_codes(flat: Operands, op: Op) -> Call:
    inputs, data = flat.batched(op, 1, raw=True)
    exponentials = np.zeros(DISTANCES, np.int64)
    exponentials[: op.params["entries"]] = flat.codes(op, 0)
    params = [op.params[name] for name in ("outer", "count")]
    return Call(op.kernel, params, inputs, (*data, flat.keep(exponentials, np.int64)))


def _interpolate(flat: Operands, op: Op) -> Call:
    inputs, data = flat.batched(op, 1)
    params = [op.params[name] for name in ("outer", "chosen", "size", "inner", "shift")]
    window = Window(op.accumulator_bits, op.low, op.guard)
    limit = float(window.limit) if op.domain == CODED and op.guard else 0.0
    table = flat.keep(flat.codes(op, 0), np.int64)
    return Call(op.kernel, [*params, op.low], inputs, (*data, table), (limit,))


def _conv_transpose(flat: Operands, op: Op) -> Call:
    if op.domain != INTEGER:
        raise Unsupported(f"kernel '{op.kernel}' of operands that are no integers")
    p = op.params
    inputs, data = flat.batched(op, 1)
    weights = flat.keep(flat.scalars(op, 0), np.int64)
    starts = flat.keep(flat.scalars(op, 2) << p["bias_shift"], np.int64)
    params = [p["groups"], p["outputs"], p["shift"], *(0,) * (WINDOW_AT - 3), *(p[name] for name in FIELDS)]
    return Call(op.kernel, params, inputs, (*data, weights, starts))


_NORMALIZE = ("outer", "along", "inner", "unit", "centre", "epsilon_low", "epsilon_high", "lift", "exponent")
MAKERS: dict[Form, Maker] = {
    division.DIV.form: _of_integers(2, "count", "a_period", "b_period", "a_lift", "b_lift"),
    softmax.SOFTMAX.form: _of_integers(1, "outer", "count", "inner", "scale", "fraction_bits", table=0),
    affine_softmax.SOFTMAX.form: _softmax_of_codes,
    normalize.NORMALIZE.form: _of_integers(1, *_NORMALIZE),
    upsample.INTERPOLATE.form: _interpolate,
    upsample.CONV_TRANSPOSE.form: _conv_transpose,
}
