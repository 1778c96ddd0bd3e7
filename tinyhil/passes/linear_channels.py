"""A product and a sum with constants of each channel, one after the other, in asymmetric bytes -> linear forms.

What layers of normalisation end with: TensorFlow Lite rounds the product, every term of the sum and their sum. What one
multiplication, one addition and one shift make of a code is held against that for every code and every channel when the
program is compiled: of both operations together, else of each; where some channel has no such form, both stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.language.program import Body, Op, Program, Role, Tensor, reads_of
from tinyhil.names import free_name
from tinyhil.ops.affine import PRODUCT, SUM, is_affine
from tinyhil.ops.code_table import LINEAR_CHANNELS
from tinyhil.passes.code_tables import Tables, codes_of
from tinyhil.passes.folded import changed
from tinyhil.references.reference import run_reference

WORD = Fixed(32, 0)
RIGHTS = range(16, 22)  # bits below the point of a result
LARGEST = 1 << 30  # of a sum, less than half of 32 bits
FEWEST_ROWS = 2
BEYOND = 128  # the first result that is clipped


def with_linear_channels(program: Program) -> Program:
    """`program` with such pairs as one operation each; the same object if there are none."""
    tables = Tables(program)
    reads = Counter(reads_of(program.body))

    def change(body: Body, _: int) -> Body:
        made: dict[int, Op | None] = {}
        for at, pair in _pairs(program, body, reads):
            op = _op_of(program, tables, pair)
            if op is not None:
                made |= {at: None, at + 1: op}
        return tuple(item for item in (made.get(n, item) for n, item in enumerate(body)) if item is not None)

    body = change(changed(program.body, change), 1)
    return tables.within(body) if body != program.body else program


@dataclass(frozen=True, slots=True)
class _Pair:
    """A product and a sum behind each other, of an operand in rows of `channels`."""

    product: Op
    sum: Op
    operand: Tensor
    channels: int


def _pairs(program: Program, body: Body, reads: Counter[str]) -> Iterator[tuple[int, _Pair]]:
    for at, (first, second) in enumerate(pairwise(body)):
        if not isinstance(first, Op) or not isinstance(second, Op):
            continue
        is_between = reads[first.output] == 1 and first.output != program.output
        if (first.kernel, second.kernel) != (PRODUCT.form, SUM.form) or not is_between:
            continue
        name = _operand(program, first)
        if name is None or _operand(program, second) != first.output:
            continue
        channels, more = (_constant(program, op).count for op in (first, second))
        operand = program.tensors[name]
        if channels == more > 1 and operand.count >= FEWEST_ROWS * channels:
            yield at, _Pair(first, second, operand, channels)


def _operand(program: Program, op: Op) -> str | None:
    """What an operation on bytes reads at run time, if its other operand is a constant."""
    if not is_affine(*(program.tensors[name].format for name in op.tensors), bits=8):
        return None
    found = [name for name in op.inputs if program.tensors[name].role not in (Role.CONSTANT, Role.TABLE)]
    periods = {name: op.params[key] for name, key in zip(op.inputs, ("a_period", "b_period"), strict=True)}
    is_whole = len(found) == 1 and periods[found[0]] == op.params["count"] == program.tensors[found[0]].count
    return found[0] if is_whole else None


def _constant(program: Program, op: Op) -> Tensor:
    return next(t for t in (program.tensors[name] for name in op.inputs) if t.role in (Role.CONSTANT, Role.TABLE))


def _op_of(program: Program, tables: Tables, pair: _Pair) -> Op | None:
    """The operation: one form if no product is clipped and each channel has one, else one each of product and sum; None
    None if some channel has none."""
    between = replace(pair, operand=program.tensors[pair.product.output])
    both = _evaluated(program, pair, (pair.product, pair.sum))
    each = [_evaluated(program, pair, (pair.product,)), _evaluated(program, between, (pair.sum,))]
    for steps in ([both], each):
        if any((clips > 1).any() for _, clips in steps) or (len(steps) == 1 and each[0][1].any()):
            continue
        for right in RIGHTS:
            forms = [_forms(results, clips, right) for results, clips in steps]
            if all(form is not None for form in forms):
                return _made(program, tables, pair, [form for form in forms if form is not None], right)
    return None


def _made(program: Program, tables: Tables, pair: _Pair, forms: Sequence[np.ndarray], right: int) -> Op:
    name = free_name(f"{pair.sum.output}.forms", program.tensors, tables.tensors)
    words = np.concatenate(forms, axis=1).reshape(-1)
    tables.tensors[name], tables.tables[name] = Tensor(name, words.size, WORD, Role.CONSTANT), words
    rows = pair.operand.count // pair.channels
    params = {"rows": rows, "channels": pair.channels, "steps": len(forms), "right": right}
    return Op(LINEAR_CHANNELS.form, pair.sum.name, (name, pair.operand.name), pair.sum.output, params)


def _forms(results: np.ndarray, clips: np.ndarray, right: int) -> np.ndarray | None:
    """Slope and start of each channel (channels, 2), of results and clips (codes, channels); None if one has none."""
    codes = np.arange(-BEYOND, BEYOND)
    ahead = np.nonzero(codes[None, :] > codes[:, None])
    rows, back = np.unique(np.stack([results, clips], axis=2).transpose(1, 0, 2), axis=0, return_inverse=True)
    found = []
    for row in rows:
        form = form_of(codes, row[:, 0], row[:, 1], right, ahead)
        if form is None:
            return None
        found.append(form)
    return np.array(found, np.int64)[back.reshape(-1)]


def form_of(
    codes: np.ndarray, results: np.ndarray, clips: np.ndarray, right: int, ahead: tuple[np.ndarray, ...]
) -> tuple[int, int] | None:
    """Slope and start with floor((code * slope + start) / 2**right) = result of each code, and beyond bytes on its side
    where that is clipped; None if there are none.

    `ahead`: of all pairs of codes the lower ones and the higher ones. What bounds the start for two codes bounds the
    slope between them, and slopes within all of these bounds have one.
    """
    unit, far = 1 << right, LARGEST << 16
    is_clipped = clips > 0
    low = np.where(is_clipped & (results < 0), -far, (results + is_clipped) * unit)
    high = np.where(is_clipped & (results > 0), far, (results + 1 - is_clipped) * unit - 1)
    lower, higher = ahead
    apart = codes[higher] - codes[lower]
    least = np.ceil(((low[higher] - high[lower]) / apart).max())
    most = np.floor(((high[higher] - low[lower]) / apart).min())
    if least > most:
        return None
    slope = int(least + most) // 2
    start = int((low - codes * slope).max() + (high - codes * slope).min()) // 2
    values = (codes * slope + start) >> right
    same = np.where(is_clipped, np.where(results > 0, values >= BEYOND, values < -BEYOND), values == results)
    return (slope, start) if same.all() and abs(slope) * len(codes) + abs(start) < LARGEST else None


def _evaluated(program: Program, pair: _Pair, ops: tuple[Op, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Results and clips (codes, channels) of what `ops` make of each code of the operand in each channel."""
    codes = codes_of(pair.operand.format)
    count = codes.size * pair.channels
    made = {op.output: replace(program.tensors[op.output], count=count) for op in ops}
    fixed = {_constant(program, op).name: _constant(program, op) for op in ops}
    source = replace(pair.operand, count=count, role=Role.INPUT)

    def sized(op: Op) -> Op:
        whole = {key: count for key in ("count", "a_period", "b_period") if op.params[key] == op.params["count"]}
        return replace(op, params={**op.params, **whole})

    alone = Program(
        ops[-1].name,
        {**fixed, **made, source.name: source},
        {name: program.constants[name] for name in fixed},
        tuple(sized(op) for op in ops),
        source.name,
        ops[-1].output,
        (count,),
        (count,),
    )
    clips: list[np.ndarray] = []
    inputs = np.repeat(codes, pair.channels)[None, :]
    run = run_reference(
        alone, inputs, observe=lambda _op, _codes, clipped: clips.append(np.asarray(clipped[0], np.int64))
    )
    shape = (codes.size, pair.channels)
    return run.outputs[0].astype(np.int8).astype(np.int64).reshape(shape), np.sum(clips, axis=0).reshape(shape)
