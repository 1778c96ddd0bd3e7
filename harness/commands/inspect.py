"""`hil inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common, option


@click.command()
@click.argument("model")
@option.text("--after", "What this pass made of it; see hil plan --passes.", type=common.PassName())
@option.text("--board", "With --after: the board whose core and memory it is compiled for.")
@common.format_options
@common.stream_options
@common.BOARDS_OPTION
def inspect(
    model: str,
    after: str | None,
    board: str | None,
    format_: str,
    assignment: Path | None,
    boards_file: Path | None,
    **streamed: Any,
) -> None:
    """List the operations and values of MODEL, with shapes: the names an assignment file may use."""
    from tinyhil.harness.job.job import Streamed
    from tinyhil.harness.offline.inspect import Wanted, described

    boards = common.boards_for(board, boards_file)
    spec = None if board is None or boards is None else boards.board(board)
    for line in described(Wanted(model, after, format_, assignment, Streamed(**streamed)), spec, common.say):
        click.echo(line)
