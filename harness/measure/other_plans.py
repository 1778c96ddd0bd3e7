"""What a run is told whose firmware takes too much RAM or flash: which other plans of the same formats fit the board,
each built and held against the chip with the deepest stack that its image can need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tinyhil.errors import BuildError, DoesNotFit
from tinyhil.harness.build.compile import build
from tinyhil.harness.build.image import Image, check_fits
from tinyhil.harness.build.pipeline import Compiled
from tinyhil.harness.build.platformio import MANIFESTS, manifest
from tinyhil.harness.build.stack_depth import stack_bound
from tinyhil.harness.build.weights import ADVICE
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.preference import BALANCED, LEAST, RAM, Wish

MOST_LIMITS = 3  # each lower by what the one before takes too much

Made = Callable[[Wish], Compiled]


@dataclass(frozen=True, slots=True)
class Tried:
    """Another plan, as it was built; `option` is empty for that of the run. `reserve_bytes`: for the stack, with which
    it links."""

    option: str
    flash_bytes: int
    static_bytes: int
    stack_bytes: int
    reserve_bytes: int

    @property
    def total_bytes(self) -> int:
        """At worst."""
        return self.static_bytes + self.stack_bytes

    def __str__(self) -> str:
        return f"{self.static_bytes} B static + {self.stack_bytes} B of stack at worst"


@contextmanager
def naming_what_fits(wish: Wish, compiled: Compiled, board: BoardSpec, made: Made, cache_dir: Path) -> Iterator[None]:
    """A DoesNotFit leaves with the remedies that were found to work; for lack of RAM also with the least that was
    found.

    `made` compiles the model as another wish plans it.
    """
    try:
        yield
    except DoesNotFit as error:
        if error.over is None:
            raise
        if error.over[0] == "flash":
            remedy = _of_flash(wish, board, made, cache_dir)
            if not remedy:
                raise
            raise DoesNotFit(error.what, error.over, remedy) from None
        transfer = compiled.transfers.get(board.name)
        taken = compiled.plan.peak_bytes + (0 if transfer is None else transfer.input_bytes)
        tried = list(_plans(wish, taken - error.over[1], board, made, cache_dir))
        raise DoesNotFit(error.what, error.over, _remedy(tried, board)) from None


def _remedy(tried: list[Tried], board: BoardSpec) -> str:
    """What of them to type: what fits, else what does with a smaller reserve where that is the user's own, else why
    formats have to take less."""
    chip, otherwise = board.chip, f"{ADVICE} or a larger board"
    ram_bytes = chip.ram_bytes
    if ram_bytes is None or not tried:
        return otherwise
    lasting = [one for one in tried if one.total_bytes <= ram_bytes]
    if fitting := [one for one in lasting if one.reserve_bytes == chip.stack_reserve_bytes]:
        one, *others = fitting
        also = [other.option for other in others if other.total_bytes < one.total_bytes]
        less = f" ({also[0]} takes less)" if also else ""
        return f"try {one.option}, with which it takes {one} of {ram_bytes} B{less}; else {otherwise}"
    if lasting:  # of a chip of the user's: other reserves are those of chips that ship
        one = lasting[0]
        how = f"{one.option} and {one.reserve_bytes}" if one.option else f"{one.reserve_bytes}"
        reserve = f"as stack_reserve_bytes of {chip.name}, not {chip.stack_reserve_bytes}"
        return f"try {how} {reserve}: it takes {one} of {ram_bytes} B; else {otherwise}"
    least = min(tried, key=lambda one: one.total_bytes)
    by = f" ({least.option})" if least.option else ""
    return f"no plan of these formats was found that fits, the least takes {least}{by}; {otherwise}"


def _of_flash(wish: Wish, board: BoardSpec, made: Made, cache_dir: Path) -> str:
    """Which preference fits: rows take code, a plan for time may take more RAM than there is. Empty if none does."""
    usual, chip = replace(wish, ram_bytes=None, arena_bytes=None), board.chip
    others = [prefer for prefer in (RAM, BALANCED) if replace(usual, prefer=prefer) != wish]
    for prefer in others:
        one = _tried(f"--prefer {prefer}", replace(usual, prefer=prefer), board, made, cache_dir)
        if one is None or one.total_bytes > (chip.ram_bytes or one.total_bytes):
            continue
        if one.flash_bytes <= (chip.flash_bytes or one.flash_bytes) and one.reserve_bytes == chip.stack_reserve_bytes:
            takes = f"with which it takes {one.flash_bytes} B of flash"
            return f"try {one.option}, {takes}; else {ADVICE} or a larger board"
    return ""


def _plans(wish: Wish, left_bytes: int, board: BoardSpec, made: Made, cache_dir: Path) -> Iterator[Tried]:
    """The run's own, that of the least arena by rows, those within ever less RAM, from `left_bytes` of arena and input
    on, and that of the smallest arena; not what does not link."""
    usual = replace(wish, ram_bytes=None)
    asked = wish.ram_bytes is not None or wish.arena_bytes is not None
    options = {"": wish}
    if asked or wish.prefer != RAM:
        options["--prefer ram"] = replace(usual, prefer=RAM, arena_bytes=None)
    yield from (one for name, other in options.items() if (one := _tried(name, other, board, made, cache_dir)))
    for _ in range(MOST_LIMITS):
        if left_bytes <= 0:
            break
        one = _tried(f"--ram {left_bytes}", replace(usual, ram_bytes=left_bytes), board, made, cache_dir)
        if one is None:
            break
        yield one
        too_much = one.total_bytes - (board.chip.ram_bytes or one.total_bytes)
        if too_much <= 0:
            break
        left_bytes -= too_much
    if asked or wish.prefer != LEAST:
        least = replace(usual, prefer=LEAST, arena_bytes=None)
        yield from filter(None, [_tried("--prefer least", least, board, made, cache_dir)])


def _tried(option: str, wish: Wish, board: BoardSpec, made: Made, cache_dir: Path) -> Tried | None:
    """None where no such plan is, its image is not built, or does not link, on a chip of the user's with any reserve
    for the stack, or nobody knows how deep that is."""
    reserve_bytes = board.chip.stack_reserve_bytes or 0
    with suppress(BuildError):
        sources = made(wish).sources
        try:
            image = _linked(sources, board, reserve_bytes, cache_dir)
        except DoesNotFit as error:
            if not board.chip.like or error.over is None or error.over[0] != "RAM" or error.over[1] >= reserve_bytes:
                return None
            reserve_bytes -= error.over[1]
            image = _linked(sources, board, reserve_bytes, cache_dir)
        bound = stack_bound(image, board.chip.core).limit_bytes
        return None if bound is None else Tried(option, image.flash_bytes, image.static_bytes, bound, reserve_bytes)
    return None


def _linked(sources: Mapping[str, str | bytes], board: BoardSpec, reserve_bytes: int, cache_dir: Path) -> Image:
    """The image with so much left for the stack; DoesNotFit."""
    chip = board.chip.model_copy(update={"stack_reserve_bytes": reserve_bytes})
    other = board.model_copy(update={"chip": chip})
    sources = {**sources, f"{MANIFESTS}/{board.name}.json": manifest(other)}
    image = build(sources, other, cache_dir=cache_dir, log=lambda line: None)
    check_fits(image, other)
    return image
