"""Whether the firmware of a search's answer fits the board it is for."""

from __future__ import annotations

from pathlib import Path

from tinyhil.errors import DoesNotFit
from tinyhil.harness.build.board_image import build_firmware, compile_for
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.stack_depth import stack_bound
from tinyhil.harness.search.task import Task
from tinyhil.search.trial import Trial


def require_fit(task: Task, trial: Trial, assignment: Path) -> Image:
    """Build it and say in one line what it takes. DoesNotFit says where the assignment is nevertheless."""
    board, boards = task.board, task.boards
    assert board is not None
    assert boards is not None
    try:
        chosen = task.problem.space.assignment(trial.candidate)
        wish = task.wish(trial)
        compiled = compile_for(board, boards, task.opened.model, chosen, task.ranges, wish)
        image = build_firmware(compiled, board, cache_dir=task.cache_dir, log=lambda line: None)
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


def ram_of(task: Task, image: Image) -> int | None:
    """Bytes of all RAM that an image needs on the task's board, as a run there finds: static data, and the stack as
    deep as it can be; None where that is not known."""
    stack = None if task.board is None else stack_bound(image, task.board.chip.core).limit_bytes
    return None if stack is None else image.static_bytes + stack
