"""`hil inspect`."""

from __future__ import annotations

import click

from tinyhil.harness.commands import common


@click.command()
@click.argument("model")
@common.stream_options
def inspect(model: str, states: tuple[str, ...] | None, steps: int | None) -> None:
    """List the operations and values of MODEL, with shapes: the names an assignment file may use."""
    from tinyhil.harness.job.job import Streamed
    from tinyhil.harness.offline.generate import describe_model

    for line in describe_model(model, Streamed(states, steps)):
        click.echo(line)
