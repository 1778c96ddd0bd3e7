"""`hil run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import end_with, read_boards, say


@click.command()
@option.text(
    "--board",
    "board_names",
    "Board to run on, see `hil boards`: KIND, KIND@SERIAL, KIND@emulated, or a name of the bench file. "
    "Given several times: on all of them at once.",
    required=True,
    multiple=True,
)
@option.text("--model", "Name in the zoo, or path to an .onnx, .dsl or .tflite file.", default="")
@option.path(
    "--firmware",
    "Run this image of somebody else's (.elf, .hex, .bin), which speaks our wire or MLPerf Tiny's protocol "
    "(`hil docs engines`). --model then names the float model to compare with, if there is one.",
)
@option.text("--engine", "Compute the model by somebody else's engine, see `hil engines`.")
@option.path("--engine-source", "A checkout of that engine. Default: found in HIL_ENGINES.")
@common.stream_options
@common.tflite_options
@common.format_options
@common.INPUTS_OPTION
@common.calibrate_options
@option.count("--samples", "Run on the first N samples only.")
@common.PORT_OPTION
@common.MODE_OPTION
@common.memory_options
@option.choice(
    ("lifted", "true"), "--uart", "Emulated boards: wire as fast as it goes, or at its true speed.", default="lifted"
)
@option.flag("--realtime", "Emulated boards: no faster than the real one.")
@option.choice(
    ("direct", "flash"),
    "--load",
    "Emulated boards: put the image into the flash, or have the real flashing program write it and verify it. "
    "Default: HIL_LOAD, else flash where the emulator has a boot loader.",
)
@common.EMULATOR_OPTION
@common.NO_FLASH_OPTION
@common.TIMEOUT_OPTION
@option.count("--retries", "Tries after a link failure; a run that needed one exits with 9.", least=0, default=0)
@common.RESULTS_OPTION
@option.flag("--json", "as_json", "Print the record (of several boards a list) alone on stdout.")
@common.bench_options
@click.pass_context
def run(context: click.Context, board_names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Compile, build, load, stream, measure, compare and record."""
    if not options["model"] and options["firmware"] is None:
        raise click.UsageError("Missing option '--model'.")
    if options["firmware"] is not None and len(board_names) > 1:
        raise click.UsageError("--firmware is an image for one board")
    if options["engine"] and options["firmware"] is not None:
        raise click.UsageError("an image has its own engine: give --firmware or --engine")
    if options["firmware"] is not None and context.get_parameter_source("format_") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--format is of a model that is compiled; an image has its own")
    if len(board_names) == 1:
        _run_one(board_names[0], as_json, **options)
        return
    if options["port"]:
        raise click.UsageError("--port is for one board; with several, name them as the bench file does")
    import json

    from rich.console import Console

    from tinyhil.harness.measure.parallel import as_arguments, print_table, run_all, worst_code
    from tinyhil.harness.settings.progress import bars

    arguments = as_arguments(context, leave_out=("board_names", "as_json"))
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if console.is_terminal:
        with bars(console) as add:
            shown = {name: add(name) for name in board_names}
            tell = lambda line: console.print(line, markup=False)  # noqa: E731
            results = run_all(board_names, arguments, tell, shown)
    else:
        results = run_all(board_names, arguments, say)
    if as_json:
        click.echo(json.dumps([result.as_json() for result in results]))
    else:
        print_table(results, common.console())
    for result in results:
        if result.message:
            click.echo(f"hil: {result.message}", err=True)
    sys.exit(worst_code(result.exit_code for result in results))


def _run_one(
    board: str,
    as_json: bool,
    boards_file: Path | None,
    bench_file: Path | None,
    format_: str,
    firmware: Path | None,
    engine: str | None,
    engine_source: Path | None,
    **options: Any,
) -> None:
    import json

    from rich.console import Console

    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.job.job import Request
    from tinyhil.harness.python import calls
    from tinyhil.harness.records.terminal import print_rows, rows
    from tinyhil.harness.settings.progress import progress_on

    request = Request(board=board, format=format_, **options)
    log = Console(stderr=True, highlight=False, soft_wrap=True)
    boards = read_boards(boards_file, bench_file)
    with progress_on(log, request.board) as progress:
        if firmware is None and engine in (None, "tinyhil"):
            record, path = calls.run(request, boards, say, progress)
            lines = rows(record)
        else:
            from tinyhil.harness.engines.engine_run import run_engine
            from tinyhil.harness.engines.firmware_run import Bench, run_firmware
            from tinyhil.harness.engines.measurement import rows as rows_of_others

            bench = Bench(boards, default_cache_dir(), say, progress)
            if firmware is not None:
                record, path = run_firmware(firmware, request, bench)
            else:
                assert engine is not None
                record, path = run_engine(engine, engine_source, request, bench)
            lines = rows_of_others(record)
    if as_json:
        click.echo(json.dumps(record))
    else:
        print_rows(record, lines, common.console())
        click.echo(f"record         {path}")
    if "engine" not in record:
        end_with(record)
