"""A model as the firmware of one board: compiled for it, built, and held against the chip and against its plan."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import DoesNotFit
from tinyhil.frontend.listing import Model
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import Image, check_arena, check_fits, misplaced_bytes
from tinyhil.harness.build.pipeline import Compiled, compile_model
from tinyhil.harness.build.weights import ADVICE
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.language.assignment import Assignment
from tinyhil.memplan.arena.regions import arrays
from tinyhil.notice import Say
from tinyhil.preference import Wish


def compile_for(
    board: BoardSpec,
    boards: Boards,
    model: Model,
    assignment: Assignment,
    ranges: Ranges,
    wish: Wish | None = None,
    without: Collection[str] = (),
) -> Compiled:
    """The sources of the project of all `boards`, whose image for `board` is wanted; DoesNotFit if it has no room.
    `without`: names of passes to leave out."""
    return compile_model(model, assignment, ranges, list(boards.entries.values()), {board.name}, without, wish)


def build_firmware(compiled: Compiled, board: BoardSpec, *, cache_dir: Path, log: Say) -> Image:
    """The image. BuildError if a compiler refuses it or links another arena than the plan's; DoesNotFit if the chip is
    too small for it."""
    try:
        image = build(compiled.sources, board, cache_dir=cache_dir, log=log)
        check_fits(image, board)
    except DoesNotFit as error:
        raise DoesNotFit(error.what, error.over, f"{ADVICE} or a larger board") from None
    if compiled.plan.peak_bytes:  # an arena that nobody uses is not linked
        check_arena(image, arrays(compiled.plan))
    hot = board.chip.hot
    if hot is not None and (slow_bytes := misplaced_bytes(image.elf)):
        where = hot.region or "RAM"
        log(f"{board.name}: {slow_bytes} B of constants have no room in {where} after all: slower from flash")
    return image
