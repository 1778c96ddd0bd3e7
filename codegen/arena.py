"""Program -> planning problem: the arena tensors with their live ranges."""

from __future__ import annotations

from memplan import Buffer, Problem
from tinyhil.liveness import live_ranges
from tinyhil.program import Program


def problem_of(program: Program) -> Problem:
    """The arena of `program`; offsets are aligned to the element size."""
    return Problem(
        tuple(
            Buffer(item.name, item.size_bytes, item.start, item.end, alignment=item.element_bytes)
            for item in live_ranges(program)
        )
    )
