"""The deepest stack that an image can need, held to what an emulator saw: function by function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tinyhil.harness.boards import host, simulated
from tinyhil.harness.boards.connection import STACKS, Connection, Session
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.stack_depth import bound_bytes, disassemble
from tinyhil.harness.settings.config import BoardSpec


@contextmanager
def connected(board: BoardSpec, image: Image, log_dir: Path) -> Iterator[Connection]:
    """The emulated board with `image`, or the host; on our own emulators, which alone watch stacks, every function that
    ran must have kept to its bound."""
    driver = simulated if board.chip.core != "host" else host
    watched = driver is simulated and board.chip.emulator is not None and board.chip.emulator.kind == "process"
    with driver.connect(board, Session(image.load_path, log_dir, watch_stacks=watched)) as device:
        yield device
    if watched:
        check_stacks(image, board.chip.core, log_dir / STACKS)


def check_stacks(image: Image, core: str, report: Path) -> dict[str, tuple[int, int]]:
    """`report`: a file of the emulator's. Of functions that ran, bytes with all that they called: seen, and at most."""
    code = disassemble(image, core)
    _, depths = bound_bytes(code, core)
    functions, found = depths.functions(), {}
    image_s = range(min(code.lines), max(code.lines) + 1)  # the second stage of an RP2040 runs before, elsewhere
    for line in report.read_text().splitlines():
        address, own, everything = (int(word, 0) for word in line.split())
        if address not in image_s:
            continue
        name, span = code.name_of(address), code.span_of(address)
        if address not in functions and span is not None:
            address = span.start  # a far branch of Thumb-1, which the emulator takes for a call
        assert address in functions, f"{name} at {address:#x} ran and is in no call graph"
        limits = functions[address]
        assert own <= limits[0], f"{name}: {own} B of its own, at most {limits[0]} B"
        assert everything <= limits[1], f"{name}: {everything} B with all that it calls, at most {limits[1]} B"
        found[name] = (everything, limits[1])
    assert found
    return found
