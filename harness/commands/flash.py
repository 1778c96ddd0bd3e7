"""`hil flash`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say


@click.command()
@option.text("--board", "Board to flash: uno, due, h747, or a name of the bench file; see `hil boards`.", required=True)
@common.model_options
@common.calibrate_options
@common.MODE_OPTION
@common.memory_options
@option.text("--port", "Serial port of the board; default: found by USB identity, else an emulated board.")
@common.bench_options
def flash(boards_file: Path | None, bench_file: Path | None, format_: str, **options: Any) -> None:
    """Build, write into the board, verify, and wait for the HELLO that proves it."""
    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.job.job import Request
    from tinyhil.harness.measure.flash_model import flash_model

    request = Request(format=format_, **options)
    loaded = flash_model(request, read_boards(boards_file, bench_file), default_cache_dir(), say)
    where = loaded.port or "emulated"
    click.echo(f"board          {request.board} ({where})")
    click.echo(f"image          {loaded.image.hash.hex()}, {loaded.image.flash_bytes} B: written, verified, running")
    click.echo(f"file           {loaded.image.load_path}")
    click.echo(f"flash          {loaded.flash_seconds:.2f} s, HELLO after {loaded.hello_seconds:.2f} s more")
