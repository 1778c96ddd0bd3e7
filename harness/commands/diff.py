"""`hil diff`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands import common
from tinyhil.harness.commands.common import read_boards, say


@click.command()
@click.option("--board", required=True, help="Board to compare with this computer, named as for `hil run`.")
@common.MODEL_OPTION
@common.stream_options
@common.then_options
@common.FORMAT_OPTION
@common.ASSIGNMENT_OPTION
@common.INPUTS_OPTION
@common.calibrate_options
@common.prefer_option()
@common.RAM_OPTION
@click.option("--sample", type=click.IntRange(min=0), default=0, show_default=True, help="Which of the inputs.")
@common.PORT_OPTION
@common.EMULATOR_OPTION
@click.option("--no-flash", is_flag=True, help="Real boards: never write; the firmware there must be this image.")
@common.TIMEOUT_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the comparison alone on stdout, as one JSON object.")
@common.WAIT_OPTION
@common.BENCH_OPTION
@common.BOARDS_OPTION
def diff(
    board: str,
    sample: int,
    as_json: bool,
    boards_file: Path | None,
    bench_file: Path | None,
    format_: str,
    **options: Any,
) -> None:
    """Compare board and host tensor by tensor for one sample; exits with 1 and names the first that differs."""
    import json

    from rich.console import Console

    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.job.job import Request
    from tinyhil.harness.measure.diff import diff as diff_request
    from tinyhil.harness.measure.terminal_diff import print_diff

    request = Request(board=board, format=format_, **options)
    found = diff_request(request, sample, read_boards(boards_file, bench_file), default_cache_dir(), say)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        print_diff(found, Console(highlight=False, width=None if sys.stdout.isatty() else 120))
    if found.first is not None:
        click.echo(f"hil: {found.board}: first to differ is {found.first}", err=True)
        sys.exit(errors.EXIT_GATE)
