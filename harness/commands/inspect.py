"""`hil inspect`."""

from __future__ import annotations

import click


@click.command()
@click.argument("model")
def inspect(model: str) -> None:
    """List the operations and values of MODEL, with shapes: the names an assignment file may use."""
    from tinyhil.harness.offline.generate import describe_model

    for line in describe_model(model):
        click.echo(line)
