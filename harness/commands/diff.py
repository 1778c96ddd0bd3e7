"""`hil diff`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say


@click.command()
@click.argument("engines", nargs=-1, metavar="[A B]")
@option.text("--board", "Board to compare with this computer, named as for `hil run`. With A B: default host.")
@common.model_options
@common.INPUTS_OPTION
@common.calibrate_options
@common.memory_options
@option.count("--sample", "Which of the inputs.", least=0, default=0)
@common.PORT_OPTION
@common.EMULATOR_OPTION
@option.path("--engine-source", "With A B: a checkout. Default: HIL_ENGINES.")
@common.NO_FLASH_OPTION
@common.TIMEOUT_OPTION
@option.flag("--json", "as_json", "Print the comparison alone on stdout, as one JSON object.")
@common.bench_options
def diff(
    engines: tuple[str, ...],
    board: str | None,
    sample: int,
    as_json: bool,
    boards_file: Path | None,
    bench_file: Path | None,
    format_: str,
    engine_source: Path | None,
    **options: Any,
) -> None:
    """Compare board and host tensor by tensor for one sample; exits with 1 and names the first that differs.

    With A B: compare two engines (`tinyhil` is ours, the others are those of `hil engines`), with the float model as
    the judge, and say whose rounding it is.
    """
    import json

    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.job.job import Request
    from tinyhil.harness.measure.diff import diff as diff_request
    from tinyhil.harness.measure.terminal_diff import print_diff

    if len(engines) not in (0, 2) or (not engines and board is None):
        raise click.UsageError("give --board, or two engines")
    request = Request(board=board or "host", format=format_, **options)
    boards, console = read_boards(boards_file, bench_file), common.console(120)
    if engines:
        _between(engines, engine_source, request, sample, boards, as_json, console)
        return
    found = diff_request(request, sample, boards, default_cache_dir(), say)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        print_diff(found, console)
    if found.first is not None:
        click.echo(f"hil: {found.board}: first to differ is {found.first}", err=True)
        sys.exit(errors.EXIT_GATE)


def _between(
    engines: tuple[str, ...], source: Path | None, request: Any, sample: int, boards: Any, as_json: bool, console: Any
) -> None:
    import json

    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.engines.difference import diff_engines, lines, print_pairs
    from tinyhil.harness.engines.firmware_run import Bench

    bench = Bench(boards, default_cache_dir(), say, lambda done, total: None)
    found = diff_engines((engines[0], engines[1]), source, request, sample, bench)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        print_pairs(found, console)
        click.echo("\n".join(lines(found)))
    if found.first is not None:
        click.echo(f"hil: {engines[0]} and {engines[1]}: first to differ is tensor '{found.first.tensor}'", err=True)
        sys.exit(errors.EXIT_GATE)
