"""A board made of software: an emulator program that runs the real image and offers a pty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.assets import asset, in_checkout
from harness.boards.connection import Connection, Session
from harness.boards.process import ProcessBoard
from harness.config import BoardSpec, ChipSpec
from tinyhil.errors import BoardError

BANNER_S = 2.0


@contextmanager
def connect(board: BoardSpec, session: Session) -> Iterator[Connection]:
    """Start the emulator of the board's chip; ended when the block is left."""
    program = emulator_program(board.chip)
    emulator = board.chip.emulator
    assert emulator is not None
    with tempfile.TemporaryDirectory(prefix="hil-") as folder:
        values = {"image": session.image, "link": Path(folder) / board.name, "trace": session.log_dir / "trace.txt"}
        command = [str(program), *(arg.format(**values) for arg in emulator.args), "--uart", session.uart]
        if session.realtime:
            command.append("--realtime")
        process = ProcessBoard(command, session.log_dir / "emulator.log", BANNER_S)
        try:
            yield process
        finally:
            process.close()


def emulator_program(chip: ChipSpec) -> Path:
    """The compiled emulator of `chip`; BoardError says how to get it."""
    if chip.emulator is None:
        raise BoardError(f"{chip.name} has no emulator; attach a board or use --board host")
    relative = Path(chip.emulator.program)
    program = asset(relative.parts[0]).joinpath(*relative.parts[1:])
    if not program.is_file():
        how = "run `make setup`" if in_checkout() else f"compile it: make -C {program.parent.parent}"
        raise BoardError(f"the emulator of {chip.name} is not compiled ({program}); {how}")
    return program
