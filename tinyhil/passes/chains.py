"""Element-wise operations that follow each other -> one loop: each element is loaded once, and stored once if anybody
else reads it.

Decided when the plan is there, by what it has put where: the results of a chain live in registers, and a store must
not reach what a later round of the loop still loads. Nothing else changes; every operation keeps its kernel, which the
loop calls for one element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tinyhil.language.program import Loop, Op, Program, Role, loops_of, walk
from tinyhil.memplan import Plan
from tinyhil.memplan.arena.views import is_done_by_plan
from tinyhil.ops import KERNEL_OF


@dataclass(frozen=True, slots=True)
class Chain:
    """`ops` (two or more) of `count` elements each; those whose results are in `stored` write them to the arena."""

    ops: tuple[Op, ...]
    count: int
    stored: frozenset[str]

    @property
    def name(self) -> str:
        """`first..last`, as profiles and plans call it."""
        return f"{self.ops[0].name}..{self.ops[-1].name}"


Item = Op | Loop | Chain


def is_elementwise(op: Op) -> bool:
    """Whether element n of its result needs element n of operands of its size, whatever the kernel is."""
    kernel = KERNEL_OF[op.kernel]
    return kernel.in_place and not kernel.in_place_at and not op.scratch and "count" in op.params


def period_of(op: Op, index: int) -> int:
    """Elements after which operand `index` of an element-wise operation repeats; 0: it is a table, read anywhere."""
    periods = [op.params[name] for name in ("a_period", "b_period") if name in op.params] or [op.params["count"]]
    return ([0] * (len(op.inputs) - len(periods)) + periods)[index]


class Chains:
    """The chains of a planned program."""

    def __init__(self, program: Program, plan: Plan) -> None:
        self._program, self._plan = program, plan
        self._readers: dict[str, list[Op]] = {}
        self._outside = {program.output, *(name for loop in loops_of(program.body) for name, _ in loop.slices)}
        for op in walk(program.body):
            for name in op.tensors[:-1]:
                self._readers.setdefault(name, []).append(op)

    def within(self, body: Sequence[Op | Loop]) -> list[Item]:
        """The operations of one level in order, those that make a chain as one."""
        items: list[Item] = []
        waiting: list[Op] = []
        for item in body:
            if isinstance(item, Op) and self._joins(waiting, item):
                waiting.append(item)
                continue
            items += self._closed(waiting)
            waiting = [item] if isinstance(item, Op) and self._begins(item) else []
            if not waiting:
                items.append(item)
        return [*items, *self._closed(waiting)]

    def _begins(self, op: Op) -> bool:
        output = self._program.tensors[op.output]
        return is_elementwise(op) and output.role == Role.ARENA and output.count == op.params["count"] > 1

    def _joins(self, ops: Sequence[Op], op: Op) -> bool:
        """Whether a chain of `ops` may go on with `op`: it reads something they made, and no store comes too early."""
        if not ops or not self._begins(op) or op.params["count"] != ops[0].params["count"]:
            return False
        made = {other.output for other in ops}
        read = [name for name in op.inputs if name in made]
        shared = {name for other in ops for name in other.inputs} & set(op.inputs)
        if not (read or shared) or op.output in made:
            return False
        if any(period_of(op, at) != op.params["count"] for at, n in enumerate(op.inputs) if n in made):
            return False
        longer = (*ops, op)
        return self._keeps_order(longer, self._stored(longer))

    def _closed(self, ops: Sequence[Op]) -> list[Item]:
        if len(ops) < 2:
            return list(ops)
        return [Chain(tuple(ops), ops[0].params["count"], self._stored(ops))]

    def _stored(self, ops: Sequence[Op]) -> frozenset[str]:
        """Results that somebody reads who is not behind their operation in the chain."""
        stored = set()
        for place, op in enumerate(ops):
            later = ops[place + 1 :]
            readers = self._readers.get(op.output, ())
            if op.output in self._outside or any(all(reader is not one for one in later) for reader in readers):
                stored.add(op.output)
        return frozenset(stored)

    def _keeps_order(self, ops: Sequence[Op], stored: frozenset[str]) -> bool:
        """Whether no store of a round changes what a later round loads."""
        count, made = ops[0].params["count"], set[str]()
        loads: list[tuple[str, int]] = []
        for op in ops:
            loads += [(n, period_of(op, at)) for at, n in enumerate(op.inputs) if n not in made]
            made.add(op.output)
        return all(
            self._is_behind(name, loaded, period == count) for name in stored for loaded, period in loads if period
        )

    def _is_behind(self, written: str, loaded: str, by_element: bool) -> bool:
        plan, tensors = self._plan, self._program.tensors
        if loaded not in plan.offsets or plan.regions[loaded] != plan.regions[written]:
            return True
        out, source = tensors[written], tensors[loaded]
        start, other = plan.offsets[written], plan.offsets[loaded]
        if start >= other + source.size_bytes or other >= start + out.size_bytes:
            return True
        size, step = out.format.storage_bytes, source.format.storage_bytes
        return by_element and all(start + (n + 1) * size <= other + (n + 1) * step for n in (0, out.count - 1))


def in_chains(program: Program, plan: Plan, body: Sequence[Op | Loop]) -> list[Item]:
    """The operations of one level that the board carries out or the plan has done, element-wise chains as one item."""
    return Chains(program, plan).within(body)


def carried_out(program: Program, plan: Plan, body: Sequence[Op | Loop]) -> Iterator[Op | Chain]:
    """What the board carries out, in order, bodies of loops once: what the plan has done is left out."""
    for item in in_chains(program, plan, body):
        if isinstance(item, Loop):
            yield from carried_out(program, plan, item.body)
        elif isinstance(item, Chain) or not is_done_by_plan(program, plan, item):
            yield item


def locals_of(chain: Chain, names: Mapping[str, str]) -> dict[str, str]:
    """Tensor -> the variable that holds its element within the loop."""
    return {name: f"{names[name]}_n" for op in chain.ops for name in op.tensors}
