"""`hil convert`."""

from __future__ import annotations

from pathlib import Path

import click

from tinyhil.harness.commands import common


@click.command()
@click.argument("model")
@click.argument("out", type=click.Path(path_type=Path))
@common.stream_options
def convert(model: str, out: Path, states: tuple[str, ...] | None, steps: int | None) -> None:
    """Write a model in another language: OUT ends in .dsl (large weights beside it, in .npz) or .onnx."""
    from tinyhil.harness.job.job import Streamed
    from tinyhil.harness.offline.convert import convert_model

    for path in convert_model(model, out, Streamed(states, steps)):
        click.echo(str(path))
