"""Whether the firmware of a search's answer fits the board it is for."""

from __future__ import annotations

from pathlib import Path

from tinyhil.errors import DoesNotFit
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import Image, check_arena, check_fits
from tinyhil.harness.build.pipeline import compile_model
from tinyhil.harness.measure.weights import check_weights
from tinyhil.harness.search.task import Task
from tinyhil.memplan.arena.regions import arrays
from tinyhil.preference import Wish
from tinyhil.search.space import Candidate


def require_fit(task: Task, candidate: Candidate, assignment: Path) -> Image:
    """Build it and say in one line what it takes. DoesNotFit says where the assignment is nevertheless."""
    board, boards = task.board, task.boards
    assert board is not None
    assert boards is not None
    try:
        chosen = task.problem.space.assignment(candidate)
        every, wish = list(boards.entries.values()), Wish(task.request.prefer)
        compiled = compile_model(task.opened.model, chosen, task.ranges, every, {board.name}, wish=wish)
        check_weights(compiled.program, board)
        image = build(compiled.sources, board, cache_dir=task.cache_dir, log=lambda line: None)
        check_fits(image, board)
        if compiled.plan.peak_bytes:
            check_arena(image, arrays(compiled.plan))
    except DoesNotFit as error:
        raise DoesNotFit(
            f"{error}; the assignment is in {assignment}; try a smaller --ram, or a larger board"
        ) from None
    chip = board.chip
    flash = f"{image.flash_bytes:,} B" + (f" of {chip.flash_bytes:,} B" if chip.flash_bytes else "")
    room = chip.static_ram_bytes
    static = f"{image.static_bytes:,} B" + (f" of {room:,} B" if room else "")
    task.say(f"search: the firmware fits {board.name}: {flash} of flash, {static} of static RAM")
    return image
