"""Whether a graph or a program is well formed: what every pass may rely on, and must leave as it was.

Passes are folded with a look at what each has made (tinyhil/compiler_pass.py); other steps hand theirs to `checked`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from tinyhil.compiler_pass import verified
from tinyhil.language.graph import Graph, element_count
from tinyhil.language.program import Body, Loop, Op, Program, Role, Tensor, loops_of, walk

STORED = (Role.CONSTANT, Role.TABLE)
Made = TypeVar("Made", Graph, Program)
_sound: deque[Program] = deque(maxlen=32)


def checked(made: Made, maker: str) -> Made:
    """`made` as it is; where HIL_VERIFY is set, Malformed says what is wrong with it and who made it."""
    verified(made, maker, _faults_of)
    return made


def _faults_of(made: Graph | Program) -> Iterator[str]:
    return faults_of_graph(made) if isinstance(made, Graph) else faults_of_handed_on(made)


def faults_of_graph(graph: Graph) -> Iterator[str]:
    """What is wrong with a graph: names, shapes, order of definition, ends of loops."""
    made: set[str] = set()
    for level in graph.levels():
        for name in (*level.inputs, *level.constants, *(name for node in level.nodes for name in node.outputs)):
            if name in made:
                yield f"value '{name}' is defined twice"
            made.add(name)
    yield from _faults_of_level(graph, set())
    for name in (*graph.pinned, *graph.steps):
        if name not in made:
            yield f"scale of '{name}', which there is not"


def _faults_of_level(level: Graph, outside: set[str]) -> Iterator[str]:
    known = {*outside, *level.inputs, *level.constants}
    for node in level.nodes:
        yield from (
            f"'{node.name}' reads '{name}' before it is made" for name in node.inputs if name and name not in known
        )
        if node.body is not None:
            if len(node.body.inputs) != len(node.inputs) or len(node.body.outputs) != len(node.outputs):
                yield f"loop '{node.name}': its body has other ends than the loop"
            yield from _faults_of_level(node.body, known)
        known.update(node.outputs)
    yield from (f"output '{name}' is never made" for name in level.outputs if name not in known)
    for name in (*level.inputs, *(name for node in level.nodes for name in node.outputs)):
        if name and name not in level.shapes:
            yield f"value '{name}' has no shape"
    for name, array in level.constants.items():
        if element_count(level.shapes.get(name, ())) != array.size:
            yield f"constant '{name}' of {array.size} elements has shape {level.shapes.get(name)}"


def faults_of_handed_on(program: Program) -> Iterator[str]:
    """What is wrong with a program that a stage hands on: nothing, if it is one that was looked at a moment ago, for
    nobody changes one, and most passes leave most programs as they are."""
    if any(one is program for one in _sound):
        return
    found = list(faults_of_program(program))
    if not found:
        _sound.append(program)
    yield from found


def faults_of_program(program: Program) -> Iterator[str]:
    """What is wrong with a program: tensors, constants, order of writing, scratch, rows of loops."""
    yield from _faults_of_tensors(program)
    for name, what, roles in (
        (program.input, "input", (Role.INPUT, Role.ARENA)),
        (program.output, "output", tuple(Role)),
    ):
        tensor = program.tensors.get(name)
        if tensor is None or tensor.role not in roles:
            yield f"'{name}' is not the program's {what}"
    missing = {name for op in walk(program.body) for name in op.tensors} - set(program.tensors)
    if missing:
        yield f"no tensor '{min(missing)}'"
        return
    written = {program.input}
    yield from _faults_of_body(program, program.body, written, frozenset())
    if program.tensors[program.output].role == Role.ARENA and program.output not in written:
        yield f"output '{program.output}' is never written"
    yield from _faults_of_scratch(program)
    yield from _faults_of_writers(program)


def _faults_of_tensors(program: Program) -> Iterator[str]:
    shown = {row for loop in loops_of(program.body) for _, row in loop.slices}
    for name, tensor in program.tensors.items():
        if tensor.name != name or tensor.count < 1:
            yield f"tensor '{name}' is called '{tensor.name}' and has {tensor.count} elements"
        if (tensor.role in STORED and name not in shown) != (name in program.constants):
            yield f"tensor '{name}' ({tensor.role}) and its constant do not go together"
    for name, array in program.constants.items():
        tensor = program.tensors[name]
        if array.size != tensor.count:
            yield f"constant '{name}': {array.size} elements for {tensor.count}"
        elif array.dtype.kind not in "iu" or not _is_held(array, tensor):
            yield f"constant '{name}' is not made of codes of {tensor.format}"


def _is_held(codes: np.ndarray, tensor: Tensor) -> bool:
    """Whether the storage of a tensor holds these codes; a table's are of either sign, of 16 bits at least."""
    bits, is_signed = 8 * tensor.format.storage_bytes, tensor.format.lowest < 0
    lowest = -(1 << (bits - 1)) if is_signed else 0
    highest = (1 << max(16, bits)) - 1 if tensor.role == Role.TABLE else lowest + (1 << bits) - 1
    return codes.size == 0 or (lowest <= int(codes.min()) and int(codes.max()) <= highest)


def _faults_of_body(program: Program, body: Body, written: set[str], rows: frozenset[str]) -> Iterator[str]:
    """Order of writing. What a loop carries is written before the loop, so its first step meets a value."""
    for item in body:
        if isinstance(item, Loop):
            yield from _faults_of_rows(program, item, written, rows)
            inner = rows | {row for _, row in item.slices}
            yield from _faults_of_body(program, item.body, written, inner)
            continue
        for name in item.inputs:
            role = program.tensors[name].role
            makes_rows = name == item.output and item.kernel.rows  # beside others, of which there may be none yet
            if role == Role.ARENA and name not in written and not makes_rows:
                yield f"'{item.name}' reads '{name}' before it is written"
            if role == Role.SLICE and name not in rows:
                yield f"'{item.name}' reads row '{name}' outside of its loop"
        if program.tensors[item.output].role != Role.ARENA:
            yield f"'{item.name}' writes '{item.output}', which is {program.tensors[item.output].role}"
        written.add(item.output)


def _faults_of_rows(program: Program, loop: Loop, written: set[str], rows: frozenset[str]) -> Iterator[str]:
    if loop.count < 1:
        yield f"loop '{loop.name}' of {loop.count} steps"
    for sequence, row in loop.slices:
        whole, part = program.tensors[sequence], program.tensors[row]
        if not _is_row(whole, part, loop.count):
            yield f"loop '{loop.name}': '{row}' is no row of '{sequence}'"
        if (whole.role == Role.ARENA and sequence not in written) or (
            whole.role == Role.SLICE and sequence not in rows
        ):
            yield f"loop '{loop.name}' walks '{sequence}' before it is written"


def _is_row(whole: Tensor, part: Tensor, steps: int) -> bool:
    """No step reaches beyond the end; a loop may leave rows out."""
    role = Role.TABLE if whole.role == Role.TABLE else Role.SLICE
    return part.role == role and part.count * steps <= whole.count and part.format == whole.format


def _faults_of_scratch(program: Program) -> Iterator[str]:
    """A scratch tensor means something during its call alone."""
    meaning = {name for op in walk(program.body) for name in (*op.inputs, op.output)}
    for op in walk(program.body):
        if op.scratch and (op.scratch in meaning or program.tensors[op.scratch].role != Role.ARENA):
            yield f"'{op.name}': scratch '{op.scratch}' is used as more than scratch"


def _faults_of_writers(program: Program) -> Iterator[str]:
    """A value has one writer: what a loop carries has one before the loop and one in it; blocks of a larger tensor are
    written one beside the other by those that leave the others alone, and read what is there."""
    writers: dict[str, list[tuple[int, ...]]] = {}
    for op, loops in _with_loops(program.body, ()):
        if op.output in op.inputs:
            continue
        for other in writers.get(op.output, ()):
            if other == loops or other != loops[: len(other)]:
                yield f"'{op.name}' writes '{op.output}', which has another writer"
        writers.setdefault(op.output, []).append(loops)


def _with_loops(body: Body, loops: tuple[int, ...]) -> Iterator[tuple[Op, tuple[int, ...]]]:
    """Every operation with the identities of the loops around it."""
    for item in body:
        if isinstance(item, Loop):
            yield from _with_loops(item.body, (*loops, id(item)))
        else:
            yield item, loops
