"""Whether an exported library leaves its board room for a program around it: one line where it leaves little."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tinyhil.codegen.exported_library import Library
from tinyhil.errors import BuildError, DoesNotFit
from tinyhil.harness.offline.export_sizes import predict_sizes
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.preference import BALANCED, LATENCY, LEAST, RAM

LITTLE = 0.1  # of a memory
HOPELESS = 4  # times the room
REAL_BYTES = 4
# From the most RAM to the least
BY_RAM = (LATENCY, BALANCED, RAM, LEAST)


@dataclass(frozen=True, slots=True)
class Beside:
    """Bytes that a sketch has beside its library: Arduino's main, `millis`, `analogRead` and `Serial`."""

    ram_bytes: int = 0
    flash_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """What there is to `said`, empty where enough is left; `exceeded`: a memory does not hold it."""

    said: str = ""
    exceeded: bool = False


# Of Debian's arduino-core-avr 1.8.4; tests/test_export_boards.py holds sketches to it
ARDUINO_CORE = {"avr": Beside(216, 2600)}


def little_room(
    library: Library,
    board: BoardSpec,
    sources: Mapping[str, str],
    prefer: str | None,
    arena_bytes: Callable[[str], int],
    *,
    is_sketch: bool,
) -> Room:
    """What is left beside a program that only calls `predict`, and holds its numbers: enough where that is a tenth of
    RAM and of flash, and the stack's part.

    `prefer`: what it was planned by; None: by `--ram`. `arena_bytes`: of the library under another `--prefer`,
    DoesNotFit where none is. Flash is judged where the core's compiler is here.
    """
    if board.chip.ram_bytes is None:
        return Room()
    beside = ARDUINO_CORE.get(board.chip.core, Beside()) if is_sketch else Beside()
    reals = (library.row_count if library.loop else library.input.count) + library.output.count
    around_bytes, total = REAL_BYTES * reals + beside.ram_bytes, board.chip.ram_bytes
    room_bytes = total - around_bytes - int(max(LITTLE * total, board.chip.stack_reserve_bytes or 0))
    if library.predict_bytes > room_bytes:
        core = f", Arduino's core {beside.ram_bytes}" if beside.ram_bytes else ""
        parts = f"arena {library.predict_bytes:,}, numbers in and out {REAL_BYTES * reals:,}{core}"
        remedy = _less_ram(library, board, room_bytes, prefer, arena_bytes)
        return _left(board, "RAM", library.predict_bytes + around_bytes, total, parts, remedy)
    return _little_flash(library, board, sources, beside)


def _little_flash(library: Library, board: BoardSpec, sources: Mapping[str, str], beside: Beside) -> Room:
    total, narrower = board.chip.flash_bytes or 0, _narrower(board, "flash")
    try:
        sizes = predict_sizes(library, sources, board.chip.core)
    except BuildError as error:
        return Room(f"{board.name}: {error}; {narrower}")
    used_bytes = 0 if sizes is None else sizes.flash_bytes + beside.flash_bytes
    if total - used_bytes < LITTLE * total:
        return _left(board, "flash", used_bytes, total, "weights and code", narrower)
    return Room()


def _left(board: BoardSpec, memory: str, used_bytes: int, total: int, parts: str, remedy: str) -> Room:
    if used_bytes > total:
        said = f"{board.name}: too large: {used_bytes:,} B of {total:,} B {memory} ({parts}); {remedy}"
        return Room(said, exceeded=True)
    whose = " for the stack and variables of yours" if memory == "RAM" else ""
    return Room(f"{board.name}: {total - used_bytes:,} B of {total:,} B {memory} are left{whose} ({parts}); {remedy}")


def _less_ram(
    library: Library, board: BoardSpec, room_bytes: int, prefer: str | None, arena_bytes: Callable[[str], int]
) -> str:
    """The first `--prefer` that leaves room, else what takes least; none is tried for what no schedule will bring into
    this board."""
    if prefer is None:
        return f"a smaller --ram, or {_narrower(board, 'ram')}"
    least: tuple[int, str] | None = None
    below = BY_RAM[max(BY_RAM.index(prefer) + 1, BY_RAM.index(RAM)) :]
    for other in below if library.predict_bytes < HOPELESS * room_bytes else ():
        with suppress(DoesNotFit):
            found_bytes = arena_bytes(other)
            if found_bytes <= room_bytes:
                return f"--prefer {other} takes {library.predict_bytes - found_bytes:,} B less"
            if found_bytes < (library.predict_bytes if least is None else least[0]):
                least = found_bytes, other
    narrower = _narrower(board, "ram")
    if least is None:
        return narrower
    return f"--prefer {least[1]} takes {library.predict_bytes - least[0]:,} B less, and {narrower}"


def _narrower(board: BoardSpec, resource: str) -> str:
    return f"a narrower --format, or `hil search --{resource} BYTES` for this board, takes less"
