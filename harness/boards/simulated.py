"""A board made of software: an emulator program that runs the real image and offers a pty."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tinyhil.errors import BoardError
from tinyhil.harness.boards import qemu, renode
from tinyhil.harness.boards.boot_loader import check_source, optiboot
from tinyhil.harness.boards.connection import LINES, PINS, STACKS, Connection, Session
from tinyhil.harness.boards.flash import NoAnswer, flash, required_tool
from tinyhil.harness.boards.process import ProcessBoard
from tinyhil.harness.build.emulators import compiled_emulator
from tinyhil.harness.build.image import Image
from tinyhil.harness.build.toolchain import default_cache_dir
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.settings.emulator_entry import filled
from tinyhil.native import to_stderr

BANNER_S = 2.0
FLASH_ATTEMPTS = 8  # the boot loader is certainly there: a programmer that misses its second got no processor
EMULATED_FLASH_DEADLINE_S = 600
FLASHED_BANNER_S = 2.5  # a boot loader may wait a second for a programmer
DRIVERS = {"qemu": qemu.connect, "renode": renode.connect}  # kinds of emulator that are not programs of ours


@contextmanager
def connect(board: BoardSpec, session: Session) -> Iterator[Connection]:
    """Start the emulator of the board's chip with the image in its flash; ended when the block is left."""
    emulator = board.chip.emulator
    if emulator is not None and emulator.kind in DRIVERS:
        with DRIVERS[emulator.kind](board, session) as device:
            yield device
        return
    args = () if emulator is None else (emulator.foreign_args if session.foreign else ()) or emulator.args
    with _start(board, session, args, BANNER_S) as process:
        yield process


@contextmanager
def connect_flashed(board: BoardSpec, session: Session, image: Image) -> Iterator[Connection]:
    """Start the emulator erased, in its boot loader, and flash the image as into a real board.

    BoardError without an emulator or a boot loader in it.
    """
    emulator = board.chip.emulator
    check_loader(board)
    if emulator is None:
        raise BoardError(f"{board.chip.name} has no emulator; attach a board or use --board host")
    banner_s = FLASHED_BANNER_S if board.reset == "on_open" else 0.0
    changes = {
        "upload": emulator.upload_of(board.upload),
        "upload_port": None,
        "flash_deadline_s": EMULATED_FLASH_DEADLINE_S,
    }
    log = session.log_dir / "flash.log"
    for _ in range(FLASH_ATTEMPTS):
        with ExitStack() as stack:
            process = stack.enter_context(_start(board, session, emulator.loader_args, banner_s))
            try:
                flash(image, board.model_copy(update=changes), process.port, log, process.drives)
            except NoAnswer:
                continue
            yield process
            return
    raise BoardError(
        f"{board.name}: the emulated boot loader was missed {FLASH_ATTEMPTS} times, this computer is busy; "
        f"run with --load direct, or later; log: {log}"
    )


def check_loader(board: BoardSpec) -> None:
    """BoardError if the board is emulated without a boot loader."""
    emulator = board.chip.emulator
    if emulator is not None and not emulator.has_loader(board.upload):
        raise BoardError(
            f"{board.name}: its emulator has no boot loader to flash through; `hil run --load direct` does without"
        )


def check_flasher(board: BoardSpec) -> None:
    """FlashError if the emulated board can not be flashed for want of a program."""
    emulator = board.chip.emulator
    if emulator is not None and emulator.has_loader(board.upload):
        required_tool(board.name, emulator.upload_of(board.upload))
        if any("{boot_loader}" in arg for arg in emulator.loader_args):
            check_source()


@contextmanager
def _start(board: BoardSpec, session: Session, args: tuple[str, ...], banner_s: float) -> Iterator[ProcessBoard]:
    program = compiled_emulator(board.chip, default_cache_dir(), to_stderr)
    with tempfile.TemporaryDirectory(prefix="hil-") as folder:
        drive = Path(folder) / "drive"
        drive.mkdir()
        values = {
            "drive": drive,
            "chip": board.chip.emulated_as,
            "supply": board.supply or next(iter(board.chip.supplies), None) or "",
            "image": session.image,
            "static_bytes": session.static_bytes,
            "link": Path(folder) / board.name,
            "trace": session.log_dir / "trace.txt",
            "flash_file": Path(folder) / "flash",
            "boot_loader": optiboot(default_cache_dir()) if "{boot_loader}" in args else "",
        }
        command = [str(program), *filled(args, values), "--uart", session.uart]
        if session.realtime:
            command.append("--realtime")
        if session.keeps_running and board.reset != "on_open":
            command.append("--no-autoreset")
        if session.watch_pins:
            command += ["--pins", str(session.log_dir / PINS)]
        if session.watch_lines:
            command += ["--lines", str(session.log_dir / LINES)]
        if session.budget is not None:
            command += ["--budget", str(session.budget)]
        if session.watch_stacks:
            command += ["--stacks", str(session.log_dir / STACKS)]
        with ProcessBoard(command, session.log_dir / "emulator.log", banner_s, (drive,)) as process:
            yield process
