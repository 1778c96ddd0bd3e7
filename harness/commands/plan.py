"""`hil plan`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands.common import (
    ASSIGNMENT_OPTION,
    BOARDS_OPTION,
    FORMAT_OPTION,
    INPUTS_OPTION,
    Finite,
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
@click.option(
    "--model", help="Plan the arena of this model: name in the zoo, or path to an .onnx, .dsl or .tflite file."
)
@click.option("--board", help="With --model: the memory, and the core to arrange for.")
@stream_options
@tflite_options
@FORMAT_OPTION
@ASSIGNMENT_OPTION
@INPUTS_OPTION
@calibrate_options
@click.option("--capacity", type=click.IntRange(min=0), help="Bytes there are; more needed: exit code 4.")
@click.option(
    "--ram",
    type=click.IntRange(min=1),
    help="With --model: the fastest schedule in so many bytes, of the arena, with --board of arena and input.",
)
@click.option(
    "--pareto", is_flag=True, help="With --model: every schedule, peak against products computed again and time."
)
@prefer_option(None, "as --assignment was found with, else the least arena by layers or rows")
@click.option("--time", "seconds", type=Finite(min=0, min_open=True), help="Seconds to search at most.")
@click.option("--planner", default="portfolio", show_default=True, help="Planner; see `hil docs memplan_method`.")
@click.option(
    "--without",
    multiple=True,
    type=PassName(),
    help="With --model: leave out this pass; may be repeated.",
)
@click.option("--passes", is_flag=True, help="With --model: every pass, its contract, and the bytes that it saves.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the memory map into this .svg or .png file.")
@click.option("--header", type=click.Path(path_type=Path), help="Write the plan into this file as a C header.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan alone on stdout.")
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
    if passes:
        from tinyhil.harness.offline.pass_list import pass_gains, print_gains

        board = None if wanted.board is None or boards is None else boards.board(wanted.board)
        gains = pass_gains(wanted, board, say)
        if as_json:
            click.echo(json.dumps([asdict(gain) for gain in gains]))
        else:
            print_gains(gains)
        return
    if pareto:
        from tinyhil.harness.offline.schedule_table import find_front, front_lines, front_record

        schedules = find_front(wanted, boards, say)
        click.echo(json.dumps(front_record(schedules)) if as_json else "\n".join(front_lines(schedules)))
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
