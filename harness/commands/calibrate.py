"""`hil calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import say

if TYPE_CHECKING:
    from tinyhil.harness.train.correction import Chosen


@click.command()
@click.argument("model")
@option.path("--inputs", "Inputs to observe; default: the training part.")
@option.path("--out", "Default: beside the model, where `hil run` finds it.")
@common.correction_options("in --format")
@common.format_options
@common.stream_options
def calibrate(
    model: str,
    inputs: Path | None,
    out: Path | None,
    states: tuple[str, ...] | None,
    steps: int | None,
    format_: str,
    assignment: Path | None,
    corrections: Chosen,
) -> None:
    """Record the range of every value of MODEL over calibration inputs; with corrections, write a model that suits
    --format or --assignment better, without training, its ranges beside it."""
    from tinyhil.harness.job.job import Streamed
    from tinyhil.harness.offline.generate import calibrate_model
    from tinyhil.harness.python import calls
    from tinyhil.harness.train.correction import CorrectionRequest

    if corrections:
        wanted = CorrectionRequest(model, out, corrections, inputs, format_, assignment)
        click.echo(f"{calls.correct(wanted, say)}: written, its ranges beside it", err=True)
        return
    streamed = Streamed(states, steps, inputs)
    click.echo(f"{calibrate_model(model, inputs, out, say, streamed)}: written", err=True)
