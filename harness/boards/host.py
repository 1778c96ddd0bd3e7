"""This computer as a board: the image is a program, its port a pty."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinyhil.harness.boards.connection import Connection, Session
from tinyhil.harness.boards.process import ProcessBoard
from tinyhil.harness.settings.config import BoardSpec


@contextmanager
def connect(board: BoardSpec, session: Session) -> Iterator[Connection]:
    """Start the image; ended when the block is left."""
    with ProcessBoard([str(session.image)], session.log_dir / "host.log", banner_s=0.0) as process:
        yield process
