"""Program -> the tables that the lockstep engine reads (search/lanes.hpp), constants decoded once.

Functions of one integer operand become tables over its codes, made by their numpy reference. `Unsupported` names what
has no lockstep version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from search.lanes_numbers import INTS, LANES, NUMBERS, Unsupported, kind_of, numbers_of
from tinyhil.arithmetic import load, scaled
from tinyhil.formats.affine import Affine
from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import CODED, INTEGER, SINGLE, Format
from tinyhil.formats.minifloat import Minifloat
from tinyhil.formats.posit import Posit
from tinyhil.formats.single import Single
from tinyhil.formats.window import Window, granule_of
from tinyhil.ops import KERNEL_BY_NAME
from tinyhil.ops.limits import CLIP, RELU
from tinyhil.ops.movement import indices
from tinyhil.ops.sparse import matrix
from tinyhil.ops.window import FIELDS, window_of
from tinyhil.program import Loop, Op, Program, Tensor, walk

# in the order of KERNELS in lanes.cpp; loop and slice are the engine's own
KERNELS = (
    *("dense", "conv", "matmul", "add", "sub", "mul", "minimum", "maximum", "compare", "where", "relu", "sign"),
    *("fill", "copy", "move", "place", "gather_at", "take_row", "place_row", "count", "table"),
    *("sum_affine", "mul_affine", "reduce_sum", "reduce_max", "reduce_min", "arg_max", "max_pool", "average_pool"),
    *("squared_distance", "single_sigmoid", "single_tanh", "single_exp", "single_log", "single_sqrt"),
    *("single_reciprocal", "single_erf", "single_gelu", "single_softplus", "single_elu", "single_clip"),
    *("single_div", "single_softmax", "dense_at", "numpy"),
)
NUMBER = {name: index for index, name in enumerate(KERNELS)}
LOOP, SLICE = len(KERNELS), len(KERNELS) + 1
FIXED, POSIT, FLOATING, AFFINE = range(4)
INT32, FLOAT64, INT64, WINDOW, FLOAT32 = range(5)
PLAIN, ONCE, TWICE, WIDE = range(4)
DOMAINS = {INTEGER: 0, CODED: 1, SINGLE: 2}
STARTS = (np.int32, np.float64, np.int64, np.int64, np.float32)  # of sums, by mode
WEIGHTS = (np.int32, np.float64, np.int64, np.float64, np.float32)
NARROW_BITS, DOUBLE_BITS = 32, 53
MOST_TABLE_BITS = 16
MOST_PARAMS = 24
WINDOW_AT = 10  # first of a window's params
TENSOR = np.dtype(
    [
        *((name, "<i8") for name in ("kind", "count", "offset", "rule", "bits", "es", "mantissa", "granule")),
        *((name, "<i8") for name in ("has_nan", "lowest", "highest", "zero", "special")),
        *((name, "<f8") for name in ("largest", "scale", "inverse")),
    ]
)
OP = np.dtype(
    [
        *((name, "<i8") for name in ("kernel", "domain", "mode", "out", "count", "clipped")),
        *(("inputs", "<i8", 4), ("data", "<i8", 6), ("params", "<i8", MOST_PARAMS), ("reals", "<f8", 4)),
    ]
)


@dataclass(frozen=True, slots=True)
class Lanes:
    """`ops` (OP) and `tensors` (TENSOR); `constants` keeps what they point to alive.

    `logged` lists the output tensor of each operation in order of execution, once per execution.
    """

    ops: np.ndarray
    tensors: np.ndarray
    constants: tuple[np.ndarray, ...]
    workspace_bytes: int
    input: int
    output: int
    logged: tuple[str, ...]
    by_numpy: tuple[Op, ...]


@dataclass(slots=True)
class Call:
    """One row of `ops` under construction."""

    kernel: str
    params: list[int]
    inputs: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    reals: tuple[float, ...] = ()
    mode: int = 0
    clipped: int = 0


def flatten_lanes(program: Program) -> Lanes:
    """The tables of `program`; Unsupported when a kernel or format has no lockstep version."""
    return _Flattening(program).finished()


class _Flattening:
    """Collects operations and constants. Lives for one call of `flatten_lanes`."""

    def __init__(self, program: Program) -> None:
        if program.output in program.constants:
            raise Unsupported("a constant output")
        self.program = program
        self.kept: list[np.ndarray] = []
        self.rows: list[Call | tuple[int, ...]] = []
        self.numbers = {name: index for index, name in enumerate(program.tensors)}
        self.by_numpy: list[Op] = []
        self.expanded: dict[tuple[str, str], int] = {}
        self.logged: list[str] = []

    def finished(self) -> Lanes:
        ops, logged = self._body(self.program.body)
        tensors, size = self._tensors()
        program = self.program
        return Lanes(
            np.array(ops, OP),
            tensors,
            tuple(self.kept),
            size,
            self.numbers[program.input],
            self.numbers[program.output],
            tuple(logged),
            tuple(self.by_numpy),
        )

    # ---- what makers of calls ask

    def keep(self, array: np.ndarray, dtype: object) -> int:
        """The address of a constant array."""
        stored = np.ascontiguousarray(array, dtype)  # type: ignore[call-overload]
        self.kept.append(stored)
        return int(stored.ctypes.data) if stored.size else 0

    def format(self, op: Op, index: int) -> Format:
        return self.program.tensors[op.inputs[index]].format

    def codes(self, op: Op, index: int) -> np.ndarray:
        """Codes of a constant operand, flat."""
        name = op.inputs[index]
        if name not in self.program.constants:
            raise Unsupported(f"kernel '{op.kernel}' on weights that are computed")
        return self.program.constants[name].reshape(-1)

    def scalars(self, op: Op, index: int) -> np.ndarray:
        """A constant operand as its kernel sees it, flat."""
        return load(self.codes(op, index), self.format(op, index), op.domain)

    def lanes(self, op: Op, *indices: int, raw: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """`inputs` and `data` of operands read lane by lane: constants are repeated for every lane."""
        inputs, data = [], []
        for index in indices:
            name = op.inputs[index]
            constant = name in self.program.constants
            inputs.append(-1 if constant else self.numbers[name])
            data.append(self._repeated(op, index, raw) if constant else 0)
        return tuple(inputs), tuple(data)

    def _repeated(self, op: Op, index: int, raw: bool) -> int:
        name, fmt = op.inputs[index], self.format(op, index)
        key = name, "" if raw else op.domain
        if key not in self.expanded:
            codes = self.codes(op, index)
            numbers = numbers_of(codes, fmt) if raw else load(codes, fmt, op.domain)
            dtype = NUMBERS[kind_of(fmt) if raw else DOMAINS[op.domain]]
            self.expanded[key] = self.keep(np.repeat(numbers.astype(dtype), LANES), dtype)
        return self.expanded[key]

    # ---- rows

    def _body(self, body: tuple[Op | Loop, ...]) -> tuple[list[tuple[object, ...]], list[str]]:
        rows: list[tuple[object, ...]] = []
        logged: list[str] = []
        for item in body:
            if isinstance(item, Op):
                rows.append(self._row(item, self._call(item)))
                logged.append(item.output)
                continue
            inner, names = self._body(item.body)
            rows.append(_words(LOOP, params=(item.count, len(inner), len(item.slices))))
            for sequence, row in item.slices:
                if sequence in self.program.constants:
                    raise Unsupported("a loop over a constant")
                tensor = self.program.tensors[row]
                size = tensor.count * LANES * np.dtype(NUMBERS[kind_of(tensor.format)]).itemsize
                rows.append(_words(SLICE, out=self.numbers[row], inputs=(self.numbers[sequence],), params=(size,)))
            rows += inner
            logged += names * item.count
        return rows, logged

    def _call(self, op: Op) -> Call:
        if op.kernel in TABULATED and self._has_table(op):
            return _table(self, op)
        base = base_of(op.kernel)
        maker = MAKERS.get(base) if base == op.kernel or base in LIMITED else None
        try:
            if maker is not None:
                return maker(self, op)
        except Unsupported:
            pass
        self.by_numpy.append(op)
        return Call("numpy", [len(self.by_numpy) - 1])

    def _has_table(self, op: Op) -> bool:
        if op.domain != INTEGER and op.kernel != "lookup":
            return False
        tensor = self.program.tensors[op.inputs[-1]]
        return tensor.name not in self.program.constants and kind_of(tensor.format) == INTS

    def _row(self, op: Op, call: Call) -> tuple[object, ...]:
        return _words(
            NUMBER[call.kernel],
            domain=DOMAINS[op.domain],
            mode=call.mode,
            out=self.numbers[op.output],
            count=self.program.tensors[op.output].count,
            clipped=call.clipped,
            inputs=call.inputs,
            data=call.data,
            params=tuple(call.params),
            reals=call.reals,
        )

    def _tensors(self) -> tuple[np.ndarray, int]:
        special = any(op.domain == SINGLE for op in walk(self.program.body))
        rows, offset = [], 0
        for tensor in self.program.tensors.values():
            held = tensor.role not in ("constant", "table", "slice")
            rows.append(_tensor(tensor, offset if held else 0, special))
            if held:
                size = tensor.count * LANES * np.dtype(NUMBERS[kind_of(tensor.format)]).itemsize
                offset += -(-size // 64) * 64
        return np.array(rows, TENSOR), offset


def _words(
    kernel: int,
    *,
    params: tuple[int, ...],
    domain: int = 0,
    mode: int = 0,
    out: int = 0,
    count: int = 0,
    clipped: int = 0,
    inputs: tuple[int, ...] = (),
    data: tuple[int, ...] = (),
    reals: tuple[float, ...] = (),
) -> tuple[object, ...]:
    padded = (
        inputs + (0,) * (4 - len(inputs)),
        data + (0,) * (6 - len(data)),
        params + (0,) * (MOST_PARAMS - len(params)),
        reals + (0.0,) * (4 - len(reals)),
    )
    return (kernel, domain, mode, out, count, clipped, *padded)


def _tensor(tensor: Tensor, offset: int, special: bool) -> tuple[object, ...]:
    fmt = tensor.format
    row: dict[str, float] = dict.fromkeys(TENSOR.names or (), 0)
    row |= {"kind": kind_of(fmt), "count": tensor.count, "offset": offset}
    row |= {"bits": fmt.bits, "special": int(special)}
    if isinstance(fmt, Fixed):
        row |= {"rule": FIXED, "lowest": fmt.lowest, "highest": fmt.highest}
    elif isinstance(fmt, Affine):
        row |= {"rule": AFFINE, "lowest": fmt.lowest, "highest": fmt.highest, "zero": fmt.zero}
        row |= {"scale": fmt.scale, "inverse": float(np.float32(1 / fmt.scale))}
    elif isinstance(fmt, Posit):
        row |= {"rule": POSIT, "es": fmt.es, "largest": fmt.largest}
    elif isinstance(fmt, Minifloat | Single):
        has_nan = isinstance(fmt, Single) or fmt.nan_code is not None
        row |= {"rule": FLOATING, "mantissa": fmt.mantissa_bits, "granule": fmt.granule, "has_nan": int(has_nan)}
        row |= {"largest": fmt.largest}
    return tuple(row.values())


def base_of(kernel: str) -> str:
    """The layer without the activation inside of it (tinyhil/ops/limits.py)."""
    for form in (RELU, CLIP):
        if kernel.endswith(form) and KERNEL_BY_NAME[kernel].limit:
            return kernel.removesuffix(form)
    return kernel


def _limit(flat: _Flattening, op: Op) -> tuple[int, tuple[float, ...]]:
    """What keeps a layer's results within an activation, and its ends as codes."""
    if "low" not in op.params:
        return 0, ()
    if "high" not in op.params:
        return 1, ()
    if op.domain != INTEGER or kind_of(flat.program.tensors[op.output].format) != INTS:
        raise Unsupported("limits of coded results")
    return 2, (float(op.params["low"]), float(op.params["high"]))


# ---- sums of products

Maker = Callable[[_Flattening, Op], Call]


def _sum(
    flat: _Flattening, op: Op, weights: np.ndarray, bias: np.ndarray | None, copies: int
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
    flat: _Flattening, op: Op, weights: np.ndarray, bias: np.ndarray, power: int, copies: int
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


def _layer(flat: _Flattening, op: Op, weights: np.ndarray, bias: np.ndarray | None) -> Call:
    """A dense layer or a convolution; x is operand 1."""
    p = op.params
    copies = window_of(p).pixels if "kernel_y" in p else p["rows"]
    mode, addresses, reals, (low, flags), clipped = _sum(flat, op, weights, bias, copies)
    limit, ends = _limit(flat, op)
    params = _layer_params(op, weights, (p.get("shift", 0), low, flags, PLAIN, 0, 0, limit))
    reals = reals or ends
    (source,), _ = flat.lanes(op, 1)
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
    kernel = "conv" if "kernel_y" in op.params else "dense"
    return Call(kernel, params, (-1, source), data, reals, mode, clipped)


def _plain_layer(flat: _Flattening, op: Op) -> Call:
    weights = flat.scalars(op, 0).reshape(op.params["outputs"], -1)
    bias = flat.scalars(op, 2) if len(op.inputs) == 3 else None
    return _layer(flat, op, weights, bias)


def _layer_sum(flat: _Flattening, op: Op) -> Call:
    """A layer whose sums a computed tensor joins."""
    weights = flat.scalars(op, 0).reshape(op.params["outputs"], -1)
    call = _layer(flat, op, weights, flat.scalars(op, 2) if len(op.inputs) == 4 else None)
    (addend,), _ = flat.lanes(op, len(op.inputs) - 1)
    if addend < 0 or op.domain != INTEGER:
        raise Unsupported("a sum with a constant")
    call.inputs = (*call.inputs, addend)
    call.reals = (*(*call.reals, 0.0, 0.0)[:2], float(op.params["add_shift"]), 1.0)
    return call


def _sparse_layer(flat: _Flattening, op: Op) -> Call:
    """As a dense layer: in lockstep a zero costs less than an index."""
    p = op.params
    weights = matrix(flat.codes(op, 0), flat.scalars(op, 1), p["outputs"], p["inner"])
    bias = flat.scalars(op, 3) if len(op.inputs) == 4 else None
    inner = replace(op, inputs=op.inputs[1:])
    return _layer(flat, inner, weights, bias)


def _channel_layer(flat: _Flattening, op: Op) -> Call:
    """A shift for each output."""
    weights = flat.scalars(op, 0).reshape(op.params["outputs"], -1)
    start = flat.format(op, 2).decode(flat.codes(op, 2))
    call = _layer(flat, op, weights, start if op.domain == CODED else start.astype(np.int64))
    call.data = (*call.data[:3], flat.keep(flat.codes(op, 3), np.int64), 0)
    return call


def _affine_layer(flat: _Flattening, op: Op) -> Call:
    """A multiplier and a shift for each output."""
    p, bits = op.params, flat.format(op, 1).bits
    weights = flat.codes(op, 0).reshape(p["outputs"], -1)
    mode = INT32 if bits == 8 else FLOAT64
    finish = WIDE if bits != 8 else TWICE if "kernel_y" in p else ONCE
    limit, ends = _limit(flat, op)
    params = _layer_params(op, weights, (0, 0, 0, finish, p["zero"], p["pad"], limit))
    addresses = flat.keep(weights, WEIGHTS[mode]), flat.keep(flat.codes(op, 2), STARTS[mode])
    factors = flat.keep(flat.codes(op, 4), np.int64), flat.keep(flat.codes(op, 3), np.int64)
    (source,), _ = flat.lanes(op, 1)
    return _layer_call(op, params, source, (*addresses, 0, *factors), ends, mode, 0)


def _dense_at(flat: _Flattening, op: Op) -> Call:
    """Weights of one row of a table, chosen for each sample."""
    _require_ints(flat, op, 0)
    p = op.params
    weights = flat.scalars(op, 1).reshape(-1, p["inner"])
    layer = replace(op, inputs=op.inputs[1:])
    mode, (stored, _), reals, (low, flags), _ = _sum(flat, layer, weights, None, 1)
    index, codes = flat.lanes(op, 0, raw=True)
    (source,), _ = flat.lanes(op, 2)
    if source < 0:
        raise Unsupported("a layer of a constant")
    params = [p["rows"], p["outputs"], p["inner"], p["shift"], low, flags, p["size"], p["drop"]]
    return Call("dense_at", params, (*index, -1, source), (*codes, stored), reals, mode)


def _matmul(flat: _Flattening, op: Op) -> Call:
    p = op.params
    inputs, data = flat.lanes(op, 0, 1)
    low, flags, mode = 0, 0, FLOAT32
    reals: tuple[float, ...] = ()
    if op.domain == INTEGER:
        mode = _exact_mode(op.accumulator_bits)
        if mode != INT32 and -1 in inputs:
            raise Unsupported("a wide product with a constant")
    elif op.domain == CODED:
        window = Window(op.accumulator_bits, op.low, op.guard)
        mode, low = WINDOW, op.low
        flags = int(max(flat.format(op, 0).bits, flat.format(op, 1).bits) <= 16)
        reals = (0.0, 0.0, 0.0, float(window.limit) if op.guard else 0.0)
    steps = (p.get("batch", 1), p.get("a_step", 0), p.get("b_step", 0))
    params = [p["rows"], p["inner"], p["columns"], p["shift"], low, flags, *steps]
    return Call("matmul", params, inputs, data, reals, mode)


# ---- element by element, moves


def _pairwise(kernel: str, *names: str) -> Maker:
    def make(flat: _Flattening, op: Op) -> Call:
        inputs, data = flat.lanes(op, 0, 1)
        mode = INT32 if op.accumulator_bits <= NARROW_BITS else INT64
        return Call(kernel, [op.params[name] for name in names], inputs, data, (), mode)

    return make


def _plain(kernel: str, *names: str) -> Maker:
    """One operand."""

    def make(flat: _Flattening, op: Op) -> Call:
        inputs, data = flat.lanes(op, 0)
        return Call(kernel, [op.params.get(name, 1) for name in names], inputs, data)

    return make


def _finished(flat: _Flattening, op: Op, *codes: int) -> tuple[float, ...]:
    """Codes of the output's format as numbers."""
    return tuple(float(x) for x in numbers_of(np.array(codes), flat.program.tensors[op.output].format))


def _compare(flat: _Flattening, op: Op) -> Call:
    inputs, data = flat.lanes(op, 0, 1)
    params = [op.params[name] for name in ("count", "a_period", "b_period", "a_shift", "b_shift", "mode")]
    return Call("compare", params, inputs, data, _finished(flat, op, 0, op.params["one"]))


def _sign(flat: _Flattening, op: Op) -> Call:
    if op.domain != CODED:
        raise Unsupported("kernel 'sign' in single precision")
    inputs, data = flat.lanes(op, 0)
    reals = _finished(flat, op, op.params["below"], op.params["zero"], op.params["above"])
    return Call("sign", [op.params["count"]], inputs, data, reals)


def _where(flat: _Flattening, op: Op) -> Call:
    _require_ints(flat, op, 0)
    condition, codes = flat.lanes(op, 0, raw=True)
    inputs, data = flat.lanes(op, 1, 2)
    names = ("count", "c_period", "a_period", "b_period", "a_shift", "b_shift")
    return Call("where", [op.params[name] for name in names], condition + inputs, codes + data)


def _require_ints(flat: _Flattening, op: Op, *chosen: int) -> None:
    for index in chosen:
        if kind_of(flat.format(op, index)) != INTS:
            raise Unsupported(f"kernel '{op.kernel}' with a condition or an index in {flat.format(op, index)}")


def _fill(flat: _Flattening, op: Op) -> Call:
    return Call("fill", [op.params["count"]], reals=_finished(flat, op, op.params["value"]))


def _copy(flat: _Flattening, op: Op) -> Call:
    inputs, data = flat.lanes(op, 0, raw=True)
    return Call("copy", [op.params["count"]], inputs, data)


def _move(flat: _Flattening, op: Op) -> Call:
    return _moved(flat, op, 0, indices(dict(op.params)))


def _moved(flat: _Flattening, op: Op, index: int, positions: np.ndarray) -> Call:
    inputs, data = flat.lanes(op, index)
    params = [len(positions), op.params["shift"]]
    return Call("move", params, inputs, (*data, 0, flat.keep(positions, np.int64)))


def _gather_rows(flat: _Flattening, op: Op) -> Call:
    p = op.params
    rows = np.arange(p["outer"])[:, None] * p["size"] + flat.codes(op, 0)
    return _moved(flat, op, 1, (rows.reshape(-1, 1) * p["inner"] + np.arange(p["inner"])).reshape(-1))


def _place(flat: _Flattening, op: Op) -> Call:
    positions = indices(dict(op.params))
    inputs, data = flat.lanes(op, 0)
    more = len(op.inputs) == 2
    if more:
        beside, codes = flat.lanes(op, 1, raw=True)
        inputs, data = inputs + beside, data + codes
    params = [len(positions), op.params["shift"], int(more)]
    return Call("place", params, inputs, (*data[:2], *(0,) * (2 - len(data)), flat.keep(positions, np.int64)))


def _gather_at(flat: _Flattening, op: Op) -> Call:
    _require_ints(flat, op, 0)
    index, codes = flat.lanes(op, 0, raw=True)
    inputs, data = flat.lanes(op, 1)
    names = ("outer", "chosen", "size", "inner", "drop", "shift")
    return Call("gather_at", [op.params[name] for name in names], index + inputs, codes + data)


def _rows(kernel: str) -> Maker:
    def make(flat: _Flattening, op: Op) -> Call:
        _require_ints(flat, op, 0 if kernel == "take_row" else 1)
        inputs, data = flat.lanes(op, *range(len(op.inputs)), raw=True)
        return Call(kernel, [op.params["inner"]], inputs, data)

    return make


def _count(flat: _Flattening, op: Op) -> Call:
    _require_ints(flat, op, 0)
    inputs, data = flat.lanes(op, 0, raw=True)
    return Call("count", [op.params["by"]], inputs, data)


def _max_pool(flat: _Flattening, op: Op) -> Call:
    inputs, data = flat.lanes(op, 0)
    return Call("max_pool", _pool_params(op), inputs, data)


def _pool_params(op: Op) -> list[int]:
    return [op.params["shift"], *(0,) * (WINDOW_AT - 1), *(op.params[name] for name in FIELDS)]


def _average_pool(flat: _Flattening, op: Op) -> Call:
    w = window_of(op.params)
    if len(op.inputs) == 2:
        pairs = flat.codes(op, 0).reshape(-1, 2)
        factors = (pairs[:, 0] + (pairs[:, 1] << 16))[w.valid_counts() - 1]
    else:
        factors = np.full(w.pixels, op.params["factor"])
    inputs, data = flat.lanes(op, len(op.inputs) - 1)
    return Call("average_pool", _pool_params(op), inputs, (*data, 0, flat.keep(factors, np.int64)))


def _affine_pair(kernel: str, *names: str) -> Maker:
    def make(flat: _Flattening, op: Op) -> Call:
        inputs, data = flat.lanes(op, 0, 1, raw=True)
        shared = ("count", "a_period", "b_period", "a_zero", "b_zero", "zero")
        limit, ends = _limit(flat, op)
        reals = (*ends, 1.0) if limit else ()
        return Call(kernel, [op.params[name] for name in (*shared, *names)], inputs, data, reals)

    return make


# ---- tables


def _table(flat: _Flattening, op: Op) -> Call:
    """Any function of one integer operand, over all of its codes."""
    x = flat.program.tensors[op.inputs[-1]]
    out = flat.program.tensors[op.output].format
    fmt = x.format
    assert isinstance(fmt, Fixed | Affine)
    given = tuple(flat.codes(op, index).tobytes() for index in range(len(op.inputs) - 1))
    made, clipped = _results(replace(op, name="", inputs=(), output="", params=_Params(op.params)), given, fmt, out)  # type: ignore[arg-type]
    inputs, _ = flat.lanes(op, len(op.inputs) - 1)
    data = (0, flat.keep(made, made.dtype), 0 if clipped is None else flat.keep(clipped, np.uint8), 0)
    return Call("table", [op.params["count"], fmt.lowest], inputs, data)


class _Params(dict[str, int]):
    """Parameters as part of a key: `count` does not matter, a table has its own."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(item for item in self.items() if item[0] != "count")))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Params) and {**self, "count": 0} == {**other, "count": 0}


@lru_cache(maxsize=512)
def _results(
    op: Op, given: tuple[bytes, ...], fmt: Fixed | Affine, out: Format
) -> tuple[np.ndarray, np.ndarray | None]:
    """Numbers of `out` for every code of `fmt` from the lowest up, and which of them were clipped, if any."""
    codes = np.arange(fmt.lowest, fmt.highest + 1)[None]
    tables = [np.frombuffer(table, np.int64)[None] for table in given]
    with np.errstate(all="ignore"):
        run = KERNEL_BY_NAME[op.kernel].execute(
            replace(op, params={**op.params, "count": codes.size}), [*tables, codes], out
        )
    clipped = run[1].reshape(-1)  # empty where nothing can be clipped
    return numbers_of(run[0].reshape(-1), out), clipped.astype(np.uint8) if clipped.any() else None


def _lookup(flat: _Flattening, op: Op) -> Call:
    """The table of an operand in a coded format of at most 8 bits; its codes are told from the upper half of floats."""
    fmt = flat.format(op, 1)
    if not isinstance(fmt, Posit | Minifloat):
        raise Unsupported(f"kernel 'lookup' in {fmt}")
    inputs, _ = flat.lanes(op, 1)
    out = flat.program.tensors[op.output].format
    made = numbers_of(flat.codes(op, 0), out)
    data = (0, flat.keep(made, made.dtype), 0, flat.keep(_code_by_float(fmt.scaled(0)), np.uint8))
    return Call("table", [op.params["count"]], inputs, data)


@lru_cache(maxsize=64)
def _code_by_float(fmt: Format) -> np.ndarray:
    """Code by the upper 16 bits of a value in single precision."""
    values = load(np.arange(1 << fmt.bits), fmt, SINGLE)
    found = np.zeros(1 << 16, np.uint8)
    order = np.arange(len(values))[::-1]  # of codes that stand for 0 the first counts
    found[values[order].view(np.uint32) >> 16] = order
    return found


TABULATED = frozenset(
    (
        *("sigmoid", "tanh", "exp", "log", "sqrt", "curve", "sign", "truncate", "clip", "slopes"),
        *("hard_sigmoid", "hard_swish", "lookup", "clamp_codes"),
    )
)
# kernels that heed the limits of an activation inside of them
LIMITED = frozenset(
    (
        *("dense", "dense_bias", "conv", "conv_bias", "sparse_dense", "sparse_dense_bias", "dense_channels"),
        *("conv_channels", "dense_channels_coded", "conv_channels_coded", "dense_affine", "conv_affine"),
        *("dense_sum", "dense_bias_sum", "conv_sum", "conv_bias_sum", "sum_affine", "mul_affine"),
    )
)
_SUM = ("count", "a_period", "b_period", "a_shift", "b_shift", "shift")
_FUNCTION = ("count", "power", "first", "second", "shift")
_REDUCE = ("outer", "along", "inner", "shift")
_RESCALE = tuple(f"{key}_{what}" for key in "abo" for what in ("multiplier", "shift"))
MAKERS: dict[str, Maker] = {
    **dict.fromkeys(("dense", "dense_bias", "conv", "conv_bias"), _plain_layer),
    **dict.fromkeys(("dense_sum", "dense_bias_sum", "conv_sum", "conv_bias_sum"), _layer_sum),
    **dict.fromkeys(("sparse_dense", "sparse_dense_bias"), _sparse_layer),
    **dict.fromkeys(("dense_channels", "conv_channels"), _channel_layer),
    **dict.fromkeys(("dense_channels_coded", "conv_channels_coded"), _channel_layer),
    **dict.fromkeys(("dense_affine", "conv_affine"), _affine_layer),
    **dict.fromkeys(("matmul", "batch_matmul"), _matmul),
    **{name: _pairwise(name, *_SUM) for name in ("add", "sub", "minimum", "maximum")},
    "mul": _pairwise("mul", "count", "a_period", "b_period", "shift"),
    "dense_at": _dense_at,
    "compare": _compare,
    "where": _where,
    "relu": _plain("relu", "count", "shift"),
    "sign": _sign,
    "fill": _fill,
    "copy": _copy,
    "move": _move,
    "gather_rows": _gather_rows,
    "place": _place,
    "place_more": _place,
    "gather_at": _gather_at,
    "take_row": _rows("take_row"),
    "place_row": _rows("place_row"),
    "count": _count,
    "lookup": _lookup,
    "sum_affine": _affine_pair("sum_affine", "sign", *_RESCALE),
    "mul_affine": _affine_pair("mul_affine", "multiplier", "by"),
    "reduce_sum": _plain("reduce_sum", *_REDUCE, "factor"),
    **{name: _plain(name, *_REDUCE) for name in ("reduce_max", "reduce_min", "arg_max")},
    "max_pool": _max_pool,
    "average_pool": _average_pool,
    "average_pool_inside": _average_pool,
    "squared_distance": _pairwise(
        "squared_distance", "rows", "inner", "a_step", "b_step", "a_shift", "b_shift", "drop", "shift"
    ),
    **{name: _plain(name, *_FUNCTION) for name in KERNELS if name.startswith("single_")},
    "single_div": _pairwise("single_div", "count", "a_period", "b_period", "shift"),
    "single_softmax": _plain("single_softmax", *_REDUCE, "power"),
}
