"""`hil profile`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from harness.commands.common import BENCH_OPTION, BOARDS_OPTION, WAIT_OPTION, read_boards, say


@click.command()
@click.option("--board", required=True, help="Board to measure on, named as for `hil run`.")
@click.option("--model", required=True, help="Name in the zoo, or path to an .onnx or .dsl file.")
@click.option("--format", "format_", default="fixed16", show_default=True, help="Number format of every tensor.")
@click.option("--assignment", type=click.Path(path_type=Path), help="File with a format per value; replaces --format.")
@click.option("--inputs", type=click.Path(path_type=Path), help=".npz (x, and labels y if any) or .npy to run on.")
@click.option("--calibrate", type=click.Path(path_type=Path), help="Inputs to calibrate the ranges on.")
@click.option("--samples", type=click.IntRange(min=1), default=5, show_default=True, help="Mean of so many samples.")
@click.option("--port", help="Serial port or pyserial URL of the board; default: found by USB identity, else emulated.")
@click.option("--emulator", help="Another emulator of the chip, for a second opinion: `hil boards --truth`.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    help="Seconds without progress before the board is given up.",
)
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder for records."
)
@click.option("--json", "as_json", is_flag=True, help="Print the profile alone on stdout, as one JSON object.")
@WAIT_OPTION
@BENCH_OPTION
@BOARDS_OPTION
def profile(
    board: str, as_json: bool, boards_file: Path | None, bench_file: Path | None, format_: str, **options: Any
) -> None:
    """Measure what every operation of a model costs on a board."""
    import json

    from rich.console import Console

    from harness.profile import profile as profile_request
    from harness.profile_report import print_profile
    from harness.progress import progress_on
    from harness.run import Request
    from harness.toolchain import default_cache_dir

    request = Request(board=board, format=format_, **options)
    log = Console(stderr=True, highlight=False, soft_wrap=True)
    with progress_on(log, board) as progress:
        found = profile_request(request, read_boards(boards_file, bench_file), default_cache_dir(), say, progress)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        print_profile(found, Console(highlight=False, width=None if sys.stdout.isatty() else 160))
