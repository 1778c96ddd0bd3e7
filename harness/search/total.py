"""What of a board's RAM a candidate takes: its arena as the board's core has it, and the model input, which is in
buffers beside the arena or in the arena as its formats decide."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from tinyhil.errors import DoesNotFit, ModelError
from tinyhil.harness.build.pipeline import arranged_for, core_of, passes_left_out
from tinyhil.harness.search.again import PLAN_NODES, Again
from tinyhil.harness.search.request import SearchRequest
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.language.program import Program
from tinyhil.memplan import Budget, plan
from tinyhil.memplan.arena.floor import floor_bytes
from tinyhil.memplan.arena.placement import Placement
from tinyhil.memplan.arena.placement_preference import chosen
from tinyhil.memplan.arena.tensors import problem_of
from tinyhil.memplan.arena.transfer import Transfer, belongs_in_arena, choose_transfer
from tinyhil.passes.row_pairs import for_time
from tinyhil.preference import LEAST, RAM, Wish
from tinyhil.search.memory import Memory
from tinyhil.search.space import Candidate, Choice, Space

IN_ARENA, APART = " of arena, beside stack and static data", " beside the sample, which --ram counts, too"


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


def memory_of(
    space: Space, board: BoardSpec | None, request: SearchRequest, press: Callable[[], None] = lambda: None
) -> Memory:
    """Arenas as the core of the board has them: its kernels may need other scratch than those of other chips. Where
    `--arena` is limited the sample counts nowhere, wherever the board may have it. `press` hears of every plan before
    it is made."""
    ram_bytes, prefer = board.chip.ram_bytes if board is not None else None, request.prefer

    def arranged(program: Program, prefer: str = prefer) -> Program:
        press()
        if board is None:
            return program
        own = program  # crossbars change no tensor, and what they can not hold its costs say
        if board.hardware is None:
            own = for_time(arranged_for(program, board), board.chip.core, prefer)
        return own if request.arena is not None else with_input(own, board, prefer)

    without, core = passes_left_out(board), core_of(board)
    computes_again = request.computes_again and not without

    def at_any_price(program: Program) -> int | None:
        with suppress(DoesNotFit):
            return placed(arranged(program, LEAST), ram_bytes, LEAST, without, core).plan.peak_bytes
        return None

    return Memory(
        space,
        lambda program: placed(arranged(program), ram_bytes, prefer, without, core),
        lambda program: plan(problem_of(arranged(program)), budget=Budget(nodes=PLAN_NODES)),  # without passes
        lambda program: floor_bytes(arranged(program), again=prefer == LEAST),
        Again(arranged, request.more_time / 100, core) if computes_again else None,
        option="--ram" if request.arena is None else "--arena",
        beside="" if ram_bytes is None else IN_ARENA if request.arena is None else APART,
        at_any_price=at_any_price if prefer != LEAST and not request.also else None,
    )


def placed(
    program: Program, ram_bytes: int | None, prefer: str, without: Collection[str] = (), core: str = ""
) -> Placement:
    """The arena as `hil run` plans it: bounds first, then simple planners, then a short exact search."""
    return chosen(program, Wish(prefer), ram_bytes, without, budget=Budget(nodes=PLAN_NODES), core=core)
