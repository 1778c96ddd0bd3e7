"""What several commands share: their common options, how they speak, the table of boards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.config import Boards

BOARDS_OPTION = click.option("--boards-file", type=click.Path(path_type=Path), help="Use this instead of boards.yaml.")


def read_boards(path: Path | None) -> Boards:
    """The boards of `path`, or of the boards.yaml at hand."""
    from harness.config import load_boards

    return load_boards(path)


def say(line: str) -> None:
    """Tell the user what is going on: a line on stderr, so that stdout stays the result alone."""
    click.echo(line, err=True)
