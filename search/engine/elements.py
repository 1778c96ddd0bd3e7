"""Calls of the batch engine element by element: sums, choices, moves, pools, functions by table.

Functions of one integer operand become tables over its codes, made by their numpy reference.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from tinyhil import ops
from tinyhil.formats.format import CODED, SINGLE, Format
from tinyhil.formats.quire import Window
from tinyhil.language.arithmetic import load
from tinyhil.language.form import Form
from tinyhil.language.kernel import Kernel
from tinyhil.language.program import Op
from tinyhil.ops import KERNEL_OF
from tinyhil.ops.movement import indices
from tinyhil.ops.window import FIELDS, window_of
from tinyhil.search.engine.batch_sums import limit_of
from tinyhil.search.engine.numbers import Unsupported, numbers_of
from tinyhil.search.engine.operands import Maker, Operands
from tinyhil.search.engine.tables import INT32, INT64, NARROW_BITS, RAW, ROUNDED, WINDOW_AT, Call, Own

# ---- element by element, moves


def _pairwise(*names: str) -> Maker:
    def make(flat: Operands, op: Op) -> Call:
        inputs, data = flat.batched(op, 0, 1)
        mode = INT32 if op.accumulator_bits <= NARROW_BITS else INT64
        return Call(op.kernel, [op.params[name] for name in names], inputs, data, (), mode)

    return make


def _plain(*names: str) -> Maker:
    """One operand."""

    def make(flat: Operands, op: Op) -> Call:
        inputs, data = flat.batched(op, 0)
        return Call(op.kernel, [op.params.get(name, 1) for name in names], inputs, data)

    return make


def _finished(flat: Operands, op: Op, *codes: int) -> tuple[float, ...]:
    """Codes of the output's format as numbers."""
    return tuple(float(x) for x in numbers_of(np.array(codes), flat.program.tensors[op.output].format))


def _squared_distance(flat: Operands, op: Op) -> Call:
    names = ("rows", "inner", "a_step", "b_step", "a_shift", "b_shift", "drop", "shift")
    call = _pairwise(*names)(flat, op)
    if op.domain == CODED:
        window = Window(op.accumulator_bits, op.low, op.guard)
        call.params += [op.params["significant"], op.low]
        call.reals = (float(window.limit) if op.guard else 0.0,)
    return call


def _line(*names: str) -> Maker:
    """A function in single precision with whole numbers as parameters."""

    def make(flat: Operands, op: Op) -> Call:
        if op.domain != SINGLE:
            raise Unsupported(f"kernel '{op.kernel}' of operands in the {op.domain} domain")
        inputs, data = flat.batched(op, 0)
        first, second, *more = (int(np.float32(op.params[name]).view(np.uint32)) for name in names)
        return Call(op.kernel, [op.params["count"], 0, first, second, op.params["shift"], *more], inputs, data)

    return make


def _compare(flat: Operands, op: Op) -> Call:
    inputs, data = flat.batched(op, 0, 1)
    params = [op.params[name] for name in ("count", "a_period", "b_period", "a_shift", "b_shift", "mode")]
    return Call(op.kernel, params, inputs, data, _finished(flat, op, 0, op.params["one"]))


def _sign(flat: Operands, op: Op) -> Call:
    inputs, data = flat.batched(op, 0)
    reals = _finished(flat, op, op.params["below"], op.params["zero"], op.params["above"])
    return Call(op.kernel, [op.params["count"]], inputs, data, reals)


def _truncate(flat: Operands, op: Op) -> Call:
    if op.domain not in (CODED, SINGLE):
        raise Unsupported(f"kernel '{op.kernel}' of integers that have no table")
    return _plain("count", "drop", "shift")(flat, op)


def _where(flat: Operands, op: Op) -> Call:
    flat.require_ints(op, 0)
    condition, codes = flat.batched(op, 0, raw=True)
    inputs, data = flat.batched(op, 1, 2)
    names = ("count", "c_period", "a_period", "b_period", "a_shift", "b_shift")
    return Call(op.kernel, [op.params[name] for name in names], condition + inputs, codes + data)


def _fill(flat: Operands, op: Op) -> Call:
    return Call(op.kernel, [op.params["count"]], reals=_finished(flat, op, op.params["value"]))


def _copy(flat: Operands, op: Op) -> Call:
    inputs, data = flat.batched(op, 0, raw=True)
    return Call(op.kernel, [op.params["count"]], inputs, data)


def _move(flat: Operands, op: Op) -> Call:
    return _moved(flat, op, 0, indices(dict(op.params)))


def _moved(flat: Operands, op: Op, index: int, positions: np.ndarray) -> Call:
    shift, mode = _rounding(op)
    inputs, data = flat.batched(op, index, raw=mode == RAW)
    return Call(
        ops.movement.MOVE.form, [len(positions), shift], inputs, (*data, 0, flat.keep(positions, np.int64)), mode=mode
    )


def _rounding(op: Op) -> tuple[int, int]:
    """Shift and mode of a move: what moves codes of one format (no shift) moves their numbers as they are."""
    return (op.params["shift"], ROUNDED) if "shift" in op.params else (0, RAW)


def _gather_rows(flat: Operands, op: Op) -> Call:
    p = op.params
    rows = np.arange(p["outer"])[:, None] * p["size"] + flat.codes(op, 0)
    return _moved(flat, op, 1, (rows.reshape(-1, 1) * p["inner"] + np.arange(p["inner"])).reshape(-1))


def _place(flat: Operands, op: Op) -> Call:
    positions = indices(dict(op.params))
    shift, mode = _rounding(op)
    inputs, data = flat.batched(op, 0, raw=mode == RAW)
    more = len(op.inputs) == 2
    if more:
        beside, codes = flat.batched(op, 1, raw=True)
        inputs, data = inputs + beside, data + codes
    params = [len(positions), shift, int(more)]
    placed = (*data[:2], *(0,) * (2 - len(data)), flat.keep(positions, np.int64))
    return Call(ops.movement.PLACE.form, params, inputs, placed, mode=mode)


def _gather_at(flat: Operands, op: Op) -> Call:
    flat.require_ints(op, 0)
    index, codes = flat.batched(op, 0, raw=True)
    inputs, data = flat.batched(op, 1)
    names = ("outer", "chosen", "size", "inner", "drop", "shift")
    return Call(op.kernel, [op.params[name] for name in names], index + inputs, codes + data)


def _row(flat: Operands, op: Op) -> Call:
    flat.require_ints(op, 0 if op.kernel == ops.index.TAKE_ROW.form else 1)
    inputs, data = flat.batched(op, *range(len(op.inputs)), raw=True)
    return Call(op.kernel, [op.params["inner"]], inputs, data)


def _place_at(flat: Operands, op: Op) -> Call:
    flat.require_ints(op, 1)
    inputs, data = flat.batched(op, *range(len(op.inputs)), raw=True)
    return Call(op.kernel, [op.params[name] for name in ("outer", "size", "inner", "drop")], inputs, data)


def _count(flat: Operands, op: Op) -> Call:
    flat.require_ints(op, 0)
    inputs, data = flat.batched(op, 0, raw=True)
    return Call(op.kernel, [op.params["by"]], inputs, data)


def _max_pool(flat: Operands, op: Op) -> Call:
    _, mode = _rounding(op)
    if mode == RAW:
        flat.require_ints(op, 0)
    inputs, data = flat.batched(op, 0, raw=mode == RAW)
    return Call(ops.pool.MAX_POOL.form, _pool_params(op), inputs, data, mode=mode)


def _pool_params(op: Op, *rest: int) -> list[int]:
    window = [op.params[name] for name in FIELDS]
    return [op.params.get("shift", 0), *rest, *(0,) * (WINDOW_AT - 1 - len(rest)), *window]


def _average_pool(flat: Operands, op: Op) -> Call:
    w = window_of(op.params)
    if len(op.inputs) == 2:
        pairs = flat.codes(op, 0).reshape(-1, 2)
        factors = (pairs[:, 0] + (pairs[:, 1] << 16))[w.valid_counts() - 1]
    else:
        factors = np.full(w.pixels, op.params["factor"])
    inputs, data = flat.batched(op, len(op.inputs) - 1)
    return Call(ops.pool.AVERAGE_POOL.form, _pool_params(op), inputs, (*data, 0, flat.keep(factors, np.int64)))


def _average_pool_affine(flat: Operands, op: Op) -> Call:
    """A multiplier and a shift for each pixel: they hold the number of elements that lie inside of the plane."""
    w, p = window_of(op.params), op.params
    at = w.valid_counts() - 1 if p["varies"] else np.zeros(w.pixels, np.int64)
    multipliers, shifts = (flat.keep(flat.codes(op, index)[at], np.int64) for index in (0, 1))
    inputs, data = flat.batched(op, 2, raw=True)
    limit, ends = limit_of(flat, op)
    reals = (*ends, 1.0) if limit else ()
    return Call(
        op.kernel.bare, _pool_params(op, p["x_zero"], p["zero"]), inputs, (*data, 0, multipliers, shifts), reals
    )


def _affine_pair(*names: str) -> Maker:
    def make(flat: Operands, op: Op) -> Call:
        inputs, data = flat.batched(op, 0, 1, raw=True)
        shared = ("count", "a_period", "b_period", "a_zero", "b_zero", "zero")
        limit, ends = limit_of(flat, op)
        reals = (*ends, 1.0) if limit else ()
        return Call(op.kernel.bare, [op.params[name] for name in (*shared, *names)], inputs, data, reals)

    return make


# ---- tables


def table_of(flat: Operands, op: Op) -> Call:
    """Any function of one integer operand, over all of its codes."""
    x = flat.program.tensors[op.inputs[-1]]
    out = flat.program.tensors[op.output].format
    fmt = x.format
    given = tuple(flat.codes(op, index).tobytes() for index in range(len(op.inputs) - 1))
    made, clipped = _results(replace(op, name="", inputs=(), output="", params=_Params(op.params)), given, fmt, out)
    inputs, _ = flat.batched(op, len(op.inputs) - 1)
    data = (0, flat.keep(made, made.dtype), 0 if clipped is None else flat.keep(clipped, np.uint8), 0)
    return Call(Own.TABLE, [op.params["count"], fmt.lowest], inputs, data)


class _Params(dict[str, int]):
    """Parameters as part of a key: `count` does not matter, a table has its own."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(item for item in self.items() if item[0] != "count")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Params) and {**self, "count": 0} == {**other, "count": 0}


@lru_cache(maxsize=512)
def _results(op: Op, given: tuple[bytes, ...], fmt: Format, out: Format) -> tuple[np.ndarray, np.ndarray | None]:
    """Numbers of `out` for every code of `fmt` from the lowest up, and which of them were clipped, if any."""
    codes = np.arange(fmt.lowest, fmt.highest + 1)[None]
    tables = [np.frombuffer(table, np.int64)[None] for table in given]
    with np.errstate(all="ignore"):
        run = KERNEL_OF[op.kernel].execute(
            replace(op, params={**op.params, "count": codes.size}), [*tables, codes], out
        )
    clipped = run[1].reshape(-1)  # empty where nothing can be clipped
    return numbers_of(run[0].reshape(-1), out), clipped.astype(np.uint8) if clipped.any() else None


def _lookup(flat: Operands, op: Op) -> Call:
    """The table of an operand in a coded format of at most 8 bits; its codes are told from the upper half of floats."""
    fmt = flat.format(op, 1)
    if fmt.domain != CODED or fmt.bits > 8:
        raise Unsupported(f"kernel '{op.kernel}' in {fmt}")
    inputs, _ = flat.batched(op, 1)
    out = flat.program.tensors[op.output].format
    made = numbers_of(flat.codes(op, 0), out)
    data = (0, flat.keep(made, made.dtype), 0, flat.keep(_code_by_float(fmt.scaled(0)), np.uint8))
    return Call(Own.TABLE, [op.params["count"]], inputs, data)


@lru_cache(maxsize=64)
def _code_by_float(fmt: Format) -> np.ndarray:
    """Code by the upper 16 bits of a value in single precision."""
    values = load(np.arange(1 << fmt.bits), fmt, SINGLE)
    found = np.zeros(1 << 16, np.uint8)
    order = np.arange(len(values))[::-1]  # of codes that stand for 0 the first counts
    found[values[order].view(np.uint32) >> 16] = order
    return found


_FUNCTIONS = (
    *(*ops.activation.KERNELS, *ops.word_functions.KERNELS, *ops.exponential.KERNELS),
    *(ops.division.SQRT, ops.curve.CURVE),
    *(ops.decisions.SIGN, ops.decisions.TRUNCATE, ops.affine_moves.CLAMP),
    *(ops.piecewise.CLIP, ops.piecewise.SLOPES, ops.piecewise.HARD_SIGMOID, ops.piecewise.HARD_SWISH),
)
TABULATED = frozenset(kernel.form for kernel in (*_FUNCTIONS, ops.real_functions.LOOKUP))
_SUM = ("count", "a_period", "b_period", "a_shift", "b_shift", "shift")
_FUNCTION = ("count", "power", "first", "second", "shift")
_REDUCE = ("outer", "along", "inner", "shift")
_RESCALE = tuple(f"{key}_{what}" for key in "abo" for what in ("multiplier", "shift"))
_MOVES: dict[Kernel, Maker] = {
    ops.movement.MOVE: _move,
    ops.movement.GATHER: _gather_rows,
    ops.movement.PLACE: _place,
    ops.movement.PLACE_MORE: _place,
    ops.pool.MAX_POOL: _max_pool,
}
_SUMS = (ops.elementwise.ADD, ops.elementwise.SUB, ops.piecewise.MINIMUM, ops.piecewise.MAXIMUM)
_MAKERS: dict[Kernel, Maker] = {
    **dict.fromkeys(_SUMS, _pairwise(*_SUM)),
    ops.elementwise.MUL: _pairwise("count", "a_period", "b_period", "shift"),
    ops.slope.PRELU: _pairwise("count", "a_period", "b_period", "one_shift", "shift"),
    ops.decisions.COMPARE: _compare,
    ops.decisions.WHERE: _where,
    ops.elementwise.RELU: _plain("count", "shift"),
    ops.decisions.SIGN: _sign,
    ops.decisions.TRUNCATE: _truncate,
    ops.scan.FILL: _fill,
    ops.scan.COPY: _copy,
    **_MOVES,
    ops.index.GATHER_AT: _gather_at,
    ops.index.TAKE_ROW: _row,
    ops.index.PLACE_ROW: _row,
    ops.index.COUNT: _count,
    ops.placed.PLACE_AT: _place_at,
    ops.real_functions.LOOKUP: _lookup,
    ops.affine.SUM: _affine_pair("sign", *_RESCALE),
    ops.affine.PRODUCT: _affine_pair("multiplier", "by"),
    ops.reduce.REDUCE_SUM: _plain(*_REDUCE, "factor"),
    **dict.fromkeys((ops.reduce.REDUCE_MAX, ops.reduce.REDUCE_MIN, ops.reduce.ARG_MAX), _plain(*_REDUCE)),
    ops.pool.AVERAGE_POOL: _average_pool,
    ops.pool.AVERAGE_POOL_INSIDE: _average_pool,
    ops.affine_moves.MEAN: _average_pool_affine,
    ops.distance.SQUARED_DISTANCE: _squared_distance,
    **dict.fromkeys(ops.real_functions.OF_ONE_OPERAND, _plain(*_FUNCTION)),
    ops.real_functions.DIV: _pairwise("count", "a_period", "b_period", "shift"),
    ops.piecewise.SLOPES: _line("below", "above"),
    ops.piecewise.HARD_SIGMOID: _line("factor", "offset", "one"),
    ops.piecewise.HARD_SWISH: _line("factor", "offset", "one"),
    ops.normalize.SINGLE_NORMALIZE: _plain(*_REDUCE, "power", "centre", "mean", "epsilon"),
    ops.real_functions.SOFTMAX: _plain(*_REDUCE, "power"),
}
MAKERS: dict[Form, Maker] = {
    **{kernel.form: maker for kernel, maker in _MAKERS.items()},
    **{kernel.form.on_codes: maker for kernel, maker in _MOVES.items()},
}
