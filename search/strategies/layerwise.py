"""Layer-wise greedy widths (Moons, Bankman, Verhelst: Embedded Deep Learning, Springer 2019, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from tinyhil.errors import ConfigError
from tinyhil.language.program import walk
from tinyhil.search.search_problem import Ask, Asking, SearchProblem
from tinyhil.search.space import Choice, Space


@dataclass(frozen=True, slots=True)
class Layerwise:
    """From the first layer on, inputs then weights, each as narrow as `relative_accuracy` of the float model allows."""

    relative_accuracy: float = 0.99

    name: ClassVar[str] = "layerwise"
    source: ClassVar[str] = "Embedded Deep Learning (2019), section 3.2, per-layer fixed point"

    def __post_init__(self) -> None:
        if not 0.0 <= self.relative_accuracy <= 1.0:
            raise ConfigError("layerwise: relative_accuracy must be between 0 and 1")

    def propose(self, problem: SearchProblem) -> Asking:
        space = problem.space
        current = space.uniform(space.high)
        wanted = self.relative_accuracy * problem.float_quality
        order = list(layer_order(space))
        for index in order:
            for name in space.formats[:-1]:
                narrower = space.with_choices(current, {index: Choice(name)})
                trial = yield Ask(narrower, complete=True)
                if trial.quality >= wanted:
                    current = narrower
                    break
        for index in order:  # the limit was no part of the method: demote in the same order until it holds
            if problem.fits(current):
                break
            current = space.with_choices(current, {index: space.low})
        yield Ask(current, complete=True)
        return current


def layer_order(space: Space) -> Iterator[int]:
    """The groups by the first operation that reads them, run-time operands before constants; the others last."""
    group_of = {name: index for index, group in enumerate(space.groups) for name in group.members}
    program = space.lower(space.uniform(space.high))
    seen: set[int] = set()
    for op in walk(program.body):
        names = sorted(op.inputs, key=lambda name: name in program.constants)
        for name in (*names, op.output):
            index = group_of.get(name)
            if index is not None and index not in seen and name != op.output:
                seen.add(index)
                yield index
    yield from (index for index in range(len(space.groups)) if index not in seen)
