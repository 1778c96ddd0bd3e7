"""Weights against the flash of a board: before anything is computed, and exactly once the program is known."""

from __future__ import annotations

import numpy as np

from tinyhil.errors import DoesNotFit
from tinyhil.formats import named
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.assignment import Assignment
from tinyhil.language.graph import Graph
from tinyhil.language.program import Program, Role
from tinyhil.passes.stored import bytes_in_flash

# Zeros may be left out, and so may channels that are constant whatever the input is (six of seven weights of one
# published network): what is this many times the flash fits in no way.
SPARE = 16
ADVICE = "use a lower width (`hil search` looks for formats that fit)"


def weigh(graph: Graph, assignment: Assignment, board: BoardSpec) -> None:
    """DoesNotFit if the weights that are not zero exceed the flash many times over; needs nothing but the model."""
    limit = board.chip.flash_bytes
    if limit is None:
        return
    sizes = {}
    for name, array in graph.all_constants().items():
        bits = 8 if name in graph.steps else named(assignment.format_of((name,))).bits
        sizes[name] = -(-int(np.count_nonzero(array)) * bits // 8)
    if sum(sizes.values()) > SPARE * limit:
        raise _too_much(sizes, limit, board)


def check_weights(program: Program, board: BoardSpec) -> None:
    """DoesNotFit if the weights alone exceed the flash: said before a compiler stumbles over them."""
    limit = board.chip.flash_bytes
    stored = [tensor for tensor in program.tensors.values() if tensor.role in (Role.CONSTANT, Role.TABLE)]
    sizes = {tensor.name: bytes_in_flash(tensor) for tensor in stored}
    if limit is not None and sum(sizes.values()) > limit:
        raise _too_much(sizes, limit, board)


def _too_much(sizes: dict[str, int], limit: int, board: BoardSpec) -> DoesNotFit:
    total, order = sum(sizes.values()), sorted(sizes, key=lambda name: -sizes[name])
    largest = ", ".join(f"{name} {sizes[name]} B" for name in order[:3])
    return DoesNotFit(
        f"{board.name}: weights {total} B > {limit} B of flash, {total - limit} B too much; "
        f"largest {largest}; {ADVICE} or a larger board"
    )
