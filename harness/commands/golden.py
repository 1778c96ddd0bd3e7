"""`hil golden`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands import option
from tinyhil.harness.commands.common import (
    BENCH_OPTION,
    BOARDS_OPTION,
    WAIT_OPTION,
    calibrate_options,
    memory_options,
    read_boards,
    say,
    stream_options,
)

FOLDER_OPTION = option.path(
    "--golden",
    "folder",
    "Folder of the golden records.",
    show_default="hil_golden of pyproject.toml, else golden if it is there, else results/golden",
)
RESETS = 3  # boots of a physical board
PATHS = click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))


@click.group()
def golden() -> None:
    """Hold models to golden records: what they gave when somebody looked at it."""


@golden.command()
@PATHS
@FOLDER_OPTION
@option.count("--samples", "Only the first N samples of each record.")
@option.text("--port", "Serial port of the board; default: found by USB identity, else emulated.")
@WAIT_OPTION
@BENCH_OPTION
@BOARDS_OPTION
@option.flag("--json", "as_json", "Print what differs alone on stdout, as one JSON object.")
def check(
    paths: tuple[Path, ...],
    folder: Path | None,
    samples: int | None,
    as_json: bool,
    boards_file: Path | None,
    bench_file: Path | None,
    **options: Any,
) -> None:
    """Run the golden records (all, or those given) again and say what differs."""
    import json

    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.measure.golden import Bench, check_golden, describe, find_golden
    from tinyhil.harness.settings.own_project import golden_folder

    place = folder or golden_folder()
    chosen = find_golden(*(paths or (place,)))
    if not chosen:
        raise _none_in(paths[0] if paths else place)
    bench = Bench(read_boards(boards_file, bench_file), default_cache_dir(), lambda line: None, **options)
    checked = []
    for path in chosen:
        checked.append(found := check_golden(path, bench, samples))
        holds = [f"{path}: holds", *(f"  note {difference}" for difference in found.differences)]
        if not as_json:
            click.echo(describe(found) if found.fails else "\n".join(holds))
    failures = sum(found.fails for found in checked)
    if as_json:
        click.echo(json.dumps({"checked": [found.as_json() for found in checked], "failures": failures}))
    if failures:
        click.echo(f"hil: gate failed: {failures} of {len(chosen)} golden records differ", err=True)
        sys.exit(errors.EXIT_GATE)


@golden.command()
@PATHS
@FOLDER_OPTION
@option.text("--model", "Make a record of this model: a name in the zoo, or path to an .onnx, .dsl or .tflite file.")
@option.text("--board", "board_names", "With --model: the board, may be repeated.", multiple=True)
@option.text("--format", "format_", "With --model: the number format.", default="fixed16")
@option.path("--assignment", "With --model: a format per value.")
@option.path("--inputs", "With --model: samples; default: drawn from a seed.")
@stream_options
@calibrate_options
@memory_options
@option.count("--samples", "With --model: how many.", show_default="as in its record, else 16")
@WAIT_OPTION
@BENCH_OPTION
@BOARDS_OPTION
def update(
    paths: tuple[Path, ...],
    folder: Path | None,
    boards_file: Path | None,
    bench_file: Path | None,
    wait_s: float | None,
    **options: Any,
) -> None:
    """Measure golden records anew (all, or those given), or make one of --model on each --board."""
    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.measure.golden import (
        Bench,
        check_or_update,
        find_golden,
        order_at,
        path_of,
        portable_order,
        with_samples_of,
    )
    from tinyhil.harness.records.bench_stats import ticks_text
    from tinyhil.harness.records.verdict import issue_texts
    from tinyhil.harness.settings.own_project import golden_folder

    place = folder or golden_folder()
    boards = read_boards(boards_file, bench_file)
    bench = Bench(boards, default_cache_dir(), say, wait_s=wait_s)
    if options["model"]:
        orders = {path_of(portable_order(order, boards), place): order for order in _orders(options)}
        if options["samples"] is None:  # not fewer than the record that is replaced
            orders = {path: with_samples_of(path, order) for path, order in orders.items()}
    else:
        orders = {path: order_at(path, bench, anew=True) for path in find_golden(*(paths or (place,)))}
    if not orders:
        raise _none_in(paths[0] if paths else place)
    too_large = 0
    for path, order in orders.items():
        try:
            found = check_or_update(order, path.parent.parent, bench, samples=None, resets=RESETS, update=True)
        except errors.DoesNotFit as error:  # the other boards may be larger
            too_large += 1
            click.echo(f"{path}: no record: {error}")
            continue
        path, record = found.path, found.record
        if found.differences:
            click.echo(f"hil: gate failed: {path}: {found.differences[0]}", err=True)
            sys.exit(errors.EXIT_GATE)
        latency = record["latency"]
        click.echo(f"{path}: {record['samples']} samples, median {ticks_text(latency['median'])} {latency['unit']}")
        for line in issue_texts(record):
            click.echo(f"  {line}")
    if too_large:
        raise errors.DoesNotFit(f"{too_large} of {len(orders)} orders do not fit their board; the others are written")


def _none_in(place: Path) -> errors.DataError:
    """What to type where there is nothing to hold a model to."""
    from tinyhil.harness.settings.own_project import setting

    first = "write those of the project's tests with `pytest --hil-update`, or " if setting("hil_golden") else ""
    return errors.DataError(
        f"{place}: no golden records; {first}make one with `hil golden update --model ... --board ...`"
    )


def _orders(options: dict[str, Any]) -> list[Any]:
    from tinyhil.harness.measure.golden import SAMPLES, Order

    if not options["board_names"]:
        raise click.UsageError("--model needs --board, once or more")
    rest: dict[str, Any] = {}
    for key in ("assignment", "inputs", "calibrate"):
        rest[key] = str(options[key]) if options[key] else None
    rest |= {key: options[key] for key in ("calibrate_by", "prefer", "states", "steps", "ram")}
    return [
        Order(board, options["model"], options["format_"], **rest, samples=options["samples"] or SAMPLES)
        for board in options["board_names"]
    ]
