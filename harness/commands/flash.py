"""`hil flash`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.commands.common import (
    ASSIGNMENT_OPTION,
    BENCH_OPTION,
    BOARDS_OPTION,
    FORMAT_OPTION,
    WAIT_OPTION,
    read_boards,
    say,
)


@click.command()
@click.option(
    "--board", required=True, help="Board to flash: uno, due, h747, or a name of the bench file; see `hil boards`."
)
@click.option("--model", required=True, help="Name in the zoo, or path to an .onnx or .dsl file.")
@FORMAT_OPTION
@ASSIGNMENT_OPTION
@click.option("--calibrate", type=click.Path(path_type=Path), help="Inputs to calibrate the ranges on.")
@click.option("--port", help="Serial port of the board; default: found by USB identity, else an emulated board.")
@WAIT_OPTION
@BENCH_OPTION
@BOARDS_OPTION
def flash(boards_file: Path | None, bench_file: Path | None, format_: str, **options: Any) -> None:
    """Build, write into the board, verify, and wait for the HELLO that proves it."""
    from harness.load import flash_model
    from harness.run import Request
    from harness.toolchain import default_cache_dir

    request = Request(format=format_, **options)
    loaded = flash_model(request, read_boards(boards_file, bench_file), default_cache_dir(), say)
    where = loaded.port or "emulated"
    click.echo(f"board          {request.board} ({where})")
    click.echo(f"image          {loaded.image.hash.hex()}, {loaded.image.flash_bytes} B: written, verified, running")
    click.echo(f"flash          {loaded.flash_seconds:.2f} s, HELLO after {loaded.hello_seconds:.2f} s more")
