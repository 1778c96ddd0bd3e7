"""Attention by rows of its queries: what scores are made of, softmax and the product with values go some rows at a
time, so that no matrix of all rows against all is in RAM.

A loop over the heads, within it one over as many rows at a time as ROWS permits; the results are those of the whole, a
row is made once. What it costs is that columns are packed once for every step (firmware/kernels/arm/matrices.hpp).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tinyhil.language.program import Loop, Op, Program, Role, Tensor, reads_of, walk
from tinyhil.names import free_name
from tinyhil.ops import KERNEL_OF, batched, index, linear, scan, softmax

ROWS = (16, 4)  # at a time, at most
PRODUCTS = (batched.BATCH_MATMUL.form, linear.MATMUL.form)
SOFTMAX = softmax.SOFTMAX.form.base
PACKED = 3  # products that packing an element costs as much as


@dataclass(frozen=True, slots=True)
class _Attention:
    """`scores`: the first product; `between`: what is done to its elements; the last is the product with `values`."""

    ops: tuple[Op, ...]
    at: int  # of the last one in the program's body

    @property
    def heads(self) -> int:
        """Matrices of scores."""
        return int(self.ops[0].params.get("batch", 1))

    @property
    def rows(self) -> int:
        """Queries of a head."""
        return int(self.ops[0].params["rows"])


def in_rows(program: Program) -> list[Program]:
    """The program with all attention some rows at a time, and with fewer; none if it has no attention."""
    found = _found(program)
    if not found:
        return []
    sizes = dict.fromkeys(tuple(_step(one.rows, most) for one in found) for most in ROWS)
    return [_by_rows(program, found, steps) for steps in sizes if steps != tuple(one.rows for one in found)]


def packed_again(program: Program) -> int:
    """Products that packing columns once for every step of such loops costs as much as."""
    lost = 0
    for heads in (item for item in program.body if isinstance(item, Loop)):
        for loop in (item for item in heads.body if isinstance(item, Loop)):
            products = (op.params for op in loop.body if isinstance(op, Op) and op.kernel == linear.MATMUL.form)
            lost += sum(PACKED * heads.count * (loop.count - 1) * p["inner"] * p["columns"] for p in products)
    return lost


def _step(rows: int, most: int) -> int:
    return next(step for step in range(min(rows, most), 0, -1) if rows % step == 0)


def _found(program: Program) -> list[_Attention]:
    reads = Counter((*reads_of(program.body), program.output))
    makers = {item.output: item for item in program.body if isinstance(item, Op)}
    written = Counter(op.output for op in walk(program.body))
    found = []
    for at, item in enumerate(program.body):
        if not isinstance(item, Op) or item.kernel not in PRODUCTS or item.inputs[0] not in makers:
            continue
        ops = [item]
        while ops[0] is item or ops[0].kernel not in PRODUCTS:
            name = _from(program, ops[0])
            maker = makers.get(name)
            if maker is None or reads[name] != 1 or written[name] != 1 or not _may_join(program, maker):
                break
            ops.insert(0, maker)
        attention = _Attention(tuple(ops), at)
        if len(ops) > 2 and ops[0].kernel in PRODUCTS and _is_whole(program, attention):
            found.append(attention)
    return found


def _from(program: Program, op: Op) -> str:
    """The operand that an operation between makes its result of."""
    if op.kernel in PRODUCTS:
        return op.inputs[0]
    return next(name for name in op.inputs if program.tensors[name].role not in (Role.TABLE, Role.CONSTANT))


def _may_join(program: Program, op: Op) -> bool:
    """Whether rows of its result need the same rows of its one computed operand alone."""
    computed = [name for name in op.inputs if program.tensors[name].role not in (Role.TABLE, Role.CONSTANT)]
    if op.kernel in PRODUCTS:
        return True
    if len(computed) != 1 or op.scratch:
        return False
    if op.kernel.base == SOFTMAX:
        return bool(op.params.get("inner", 1) == 1)
    others = [program.tensors[name] for name in op.inputs if name not in computed]
    are_single = all(one.role == Role.TABLE or one.count == 1 for one in others)
    return bool(KERNEL_OF[op.kernel].in_place and "count" in op.params and are_single)


def _is_whole(program: Program, one: _Attention) -> bool:
    """Whether softmax is between the two products, of the rows of the first, and each head has rows of its own."""
    first, last = one.ops[0], one.ops[-1]
    softmaxes = [op for op in one.ops if op.kernel.base == SOFTMAX]
    if len(softmaxes) != 1 or last.params.get("batch", 1) != one.heads:
        return False
    along = softmaxes[0].params.get("along", softmaxes[0].params.get("count"))
    computed = (*first.inputs, last.inputs[1])
    if any(program.tensors[name].role != Role.ARENA or program.tensors[name].innermost for name in computed):
        return False
    if along != first.params["columns"] or (one.heads > 1 and 0 in (first.params["a_step"], last.params["a_step"])):
        return False
    return bool(last.params["rows"] == one.rows and last.params["inner"] == along)


def _by_rows(program: Program, found: list[_Attention], steps: tuple[int, ...]) -> Program:
    tensors, body = dict(program.tensors), list[Op | Loop](program.body)
    for one, step in zip(reversed(found), reversed(steps), strict=True):
        if step < one.rows:
            body[one.at : one.at + 1] = _loops(one, step, tensors)
    gone = {id(op) for one, step in zip(found, steps, strict=True) if step < one.rows for op in one.ops}
    remaining = tuple(item for item in body if id(item) not in gone)
    read = {name for op in walk(remaining) for name in op.tensors} | {program.input, program.output}
    read |= {name for loop in remaining if isinstance(loop, Loop) for name in _shown(loop)}
    return replace(program, tensors={name: t for name, t in tensors.items() if name in read}, body=remaining)


def _shown(loop: Loop) -> set[str]:
    inner = (item for item in loop.body if isinstance(item, Loop))
    return {name for pair in loop.slices for name in pair}.union(*map(_shown, inner))


def _loops(one: _Attention, step: int, tensors: dict[str, Tensor]) -> list[Op | Loop]:
    """What takes the place of one attention; its tensors join `tensors`."""
    first, last = one.ops[0], one.ops[-1]
    stack = tensors[last.output]

    def made(of: str, count: int, role: Role) -> str:
        name = free_name(f"{of}.rows", tensors)
        tensors[name] = replace(tensors[of], name=name, count=count, role=role)
        return name

    heads = dict[str, str]()  # what a head reads -> what stands for it within the loop over heads
    for name, by_head in _read(one).items():
        heads[name] = made(name, tensors[name].count // one.heads, Role.SLICE) if by_head else name
    query = made(heads[first.inputs[0]], step * first.params["inner"], Role.SLICE)
    names = {**heads, first.inputs[0]: query}
    inner = list[Op | Loop]()
    for op in one.ops:
        names[op.output] = made(op.output, tensors[op.output].count // (one.heads * one.rows) * step, Role.ARENA)
        inner.append(_of_rows(op, step, names, tensors))
    counter = free_name(f"{last.output}.step", tensors)
    tensors[counter] = Tensor(counter, 1, index.COUNTER, Role.ARENA)
    placed = Op(index.PLACE_ROW.form, last.name, (names[last.output], counter, stack.name), stack.name, {})
    inner.append(replace(placed, params={"inner": tensors[names[last.output]].count}))
    inner.append(Op(index.COUNT.form, counter, (counter,), counter, {"by": 1}))
    rows = Loop(f"{last.name}.rows", one.rows // step, ((heads[first.inputs[0]], query),), tuple(inner))
    slices = tuple((name, head) for name, head in heads.items() if head != name)
    begun = ((stack.name, stack.count), (counter, 1))
    fills = [Op(scan.FILL.form, f"{last.name}.{name}", (), name, {"count": n, "value": 0}) for name, n in begun]
    return [*fills, Loop(f"{last.name}.heads", one.heads, slices, (rows,))]


def _read(one: _Attention) -> Mapping[str, bool]:
    """What the products of one attention read, and whether each head has a part of its own."""
    first, last = one.ops[0], one.ops[-1]
    several = one.heads > 1
    return {
        first.inputs[0]: True,
        first.inputs[1]: not several or first.params["b_step"] != 0,
        last.inputs[1]: not several or last.params["b_step"] != 0,
    }


def _of_rows(op: Op, step: int, names: Mapping[str, str], tensors: Mapping[str, Tensor]) -> Op:
    """The operation as it makes `step` rows of one head."""
    params, kernel = dict(op.params), op.kernel
    made = tensors[names[op.output]].count
    if kernel in PRODUCTS:
        kernel = linear.MATMUL.form
        params = {**{name: params[name] for name in ("inner", "columns", "shift")}, "rows": step}
    elif kernel.base == SOFTMAX:
        params["outer"] = step
    else:
        whole = params["count"]
        params |= {name: made for name in ("count", "a_period", "b_period") if params.get(name) == whole}
    inputs = tuple(names.get(name, name) for name in op.inputs)
    return replace(op, kernel=kernel, inputs=inputs, output=names[op.output], params=params)
