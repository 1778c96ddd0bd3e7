"""Maps made twice, so that they are never in RAM as a whole: for a global mean, and once more for what it scales.

Squeeze and excitation needs the mean of a map before the first product with it. Where the map is computed again for the
products, both passes go by groups of channels or by rows, as any other part of the network does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tinyhil.language.program import Body, Loop, Op, Program, Role, reads_of
from tinyhil.memplan.arena.channel_groups import MAPPED
from tinyhil.names import free_name
from tinyhil.ops import rows
from tinyhil.ops.window import window_of

REPEATED = (rows.HAS_WINDOW | MAPPED) - rows.JOINED_AT.keys()
MOST_VARIANTS = 6  # the largest map alone, the two largest, ...


@dataclass(frozen=True, slots=True)
class _Map:
    """A map that a global mean and, later, others read; `makers` from the first, `at`: where they are repeated."""

    name: str
    makers: tuple[Op, ...]
    at: int


def in_two_passes(program: Program) -> list[Program]:
    """The program with its largest map made twice, with the two largest, ...; as far as there are such maps."""
    found = sorted(_maps(program), key=lambda one: -program.tensors[one.name].size_bytes)
    return [_repeated(program, found[: count + 1]) for count in range(min(len(found), MOST_VARIANTS))]


def _maps(program: Program) -> Iterator[_Map]:
    body = program.body
    makers = {item.output: item for item in body if isinstance(item, Op)}
    readers: dict[str, list[int]] = {program.output: [len(body)]}
    for index, item in enumerate(body):
        for name in dict.fromkeys(reads_of((item,))):
            readers.setdefault(name, []).append(index)
    for name, at in readers.items():
        mean, others = body[at[0]] if at[0] < len(body) else None, [body[k] for k in at[1:] if k < len(body)]
        by_others = len(others) == len(at) - 1 > 0 and all(isinstance(other, Op) for other in others)
        if by_others and name in makers and isinstance(mean, Op) and _is_global(mean, name):
            chain = _chain(program, name, makers, readers)
            if chain:
                yield _Map(name, chain, _begin_of(body, at[1]))


def _is_global(op: Op, name: str) -> bool:
    """Whether this makes one number of each of the tensor's planes."""
    if op.kernel not in rows.HAS_WINDOW or "outputs" in op.params or rows.operand_of(op) != name:
        return False
    w = window_of(op.params)
    return w.out_height == w.out_width == 1 < w.height


def _chain(program: Program, name: str, makers: dict[str, Op], readers: dict[str, list[int]]) -> tuple[Op, ...]:
    """What makes it channel by channel or of windows, from the smallest tensor on the way; none if that is not
    smaller."""
    chain, best, least = list[Op](), 0, program.tensors[name].size_bytes
    while name in makers and makers[name].kernel in REPEATED:
        chain.append(makers[name])
        name = rows.operand_of(chain[-1])
        source = program.tensors[name]
        if source.role == Role.ARENA and source.size_bytes < least:
            best, least = len(chain), source.size_bytes
        if len(readers[name]) > 1:  # it is there anyway
            break
    return tuple(reversed(chain[:best]))


def _begin_of(body: Body, at: int) -> int:
    """Where what reads a map begins: with the numbers that are spread over its planes."""
    reader, before = body[at], body[at - 1]
    spreads = isinstance(before, Op) and isinstance(reader, Op) and before.output in reader.inputs
    return at - 1 if spreads and isinstance(before, Op) and before.kernel in rows.IS_MOVE else at


def _repeated(program: Program, maps: list[_Map]) -> Program:
    tensors, body = dict(program.tensors), list(program.body)
    for one in sorted(maps, key=lambda each: -each.at):
        known, more = dict[str, str](), list[Op]()
        for op in one.makers:
            for name in (op.output, *([op.scratch] if op.scratch else ())):
                known[name] = free_name(f"{name}.again", tensors)
                tensors[known[name]] = replace(tensors[name], name=known[name])
            inputs = tuple(known.get(name, name) for name in op.inputs)
            scratch = known.get(op.scratch, op.scratch)
            more.append(replace(op, inputs=inputs, output=known[op.output], scratch=scratch))
        body[one.at :] = [*more, *(_reading(item, one.name, known[one.name]) for item in body[one.at :])]
    return replace(program, tensors=tensors, body=tuple(body))


def _reading(item: Op | Loop, name: str, other: str) -> Op | Loop:
    """The operation, with the other tensor for this one."""
    if isinstance(item, Loop):
        return item
    return replace(item, inputs=tuple(other if one == name else one for one in item.inputs))
