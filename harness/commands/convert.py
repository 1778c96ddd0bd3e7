"""`hil convert`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("model")
@click.argument("out", type=click.Path(path_type=Path))
def convert(model: str, out: Path) -> None:
    """Write a model in another language: OUT ends in .dsl (large weights beside it, in .npz) or .onnx."""
    from tinyhil.harness.offline.convert import convert_model

    for path in convert_model(model, out):
        click.echo(str(path))
