"""`hil boards`."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import BOARDS_OPTION, read_boards


@click.command()
@BOARDS_OPTION
def boards(boards_file: Path | None) -> None:
    """List the known boards and which of them are attached."""
    from harness.boards.attached import find_ports

    for name, board in read_boards(boards_file).entries.items():
        ports = ", ".join(find_ports(board)) or ("emulated" if board.chip.emulator else "always there")
        ram = f"{board.chip.ram_bytes} B RAM" if board.chip.ram_bytes else ""
        click.echo(f"{name:6} {board.title:32} {board.chip.name:11} {ram:13} {ports}")
