"""A conversation with a board that runs an image: connected, greeted, and known to run just this one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from tinyhil.errors import BoardError, LinkError
from tinyhil.harness.boards import attached, host, simulated
from tinyhil.harness.boards.connection import Connection, Session
from tinyhil.harness.boards.flash import flash, runs
from tinyhil.harness.build.compile import cache_full
from tinyhil.harness.build.image import Image
from tinyhil.harness.job.job import Request
from tinyhil.harness.measure.crash import explain_crash
from tinyhil.harness.settings.config import BoardSpec
from tinyhil.harness.wire.deadline import Starved
from tinyhil.harness.wire.link import Link
from tinyhil.harness.wire.protocol import Hello
from tinyhil.harness.wire.stream import check_identity, greet, hear
from tinyhil.notice import Say

L = TypeVar("L", bound=Link)


def flash_unless_running(image: Image, board: BoardSpec, port: str, say: Say) -> None:
    """Flash the board on `port` unless it says HELLO with this image's hash."""
    if runs(image, board, port):
        say(f"{board.name}: {port} runs this image already")
        return
    say(f"{board.name}: flashing {port}")
    with log_folder(image.project_dir) as logs:
        flash(image, board, port, logs / "flash.log")


def connect(
    board: BoardSpec, port: str | None, request: Request, image: Image, logs: Path, *, foreign: bool = False
) -> AbstractContextManager[Connection]:
    """The board behind `port`, else this computer or an emulator, of whatever kind (simulated.DRIVERS); `foreign`: with
    firmware that is not ours."""
    session = Session(image.load_path, logs, request.uart, request.realtime, image.static_bytes, foreign=foreign)
    if board.is_host:
        return host.connect(board, session)
    if port is None and request.load == "flash":
        return simulated.connect_flashed(board, session, image)
    return simulated.connect(board, session) if port is None else attached.connect(board, port)


@contextmanager
def talk(
    device: Connection, board: BoardSpec, image: Image, timeout_s: float, over: Callable[[str, int, Starved], L]
) -> Iterator[tuple[L, Hello]]:
    """A link to `device`, made by `over`, and what the board said of itself. LinkError if it says nothing in time, or
    later, when it has died; WrongFirmware unless it is `image` that runs there."""
    with (
        explain_crash(image, board),
        _blame_the_dead(device),
        over(device.port, board.baud, device.starved_s) as link,
    ):
        hello = greet(link, timeout_s, device.banner_s, device.alive)
        check_identity(hello, image.hash, device.port)
        yield link, hello


@contextmanager
def log_folder(project: Path) -> Iterator[Path]:
    """A folder of this session alone; it stays if the session fails, because messages name the logs in it."""
    try:
        (project / "logs").mkdir(exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=project / "logs"))
    except OSError as error:
        raise cache_full(project, error) from None
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _blame_the_dead(device: Connection) -> Iterator[None]:
    """A link that fails, or can not be opened, because the board died is reported as the board's death."""
    try:
        yield
    except (BoardError, LinkError):
        hear(device.alive)  # a process that ends closes its port a moment before it is gone
        raise
