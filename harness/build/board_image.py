"""A model as the firmware of one board: compiled for it, built, and held against the chip and against its plan."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from tinyhil.compiler.calibrate import Ranges
from tinyhil.errors import DoesNotFit
from tinyhil.frontend.listing import Model
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import Image, check_arena, check_fits, misplaced_bytes
from tinyhil.harness.build.pipeline import Compiled, compile_model, place_for
from tinyhil.harness.build.weights import ADVICE
from tinyhil.harness.settings.config import Boards, BoardSpec
from tinyhil.language.assignment import Assignment
from tinyhil.memplan.arena.regions import arrays
from tinyhil.notice import Say
from tinyhil.preference import RAM, Wish


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
    too small for it, with what to try."""
    try:
        image = build(compiled.sources, board, cache_dir=cache_dir, log=log)
        check_fits(image, board)
    except DoesNotFit as error:
        raise DoesNotFit(f"{error}; {_remedy(compiled, board, error)}", error.over) from None
    if compiled.plan.peak_bytes:  # an arena that nobody uses is not linked
        check_arena(image, arrays(compiled.plan))
    hot = board.chip.hot
    if hot is not None and (slow_bytes := misplaced_bytes(image.elf)):
        where = hot.region or "RAM"
        log(f"{board.name}: {slow_bytes} B of constants have no room in {where} after all: slower from flash")
    return image


def _remedy(compiled: Compiled, board: BoardSpec, error: DoesNotFit) -> str:
    """Of RAM, the limit of arena and input that leaves what is beside them its room."""
    region, over_bytes = error.over or ("flash", 0)
    transfer = compiled.transfers.get(board.name)
    taken = compiled.plan.peak_bytes + (0 if transfer is None else transfer.input_bytes)
    left = taken - over_bytes
    chip = board.chip  # of the user's, perhaps: other reserves are those of chips that ship
    less = f", or less than {chip.stack_reserve_bytes} as stack_reserve_bytes of {chip.name}"
    own = less if chip.like and region == "RAM" else ""
    with suppress(DoesNotFit):  # no schedule takes so little
        if region == "RAM" and left > 0:
            place_for(compiled.lowered, board, Wish(ram_bytes=left))
            other = ", or --prefer ram" if _saved(compiled, board, taken) >= over_bytes else ""
            return f"try --ram {left}{other}, a lower width or a larger board{own}"
    with suppress(DoesNotFit):
        saved = _saved(compiled, board, taken) if region == "RAM" else 0
        if saved > 0:
            enough = "" if saved >= over_bytes else f" (it may not do: {over_bytes} B are missing)"
            return f"try --prefer ram, which takes {saved} B or more less{enough}; {ADVICE} or a larger board{own}"
    return f"{ADVICE} or a larger board{own}"


def _saved(compiled: Compiled, board: BoardSpec, taken: int) -> int:
    """Bytes of arena and input that the plan for the least RAM takes less than those `taken`."""
    placed, least = place_for(compiled.lowered, board, Wish(RAM))
    return taken - placed.plan.peak_bytes - least.input_bytes
