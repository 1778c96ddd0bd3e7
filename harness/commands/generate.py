"""`hil generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common
from tinyhil.harness.commands.common import read_boards, say
from tinyhil.preference import BALANCED, Wish


@click.command()
@click.argument("model")
@common.stream_options
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Project folder.")
@common.FORMAT_OPTION
@common.ASSIGNMENT_OPTION
@common.CALIBRATE_OPTION
@common.CALIBRATE_BY_OPTION
@common.prefer_option(BALANCED)
@common.BOARDS_OPTION
def generate(
    model: str,
    out: Path,
    format_: str,
    assignment: Path | None,
    calibrate: Path | None,
    calibrate_by: str,
    prefer: str,
    boards_file: Path | None,
    **states: Any,
) -> None:
    """Write a self-contained PlatformIO project for MODEL, ready for `pio run`."""
    from tinyhil.harness.job import Streamed
    from tinyhil.harness.offline.generate import generate_project

    written, total = generate_project(
        model,
        out,
        (format_, assignment),
        calibrate,
        read_boards(boards_file),
        say,
        Streamed(**states, samples=calibrate),
        Wish(prefer),
        calibrate_by,
    )
    click.echo(f"{out}: {written} of {total} files written", err=True)
