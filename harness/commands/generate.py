"""`hil generate`."""

from __future__ import annotations

from pathlib import Path

import click

from tinyhil.harness.commands import common
from tinyhil.harness.commands.common import read_boards, say


@click.command()
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Project folder.")
@common.FORMAT_OPTION
@common.ASSIGNMENT_OPTION
@common.CALIBRATE_OPTION
@click.option(
    "--protocol",
    type=click.Choice(["hil", "mlperf-tiny"]),
    default="hil",
    show_default=True,
    help="What the firmware speaks: ours, or that of MLPerf Tiny's runner.",
)
@click.option("--energy", is_flag=True, help="With mlperf-tiny: for energy mode (9600 Bd, timestamps on a pin).")
@common.BOARDS_OPTION
def generate(
    model: str,
    out: Path,
    format_: str,
    assignment: Path | None,
    calibrate: Path | None,
    protocol: str,
    energy: bool,
    boards_file: Path | None,
) -> None:
    """Write a self-contained PlatformIO project for MODEL, ready for `pio run`."""
    from tinyhil.harness.offline.generate import ENERGY_MODE, PERFORMANCE_MODE, generate_project

    if energy and protocol != "mlperf-tiny":
        raise click.UsageError("--energy belongs to --protocol mlperf-tiny")
    named = {"hil": None, "mlperf-tiny": ENERGY_MODE if energy else PERFORMANCE_MODE}[protocol]
    boards = read_boards(boards_file)
    written, total = generate_project(model, out, format_, assignment, calibrate, boards, say, mlperf=named)
    click.echo(f"{out}: {written} of {total} files written", err=True)
