"""`hil mlperf`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say

MODES = click.Choice(["performance", "accuracy", "energy", "stream"])


@click.command()
@option.text("--board", "Board, as for `hil run`; see `hil boards`.", required=True)
@option.text("--model", "models", "Network of MLPerf Tiny: zoo name or file; repeatable.", required=True, multiple=True)
@option.text("--format", "format_", "Number format, see `hil formats`.", default="int8")
@common.ASSIGNMENT_OPTION
@common.calibrate_options
@option.text("--mode", "modes", "Default: performance and accuracy. May be repeated.", type=MODES, multiple=True)
@option.count("--samples", "Inputs the board gets.", least=0, default=10)
@option.path("--audio", "With --mode stream: a .wav file. Default: noise and tones.")
@option.count("--runs", "Of performance mode.", default=5)
@option.number("--seconds", "Of device time in each run.", least=0.001, default=10.0)
@option.text("--engine", "Compute by somebody else's engine, see `hil engines`.")
@option.path("--engine-source", "A checkout of that engine. Default: found in HIL_ENGINES.")
@common.PORT_OPTION
@common.NO_FLASH_OPTION
@option.flag("--realtime", "Emulated boards: no faster than the real one.")
@option.flag("--serve", "Start the board, print its port, and leave it to another runner.")
@option.path("--datasets", "Write inputs for the official runner, then end.")
@option.path("--submission", "Folder for results in the form of a submission.")
@option.flag("--json", "as_json", "Print the records alone on stdout.")
@common.bench_options
def mlperf(
    models: tuple[str, ...],
    boards_file: Path | None,
    bench_file: Path | None,
    as_json: bool,
    engine: str | None,
    engine_source: Path | None,
    **options: Any,
) -> None:
    """Run MLPerf Tiny's benchmarks on a board, by the protocol of its official runner."""
    import json

    from tinyhil.harness.mlperf.benchmark_run import table
    from tinyhil.harness.mlperf.command import prepare, run_all

    prepared = prepare
    if engine not in (None, "tinyhil"):
        if options["submission"] is not None:
            raise click.UsageError("--submission is of what tinyhil computes; leave out --engine")
        from tinyhil.harness.engines.mlperf_engine import prepare_engine

        prepared = partial(prepare_engine, str(engine), engine_source)
    records = run_all(models, read_boards(boards_file, bench_file), options, say, prepared)
    for record in records if not as_json else ():
        click.echo(table(record))
    if as_json:
        click.echo(json.dumps(records if len(records) > 1 else records[0] if records else []))
    wrong = [r for r in records if "accuracy" in r and r["accuracy"]["equal"] not in (None, r["accuracy"]["samples"])]
    wrong += [r for r in records if "stream" in r and r["stream"]["equal"] != r["stream"]["strides"]]
    if wrong:
        click.echo(f"hil: gate failed: {wrong[0]['benchmark']}: the board reports other results", err=True)
        sys.exit(errors.EXIT_GATE)
