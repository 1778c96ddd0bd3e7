"""`hil profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import end_with, read_boards, say


@click.command()
@option.text("--board", "Board to measure on, named as for `hil run`.", required=True)
@common.model_options
@common.INPUTS_OPTION
@common.calibrate_options
@common.memory_options
@option.count("--samples", "Mean of so many samples.", default=5)
@common.PORT_OPTION
@common.EMULATOR_OPTION
@common.TIMEOUT_OPTION
@common.RESULTS_OPTION
@option.flag("--json", "as_json", "Print the profile alone on stdout, as one JSON object.")
@option.path("--trace", "Write one sample's operations over time, for Perfetto.")
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
