"""`hil calibrate`."""

from __future__ import annotations

from pathlib import Path

import click

from tinyhil.harness.commands import common
from tinyhil.harness.commands.common import say


@click.command()
@click.argument("model")
@click.option("--inputs", type=click.Path(path_type=Path), help="Inputs to observe; default: the training part.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: beside the model, where `hil run` finds it.")
@common.stream_options
def calibrate(
    model: str, inputs: Path | None, out: Path | None, states: tuple[str, ...] | None, steps: int | None
) -> None:
    """Record the range of every value of MODEL over calibration inputs."""
    from tinyhil.harness.job.job import Streamed
    from tinyhil.harness.offline.generate import calibrate_model

    streamed = Streamed(states, steps, inputs)
    click.echo(f"{calibrate_model(model, inputs, out, say, streamed)}: written", err=True)
