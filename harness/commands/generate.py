"""`hil generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common
from tinyhil.harness.commands.common import read_boards, say
from tinyhil.preference import BALANCED, Wish

MLPERF_TINY = "mlperf-tiny"


@click.command()
@click.argument("model")
@common.stream_options
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Project folder.")
@common.FORMAT_OPTION
@common.ASSIGNMENT_OPTION
@common.calibrate_options
@click.option(
    "--protocol",
    type=click.Choice(["hil", MLPERF_TINY]),
    default="hil",
    show_default=True,
    help="What the firmware speaks: ours, or that of MLPerf Tiny's runner.",
)
@click.option("--energy", is_flag=True, help="With mlperf-tiny: for energy mode (9600 Bd, timestamps on a pin).")
@common.prefer_option(BALANCED)
@common.BOARDS_OPTION
def generate(
    model: str,
    out: Path,
    format_: str,
    assignment: Path | None,
    calibrate: Path | None,
    calibrate_by: str,
    protocol: str,
    energy: bool,
    prefer: str,
    boards_file: Path | None,
    **states: Any,
) -> None:
    """Write a self-contained PlatformIO project for MODEL, ready for `pio run`."""
    from tinyhil.harness.job import Streamed
    from tinyhil.harness.offline.generate import generate_project

    if energy and protocol != MLPERF_TINY:
        raise click.UsageError(f"--energy belongs to --protocol {MLPERF_TINY}")
    chosen, boards = (format_, assignment), read_boards(boards_file)
    if protocol == MLPERF_TINY:
        from tinyhil.harness.mlperf.project import generate_mlperf

        written, total = generate_mlperf(
            model, out, chosen, calibrate, boards, say, energy=energy, calibrate_by=calibrate_by
        )
    else:
        streamed = Streamed(**states, samples=calibrate)
        written, total = generate_project(
            model, out, chosen, calibrate, boards, say, streamed, Wish(prefer), calibrate_by
        )
    click.echo(f"{out}: {written} of {total} files written", err=True)
