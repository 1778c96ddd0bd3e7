"""`hil generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say

MLPERF_TINY = "mlperf-tiny"


@click.command()
@click.argument("model")
@common.stream_options
@common.tflite_options
@option.path("--out", "Project folder.", file_okay=False, required=True)
@common.format_options
@common.calibrate_options
@option.choice(
    ("hil", MLPERF_TINY),
    "--protocol",
    "What the firmware speaks: ours, or that of MLPerf Tiny's runner.",
    default="hil",
)
@option.flag("--energy", "With mlperf-tiny: for energy mode (9600 Bd, timestamps on a pin).")
@common.memory_options
@common.BOARDS_OPTION
def generate(format_: str, boards_file: Path | None, **options: Any) -> None:
    """Write a self-contained PlatformIO project for MODEL, ready for `pio run`."""
    from tinyhil.harness.offline.generate import Project, generate_project

    wanted = Project(format=format_, **options)
    generate_for = generate_project
    if wanted.protocol == MLPERF_TINY:
        from tinyhil.harness.mlperf.project import generate_mlperf as generate_for
    elif wanted.energy:
        raise click.UsageError(f"--energy belongs to --protocol {MLPERF_TINY}")
    written, total = generate_for(wanted, read_boards(boards_file), say)
    click.echo(f"{wanted.out}: {written} of {total} files written", err=True)
