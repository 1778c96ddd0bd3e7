"""`hil mlperf`."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands import common
from tinyhil.harness.commands.common import Finite, read_boards, say

MODES = click.Choice(["performance", "accuracy", "energy", "stream"])


@click.command()
@click.option("--board", required=True, help="Board, as for `hil run`; see `hil boards`.")
@click.option(
    "--model",
    "models",
    required=True,
    multiple=True,
    help="Network of MLPerf Tiny: zoo name or file; repeatable.",
)
@click.option("--format", "format_", default="int8", show_default=True, help="Number format, see `hil formats`.")
@common.ASSIGNMENT_OPTION
@common.calibrate_options
@click.option("--mode", "modes", type=MODES, multiple=True, help="Default: performance and accuracy. May be repeated.")
@click.option("--samples", type=click.IntRange(min=0), default=10, show_default=True, help="Inputs the board gets.")
@click.option(
    "--audio", type=click.Path(path_type=Path), help="With --mode stream: a .wav file. Default: noise and tones."
)
@click.option("--runs", type=click.IntRange(min=1), default=5, show_default=True, help="Of performance mode.")
@click.option("--seconds", type=Finite(min=0.001), default=10.0, show_default=True, help="Of device time in each run.")
@click.option("--engine", help="Compute by somebody else's engine, see `hil engines`.")
@click.option(
    "--engine-source", type=click.Path(path_type=Path), help="A checkout of that engine. Default: found in HIL_ENGINES."
)
@common.PORT_OPTION
@common.NO_FLASH_OPTION
@click.option("--realtime", is_flag=True, help="Emulated boards: no faster than the real one.")
@click.option("--serve", is_flag=True, help="Start the board, print its port, and leave it to another runner.")
@click.option("--datasets", type=click.Path(path_type=Path), help="Write inputs for the official runner, then end.")
@click.option("--submission", type=click.Path(path_type=Path), help="Folder for results in the form of a submission.")
@click.option("--json", "as_json", is_flag=True, help="Print the records alone on stdout.")
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
