"""`hil boards`."""

from __future__ import annotations

from pathlib import Path

import click

from harness.commands.common import BOARDS_OPTION, read_boards


@click.command()
@click.option("--truth", is_flag=True, help="Say what the numbers of each board and emulator mean.")
@BOARDS_OPTION
def boards(boards_file: Path | None, truth: bool) -> None:
    """List the known boards and which of them are attached."""
    from harness.boards.attached import find_ports

    if truth:
        from harness.truth import statements

        for line in statements(read_boards(boards_file)):
            click.echo(line)
        return
    for name, board in read_boards(boards_file).entries.items():
        ports = ", ".join(find_ports(board)) or ("emulated" if board.chip.emulator else "always there")
        ram = f"{board.chip.ram_bytes} B RAM" if board.chip.ram_bytes else ""
        click.echo(f"{name:6} {board.title:32} {board.chip.name:11} {ram:13} {ports}")
