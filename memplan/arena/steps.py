"""The operations of a program one after another, as the live ranges count them, with the loops around each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from tinyhil.language.program import Body, Op


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, the loops around it, and the tensors it reads with the rows of sequences traced back to them.

    Its index among the steps is its instant in the live ranges. `rows` (steps, 2): the rows that it makes in each step
    of a loop over rows, where the constants were given.
    """

    op: Op
    loops: tuple[int, ...]  # identities: names may repeat
    reads: frozenset[str]
    rows: np.ndarray | None = None


def steps_of(
    body: Body,
    loops: tuple[int, ...],
    sequence_of: dict[str, str],
    constants: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> Iterator[Step]:
    """The operations of a body in order, each with the loops it is in."""
    for item in body:
        if isinstance(item, Op):
            table = constants.get(sequence_of[item.inputs[0]]) if item.kernel.rows and constants else None
            rows = None if table is None else table.reshape(-1, 2)
            yield Step(item, loops, frozenset(sequence_of.get(name, name) for name in item.inputs), rows)
        else:
            inner = {row: sequence_of.get(sequence, sequence) for sequence, row in item.slices}
            yield from steps_of(item.body, (*loops, id(item)), {**sequence_of, **inner}, constants)


def writers_of(steps: Sequence[Step]) -> dict[str, list[int]]:
    """The instants at which each tensor is written, in order."""
    found: dict[str, list[int]] = {}
    for now, step in enumerate(steps):
        found.setdefault(step.op.output, []).append(now)
    return found


def readers_of(steps: Sequence[Step]) -> dict[str, list[int]]:
    """The instants at which each tensor is read, in order."""
    found: dict[str, list[int]] = {}
    for now, step in enumerate(steps):
        for name in step.reads:
            found.setdefault(name, []).append(now)
    return found


def made_again(steps: Sequence[Step], writers: Sequence[int], reader: Step) -> bool:
    """Whether every value that `reader` meets was written anew by one of the `writers`: no loop around it reuses an
    older one. The sample, which no operation writes, is there once."""
    if not writers:
        return not reader.loops
    return all(steps[i].loops[: len(reader.loops)] == reader.loops for i in writers)
