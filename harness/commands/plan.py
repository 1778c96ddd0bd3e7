"""`hil plan`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands import option
from tinyhil.harness.commands.common import (
    ASSIGNMENT_OPTION,
    BOARDS_OPTION,
    FORMAT_OPTION,
    INPUTS_OPTION,
    PassName,
    boards_for,
    calibrate_options,
    prefer_option,
    say,
    stream_options,
    tflite_options,
)


@click.command()
@click.argument("instance", required=False, type=click.Path(path_type=Path))
@option.text("--model", "Plan the arena of this model: name in the zoo, or path to an .onnx, .dsl or .tflite file.")
@option.text("--board", "With --model: the memory, and the core to arrange for.")
@stream_options
@tflite_options
@FORMAT_OPTION
@ASSIGNMENT_OPTION
@INPUTS_OPTION
@calibrate_options
@option.count("--capacity", "Bytes there are; more needed: exit code 4.", least=0)
@option.count(
    "--ram", "With --model: the fastest schedule in so many bytes, of the arena, with --board of arena and input."
)
@option.flag("--pareto", "With --model: every schedule, peak against products computed again and time.")
@prefer_option(None, "as --assignment was found with, else the least arena by layers or rows, ram if it does not link")
@option.number("--time", "seconds", "Seconds to search at most.", above=True)
@option.text("--planner", "Planner; see `hil docs memplan_method`.", default="portfolio")
@option.text("--without", "With --model: leave out this pass; may be repeated.", multiple=True, type=PassName())
@option.flag("--passes", "With --model: every pass, its contract, and the bytes that it saves.")
@option.path("--plot", "Draw the memory map into this .svg or .png file.")
@option.path("--header", "Write the plan into this file as a C header.")
@option.flag("--json", "as_json", "Print the plan alone on stdout.")
@BOARDS_OPTION
def plan(
    boards_file: Path | None,
    plot: Path | None,
    header: Path | None,
    as_json: bool,
    passes: bool,
    pareto: bool,
    format_: str,
    **options: Any,
) -> None:
    """Plan memory: the buffers of the CSV file INSTANCE, or the arena of a model; draw the memory map."""
    import json

    from rich.console import Console

    from tinyhil.harness.offline.memory_map import check_picture, print_map, save_map
    from tinyhil.harness.offline.plan import Wanted, find_plan
    from tinyhil.memplan.c_header import write_header

    if plot is not None:
        check_picture(plot)
    wanted = Wanted(format=format_, **options)
    boards = boards_for(wanted.board, boards_file)
    board = None if wanted.board is None or boards is None else boards.board(wanted.board)
    if passes:
        from tinyhil.harness.offline.pass_list import pass_gains, print_gains

        gains = pass_gains(wanted, board, say)
        if as_json:
            click.echo(json.dumps([asdict(gain) for gain in gains]))
        else:
            print_gains(gains)
        return
    if pareto:
        from tinyhil.harness.offline.schedule_table import find_front, front_lines, front_record

        schedules = find_front(wanted, board, say)
        lines = front_lines(schedules, board)
        click.echo(json.dumps(front_record(schedules)) if as_json else "\n".join(lines))
        return
    found = find_plan(wanted, boards, say)
    if as_json:
        click.echo(json.dumps(found.record()))
    else:
        click.echo("\n".join(found.lines()))
        print_map(found.map(), Console(highlight=False))
    if plot is not None:
        save_map(found.map(), plot)
    if header is not None:
        write_header(header, found.problem, found.plan)
    if found.complaint is not None:
        raise errors.DoesNotFit(found.complaint)
