"""Which tensors the body of a DSL loop reads row by row: every x[t] and x[:, t] in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass

from tinyhil.frontend import syntax

Resolve = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Row:
    """A tensor outside of the loop and the axis along which it is read."""

    source: str
    axis: int

    def describe(self) -> str:
        """The name of the row inside the loop's body."""
        return f"{self.source}_row"


def rows_read(loop: syntax.Loop, resolve: Resolve) -> Iterator[Row]:
    """The rows read by the loop's step, in order; `resolve` gives the tensor a name stands for outside."""
    yield from _in(loop.body, loop.variable, resolve)


def _in(item: object, variable: str, resolve: Resolve) -> Iterator[Row]:
    if isinstance(item, syntax.Indexed) and isinstance(item.operand, syntax.Name):
        source = resolve(item.operand.name)
        for axis, index in enumerate(item.indices):
            by_step = isinstance(index.start, syntax.Name) and index.start.name == variable
            if by_step and source is not None and index.length in (None, 1):
                yield Row(source, axis)
    if isinstance(item, (syntax.Loop, syntax.Sum)) and item.variable == variable:
        return  # another variable of the same name
    if isinstance(item, tuple):
        for part in item:
            yield from _in(part, variable, resolve)
    elif is_dataclass(item) and not isinstance(item, syntax.Literal):
        for place in fields(item):
            yield from _in(getattr(item, place.name), variable, resolve)
