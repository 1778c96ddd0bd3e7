"""Operations whose operands are all functions of one byte -> one table.

What exporters make of GELU, x * (erf(x * a) + 1) / 2, is five operations on one operand of at most 8 bits: their own
references say what they make of each of its codes together, and which of those they clip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tinyhil.formats.codec import storage_dtype
from tinyhil.formats.fixed import Fixed
from tinyhil.language.form import Form
from tinyhil.language.program import Body, Loop, Op, Program, Role, Tensor, reads_of, walk
from tinyhil.ops import affine
from tinyhil.ops.code_table import CODE_TABLE, COUNTED_TABLE
from tinyhil.ops.elementwise import ADD, MUL, SUB
from tinyhil.ops.real_functions import LOOKUP
from tinyhil.passes.code_tables import CODE_BITS, Tables, codes_of, operand_of
from tinyhil.passes.folded import ENTRIES, changed, pays
from tinyhil.references.reference import run_reference

PAIRS: tuple[Form, ...] = (ADD.form, SUB.form, MUL.form, affine.SUM.form, affine.PRODUCT.form)
LOOK_UPS = (CODE_TABLE.form, LOOKUP.form)
PERIODS = ("a_period", "b_period")
MOST_OPS = 16
COUNTED = Fixed(16, 0)  # a result and how often it is clipped


def with_joint_functions(program: Program) -> Program:
    """`program` with such operations as one look-up each; the same object if there are none."""
    tables = Tables(program)

    def change(body: Body, steps: int) -> Body:
        level, gone, left = _Level(program, body), set[str](), list[Op | Loop]()
        for item in reversed(body):
            if isinstance(item, Op) and item.output in gone:
                continue
            found = level.joint(item) if isinstance(item, Op) and item.kernel in PAIRS and pays(item, steps) else None
            made = None if found is None or not isinstance(item, Op) else _look_up(program, tables, item, found)
            if made is None or found is None:
                left.append(item)
                continue
            gone.update(op.output for op in found.ops)
            left.append(made)
        return tuple(reversed(left))

    body = change(changed(program.body, change), 1)
    return tables.within(body) if body != program.body else program


@dataclass(frozen=True, slots=True)
class _Joint:
    """Operations in order whose last result is a function of one tensor."""

    operand: Tensor
    ops: tuple[Op, ...]


class _Level:
    """The operations of one loop's body."""

    def __init__(self, program: Program, body: Body) -> None:
        self._program = program
        writers = Counter(op.output for op in walk(program.body))
        self._reads = Counter(reads_of(program.body))
        self._places = {op.output: at for at, op in enumerate(body) if isinstance(op, Op) and writers[op.output] == 1}
        self._body = body

    def joint(self, last: Op) -> _Joint | None:
        """The operations that `last` is a joint function of one byte with; None if it is not, or alone."""
        if not self._is_function(last):
            return None
        ops = {last.output: last}
        while len(ops) <= MOST_OPS:
            outside = {name for op in ops.values() for name in self._at_run_time(op) if name not in ops}
            more = {name: op for name in outside if (op := self._vanishing(name, ops, last)) is not None}
            if not more:
                break
            ops |= more
        ordered = sorted(ops.values(), key=lambda op: self._places.get(op.output, len(self._body)))
        if len(ops) < 2 or len(outside) != 1 or ordered[-1] is not last:
            return None
        operand = self._program.tensors[outside.pop()]
        is_byte = operand.format.storage_bytes == 1 and operand.format.bits <= CODE_BITS
        return _Joint(operand, tuple(ordered)) if is_byte and operand.count == last.params["count"] else None

    def _vanishing(self, name: str, ops: dict[str, Op], last: Op) -> Op | None:
        """What makes tensor `name` of bytes element by element, if only `ops` read that."""
        op = self._body[self._places[name]] if name in self._places else None
        if not isinstance(op, Op) or op.params.get("count") != last.params["count"]:
            return None
        is_read = sum(one.inputs.count(name) for one in ops.values())
        return op if is_read == self._reads[name] and name != self._program.output and self._is_function(op) else None

    def _is_function(self, op: Op) -> bool:
        if op.kernel in PAIRS or op.kernel in LOOK_UPS:
            constants = [self._program.tensors[name] for name in op.inputs if name not in self._at_run_time(op)]
            return op.kernel in LOOK_UPS or all(tensor.count == 1 for tensor in constants)
        return operand_of(self._program, op) is not None

    def _at_run_time(self, op: Op) -> Iterator[str]:
        tensors = self._program.tensors
        return (name for name in op.inputs if tensors[name].role not in (Role.TABLE, Role.CONSTANT))


def _look_up(program: Program, tables: Tables, last: Op, found: _Joint) -> Op | None:
    """The table, with how often each code is clipped beside its result where that is more than once."""
    results, clips = _evaluated(program, found)
    made = tables.look_up(last, found.operand, results, clips > 0) if clips.max() <= 1 else None
    if made is not None or program.tensors[last.output].format.storage_bytes > 1:
        return made
    codes = codes_of(found.operand.format)
    table = np.zeros(codes.size, np.int64)
    table[codes & (codes.size - 1)] = (results & (ENTRIES - 1)) | clips << CODE_BITS
    name = tables.named(last.output, table, COUNTED)
    params = {"count": last.params["count"], "mask": codes.size - 1}
    return Op(COUNTED_TABLE.form, last.name, (name, found.operand.name), last.output, params)


def _evaluated(program: Program, found: _Joint) -> tuple[np.ndarray, np.ndarray]:
    """What the operations make of each code of their operand, and how often they clip it."""
    codes = codes_of(found.operand.format)
    source = replace(found.operand, count=codes.size, role=Role.INPUT)
    made = {op.output: replace(program.tensors[op.output], count=codes.size) for op in found.ops}
    fixed = {name for op in found.ops for name in op.inputs if name not in made and name != source.name}
    constants = {name: program.constants[name] for name in fixed}
    tensors = {name: program.tensors[name] for name in fixed} | made | {source.name: source}

    def sized(op: Op) -> Op:
        counts = {
            key: codes.size
            for key, name in zip(PERIODS, (op.inputs[0], op.inputs[-1]), strict=True)
            if key in op.params and name not in fixed
        }
        return replace(op, params={**op.params, "count": codes.size, **counts})

    last = found.ops[-1]
    body = tuple(sized(op) for op in found.ops)
    alone = Program(last.name, tensors, constants, body, source.name, last.output, (codes.size,), (codes.size,))
    clips: list[np.ndarray] = []
    run = run_reference(alone, codes[None, :], observe=lambda _op, _codes, clipped: clips.append(clipped[0]))
    results = run.outputs[0].astype(storage_dtype(made[last.output].format)).astype(np.int64)
    return results, np.sum([np.broadcast_to(np.asarray(one, np.int64), codes.shape) for one in clips], axis=0)
