"""What constants beside 8-bit operands permit: sums rounded when they are compiled, functions of functions and of sums
as one table.

All of it computes the same codes and counts the same results as clipped. Tables take the place of arithmetic only
where a loop carries it out more often than a table has entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.formats.fixed import Fixed
from tinyhil.formats.format import INTEGER
from tinyhil.language.program import Body, Loop, Op, Program, Role, Tensor, reads_of, walk
from tinyhil.ops.code_table import CODE_TABLE, SUM_TABLE
from tinyhil.ops.elementwise import ADD, MUL, SUB
from tinyhil.ops.real_functions import LOOKUP
from tinyhil.passes.code_tables import Tables, codes_of, evaluated, operand_of
from tinyhil.references.verify import checked

ENTRIES = 256
MOST_CONSTANT = 255  # of what is added to a byte
NO_LIMIT = 511  # beyond every index of a sum of two bytes
LOOK_UPS = (CODE_TABLE.form, LOOKUP.form)
SUMS = (ADD.form, SUB.form)


def folded(program: Program) -> Program:
    """`program` with fewer operations on elements; the same object if there is nothing to fold."""
    for fold in (_round_constants, _compose, _index_by_sums):
        program = checked(fold(program), fold.__name__)
    return program


def changed(body: Body, change: Callable[[Body, int], Body], steps: int = 1) -> Body:
    """`body` with those of its loops changed; `change` is told how often an inference carries one out."""
    return tuple(
        replace(item, body=change(changed(item.body, change, steps * item.count), steps * item.count))
        if isinstance(item, Loop)
        else item
        for item in body
    )


def _constant_last(program: Program, op: Op) -> Op:
    """A sum with its operands exchanged if the first one is a constant."""
    if op.kernel != ADD.form or program.tensors[op.inputs[0]].role != Role.CONSTANT:
        return op
    pairs = {"a_period": "b_period", "b_period": "a_period", "a_shift": "b_shift", "b_shift": "a_shift"}
    params = {name: op.params[pairs.get(name, name)] for name in op.params}
    return replace(op, inputs=op.inputs[::-1], params=params)


def _round_constants(program: Program) -> Program:
    """Sums with a constant whose other operand returns to its own unit: floor((a 2^n + b + 2^(n-1)) / 2^n) is a plus
    what b is rounded to."""
    made: dict[str, tuple[Tensor, np.ndarray]] = {}

    def rounded(op: Op) -> Op:
        op = _constant_last(program, op)
        b = program.tensors[op.inputs[-1]] if op.kernel in SUMS and op.domain == INTEGER else None
        if b is None or b.role != Role.CONSTANT or not b.format.is_binary_point or b.format.storage_bytes > 2:
            return op
        shift, sign = op.params["shift"], 1 if op.kernel == ADD.form else -1
        if not 0 < shift == op.params["a_shift"]:
            return op
        units = sign * ((sign * (program.constants[b.name] << op.params["b_shift"]) + (1 << shift - 1)) >> shift)
        fmt = Fixed(8 * b.format.storage_bytes, program.tensors[op.output].format.exponent)
        if units.min() < fmt.lowest or units.max() > fmt.highest:
            return op
        name = f"{op.output}_{b.name}"
        made[name] = replace(b, name=name, format=fmt), units
        return replace(op, inputs=(op.inputs[0], name), params={**op.params, "a_shift": 0, "b_shift": 0, "shift": 0})

    def change(body: Body, _: int) -> Body:
        return tuple(rounded(item) if isinstance(item, Op) else item for item in body)

    body = changed(program.body, change)
    tables = Tables(program)
    tables.tensors = {name: tensor for name, (tensor, _) in made.items()}
    tables.tables = {name: units for name, (_, units) in made.items()}
    return tables.within(body) if body != program.body else program


@dataclass(frozen=True, slots=True)
class _Function:
    """What a result is of each code of `operand`, and for which it is clipped; `ops`: what made it, the last first."""

    operand: Tensor
    results: np.ndarray
    clipped: np.ndarray
    ops: tuple[Op, ...]


class _Level:
    """The functions that the operations of one loop's body compute."""

    def __init__(self, program: Program, body: Body) -> None:
        self._program = program
        writers = Counter(op.output for op in walk(program.body))
        self.reads = Counter(reads_of(program.body))
        self.makers = {op.output: op for op in body if isinstance(op, Op) and writers[op.output] == 1}

    def functions(self, op: Op) -> Iterator[_Function]:
        """`op` as a function of its operand, of its operand's operand, and so on."""
        operand = self._operand(op)
        if operand is None:
            return
        results, clipped = evaluated(self._program, op, operand)
        yield _Function(operand, results, clipped, (op,))
        maker = self.makers.get(operand.name)
        if maker is None:
            return
        for inner in self.functions(maker):
            at = inner.results - operand.format.lowest
            yield _Function(inner.operand, results[at], clipped[at], (op, *inner.ops))

    def _operand(self, op: Op) -> Tensor | None:
        tensors = self._program.tensors
        if op.kernel not in (*SUMS, MUL.form, CODE_TABLE.form):
            return operand_of(self._program, op)
        at_run_time = [name for name in op.inputs if tensors[name].role not in (Role.TABLE, Role.CONSTANT)]
        others = [tensors[name] for name in op.inputs if name not in at_run_time]
        if (
            len(at_run_time) != 1
            or op.domain != INTEGER
            or any(t.role == Role.CONSTANT and t.count > 1 for t in others)
        ):
            return None
        operand = tensors[at_run_time[0]]
        formats = (operand.format, tensors[op.output].format)
        small = all(fmt.bits <= 8 and fmt.storage_bytes == 1 for fmt in formats)
        return operand if small and not operand.format.is_unsigned_byte else None

    def vanishing(self, function: _Function) -> list[Op]:
        """The operations that nobody needs if the last one is computed from the operand."""
        gone: list[Op] = []
        for op in function.ops[1:]:
            if self.reads[op.output] != 1 or op.output == self._program.output:
                break
            gone.append(op)
        return gone

    def clips(self, op: Op, operand: Tensor) -> bool:
        """Whether `op` clips for any code of an operand that it is a function of."""
        return any(f.clipped.any() for f in self.functions(op) if f.operand == operand)


def pays(op: Op, steps: int) -> bool:
    """Whether an inference computes more results of `op` than a table has entries."""
    return steps * op.params.get("count", 0) > ENTRIES


def _compose(program: Program) -> Program:
    """Functions of functions as one table, where that leaves operations out whose results nobody else reads."""
    tables = Tables(program)

    def composed(level: _Level, op: Op) -> tuple[Op, list[Op]] | None:
        for function in reversed(list(level.functions(op))):
            gone = level.vanishing(function)
            if gone and not any(level.clips(one, function.operand) for one in gone):
                made = tables.look_up(op, function.operand, function.results, function.clipped)
                if made is not None:
                    return made, gone
        return None

    def change(body: Body, steps: int) -> Body:
        level, gone, left = _Level(program, body), set[str](), list[Op | Loop]()
        for item in reversed(body):
            if isinstance(item, Loop) or item.output not in gone:
                found = composed(level, item) if isinstance(item, Op) and pays(item, steps) else None
                gone.update(one.output for one in found[1]) if found else None
                left.append(found[0] if found else item)
        return tuple(reversed(left))

    body = changed(program.body, change)
    return tables.within(body) if body != program.body else program


@dataclass(frozen=True, slots=True)
class Sum:
    """(a + b) / 2^right, rounded down, of one 8-bit operand and a constant in its unit, as `op` clips it.

    `constant` is b less its lowest element, `lowest` the lowest a + b.
    """

    op: Op
    operand: str
    constant: np.ndarray
    lowest: int
    right: int
    periods: tuple[int, int]


def _sum_with_constant(program: Program, op: Op) -> Sum | None:
    """floor((a 2^i + b 2^j + 2^(n-1)) / 2^n), i <= n, is a plus what b and the half are in its unit, moved by n - i."""
    if op.kernel not in SUMS or op.domain != INTEGER or op.output == program.output:
        return None
    p, (a, b) = op.params, (program.tensors[name] for name in op.inputs)
    if b.role != Role.CONSTANT or a.role in (Role.CONSTANT, Role.TABLE) or p["a_shift"] > max(p["shift"], 0):
        return None
    formats = (a.format, b.format, program.tensors[op.output].format)
    if not all(fmt.is_binary_point and fmt.bits <= 8 for fmt in formats):
        return None
    half = 1 << p["shift"] - 1 if p["shift"] > 0 else 0
    moved = (program.constants[b.name] << p["b_shift"]) * (1 if op.kernel == ADD.form else -1)
    units = (moved + half) >> p["a_shift"]
    if np.ptp(units) > MOST_CONSTANT:
        return None
    lowest, right = int(a.format.lowest + units.min()), p["shift"] - p["a_shift"]
    return Sum(op, a.name, units - units.min(), lowest, right, (p["a_period"], p["b_period"]))


def _index_by_sums(program: Program) -> Program:
    """Tables of an 8-bit operand plus a constant, where nobody else reads the sum: long enough for all sums."""
    tables = Tables(program)

    def found(op: Op) -> tuple[str, Indexed] | None:
        one = _sum_with_constant(program, op)
        return None if one is None else (one.operand, indexed_by(tables, program, one))

    body = changed(program.body, lambda body, steps: without_sums(program, body, steps, found))
    return tables.within(body) if body != program.body else program


Indexed = Callable[[Sequence[Op]], Sequence[Op] | None]


def without_sums(program: Program, body: Body, steps: int, found: Callable[[Op], tuple[str, Indexed] | None]) -> Body:
    """`body`, carried out `steps` times, without sums that only look-ups read. `found` says of a sum what it reads at
    run time, and what makes look-ups with the sum inside of its readers (None: they stay)."""
    reads, made = Counter(reads_of(program.body)), dict[int, Op | None]()
    for place, item in enumerate(body):
        one = found(item) if isinstance(item, Op) and pays(item, steps) else None
        if one is None or isinstance(item, Loop):
            continue
        readers = look_ups(body, place, item.output, one[0])
        indexed = one[1](list(readers.values())) if readers and len(readers) == reads[item.output] else None
        if indexed is not None:
            made |= dict(zip(readers, indexed, strict=True))
            made[place] = None
    return tuple(item for item in (made.get(place, item) for place, item in enumerate(body)) if item is not None)


def look_ups(body: Body, place: int, made: str, operand: str) -> dict[int, Op]:
    """The look-ups of what `body[place]` made of `operand` behind it, while that is what it was."""
    ops: dict[int, Op] = {}
    for at, item in enumerate(body[place + 1 :], place + 1):
        written = {op.output for op in walk((item,))}
        if isinstance(item, Op) and item.kernel in LOOK_UPS and item.inputs[1] == made:
            ops[at] = item
        if operand in written:
            break
    return ops


def indexed_by(tables: Tables, program: Program, found: Sum) -> Indexed:
    """What makes look-ups with this sum inside of its readers."""
    return lambda readers: [_by_sum(tables, program, op, found, first=op is readers[0]) for op in readers]


def _by_sum(tables: Tables, program: Program, op: Op, found: Sum, *, first: bool) -> Op:
    """A look-up of a sum with the sum inside; the first one counts how often that was clipped."""
    a, fmt = program.tensors[found.operand].format, program.tensors[found.op.output].format
    sums = found.lowest + np.arange(len(codes_of(a)) + int(found.constant.max()))
    results = sums >> found.right if found.right > 0 else sums << -found.right
    codes = np.clip(results, fmt.lowest, fmt.highest)
    values, clipped = evaluated(program, op, program.tensors[found.op.output])
    own = ends_of(~clipped[codes - fmt.lowest])
    whole = ends_of(codes == results) if first else (0, NO_LIMIT)
    names = tables.named(op.output, values[codes - fmt.lowest], program.tensors[op.output].format), found.operand
    constant = tables.named(found.op.inputs[1], found.constant, fmt)
    params = {
        **dict(zip(("count", "a_period", "b_period"), (op.params["count"], *found.periods), strict=True)),
        **dict(zip(("base", "lowest", "highest", "least", "most"), (-a.lowest, *own, *whole), strict=True)),
    }
    return Op(SUM_TABLE.form, op.name, (*names, constant), op.output, params)


def ends_of(inside: np.ndarray, no_limit: int = NO_LIMIT) -> tuple[int, int]:
    """The first and the last place where `inside` is true; `no_limit` for the last one of all."""
    first, last = (int(n) for n in np.flatnonzero(inside)[[0, -1]])
    return first, last if last < inside.size - 1 else no_limit
