"""What each stage of a program computes, named by everything that it depends on: equal names, equal values.

A stage is an operation of the top level or a whole loop there. Its name is a digest of its operations, of the formats
of the tensors it touches, of the constants it reads, and of the names of what it reads from other stages.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import cast

from tinyhil.formats.format import Format
from tinyhil.language.program import Loop, Op, Program

DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Stage:
    """`key` names what it computes; `reads` and `writes` hold the version of each tensor it touches."""

    item: Op | Loop
    key: bytes
    reads: Mapping[str, bytes]
    writes: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Stages:
    """In order of execution. `input` and `output` are versions; `read` holds each that a stage or the caller reads."""

    stages: tuple[Stage, ...]
    input: bytes
    output: bytes
    read: frozenset[bytes]


def stages_of(program: Program) -> Stages:
    """The stages of `program`."""
    naming = _Naming(program)
    given = naming.current[program.input]
    stages = tuple(naming.stage(item) for item in program.body)
    output = naming.current[program.output]
    read = {version for stage in stages for version in stage.reads.values()}
    return Stages(stages, given, output, frozenset((*read, output)))


class _Naming:
    """Walks a program once. `current`: the version of every tensor written so far."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.current = {program.input: _digest("input", _text(program.tensors[program.input].format))}
        self._constants: dict[str, bytes] = {}

    def stage(self, item: Op | Loop) -> Stage:
        # A loop depends on what its tensors held before; an operation writes all of its result.
        names = sorted({*touched(item)}) if isinstance(item, Loop) else item.inputs
        reads = {name: self.current[name] for name in names if name in self.current}
        shown = (*names, item.output) if isinstance(item, Op) else names
        key = _digest(_described(item), *(self._tensor(name) for name in shown), reads)
        writes = {name: _digest(key, name) for name in _written(item)}
        self.current.update(writes)
        return Stage(item, key, reads, writes)

    def _tensor(self, name: str) -> tuple[object, ...]:
        tensor = self.program.tensors[name]
        return name, tensor.count, tensor.role, _text(tensor.format), self._constant(name)

    def _constant(self, name: str) -> bytes:
        if name not in self.program.constants:
            return b""
        if name not in self._constants:
            codes = self.program.constants[name]
            self._constants[name] = _digest(codes.dtype.str) + blake2b(codes.tobytes(), digest_size=16).digest()
        return self._constants[name]


def _digest(*parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=DIGEST_BYTES).digest()


@lru_cache(maxsize=4096)
def _known(fmt: Hashable) -> str:
    return repr(fmt)


def _text(fmt: Format) -> str:
    """Every field of a format."""
    return _known(cast(Hashable, fmt))


def _described(item: Op | Loop) -> tuple[object, ...]:
    """Everything about the calls but the names of their nodes."""
    if isinstance(item, Op):
        how = (item.kernel, item.accumulator_bits, item.domain, item.low, item.guard)
        return *how, item.inputs, item.output, tuple(item.params.items())
    return item.count, item.slices, *(_described(inner) for inner in item.body)


def touched(item: Op | Loop) -> Iterator[str]:
    """Tensors read or written, and what slices show."""
    if isinstance(item, Op):
        yield from (*item.inputs, item.output)
        return
    for sequence, row in item.slices:
        yield from (sequence, row)
    for inner in item.body:
        yield from touched(inner)


def _written(item: Op | Loop) -> tuple[str, ...]:
    if isinstance(item, Op):
        return (item.output,)
    return tuple(dict.fromkeys(name for inner in item.body for name in _written(inner)))
