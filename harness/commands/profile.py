"""`hil profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common
from tinyhil.harness.commands.common import end_with, read_boards, say


@click.command()
@click.option("--board", required=True, help="Board to measure on, named as for `hil run`.")
@common.model_options
@common.INPUTS_OPTION
@common.calibrate_options
@common.memory_options
@click.option("--samples", type=click.IntRange(min=1), default=5, show_default=True, help="Mean of so many samples.")
@common.PORT_OPTION
@common.EMULATOR_OPTION
@common.TIMEOUT_OPTION
@common.RESULTS_OPTION
@click.option("--json", "as_json", is_flag=True, help="Print the profile alone on stdout, as one JSON object.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write one sample's operations over time, for Perfetto.")
@common.bench_options
def profile(
    board: str,
    as_json: bool,
    boards_file: Path | None,
    bench_file: Path | None,
    format_: str,
    trace: Path | None,
    **options: Any,
) -> None:
    """Measure what every operation of a model costs on a board."""
    import json

    from rich.console import Console

    from tinyhil.harness.job.job import Request
    from tinyhil.harness.measure.terminal_profile import print_profile
    from tinyhil.harness.python import calls
    from tinyhil.harness.records.schema import read_record
    from tinyhil.harness.settings.progress import progress_on

    request = Request(board=board, format=format_, **options)
    log = Console(stderr=True, highlight=False, soft_wrap=True)
    with progress_on(log, board) as progress:
        found = calls.profile(request, read_boards(boards_file, bench_file), say, progress)
    record = read_record(Path(found.record))
    if trace is not None:
        from tinyhil import files
        from tinyhil.harness.records.exports import as_trace

        files.write_text(trace, json.dumps(as_trace(record)) + "\n")
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        print_profile(found, common.console())
    end_with(record)
