"""Where a board has the model input, as its formats decide: in buffers beside the arena, or in the arena."""

from __future__ import annotations

from collections.abc import Callable

from tinyhil.errors import DoesNotFit, ModelError
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.program import Program
from tinyhil.memplan.arena.transfer import Transfer, belongs_in_arena, choose_transfer
from tinyhil.preference import RAM, Wish
from tinyhil.search.memory import Memory
from tinyhil.search.space import Candidate, Choice


def with_input(program: Program, board: BoardSpec, prefer: str) -> Program:
    """The program with the sample in the arena, where the board has it there."""
    try:
        beside = _transfer(program, board, prefer)
    except DoesNotFit:
        beside = None
    return program.with_input_in_arena() if belongs_in_arena(program, beside) else program


def _transfer(program: Program, board: BoardSpec, prefer: str) -> Transfer:
    return choose_transfer(program, 0, board.chip.ram_bytes, board.name, Wish(prefer))


def wider_input(memory: Memory, board: BoardSpec, prefer: str = RAM) -> Callable[[Candidate], int]:
    """By how many bytes the input's buffers exceed those of the narrowest formats, which the board shows.

    What cannot be lowered costs nothing here: it does not fit anyway.
    """
    space = memory.space
    index = next(number for number, group in enumerate(space.groups) if space.graph.inputs[0] in group.members)
    known: dict[Choice, int] = {}

    def taken(candidate: Candidate) -> int:
        choice = candidate[index]
        if choice not in known:
            program = space.lower(candidate)
            transfer = _transfer(program, board, prefer)
            known[choice] = 0 if belongs_in_arena(program, transfer) else transfer.input_bytes
        return known[choice]

    least = taken(memory.least())

    def beside(candidate: Candidate) -> int:
        try:
            return taken(candidate) - least
        except DoesNotFit:
            return board.chip.ram_bytes or 0
        except ModelError:
            return 0

    return beside
