"""`hil engines`."""

from __future__ import annotations

import click

from tinyhil.harness.commands import option


@click.command()
@option.flag("--json", "as_json", "Print them as JSON.")
def engines(as_json: bool) -> None:
    """List the engines of others that `hil run --engine` knows, and how to get their sources."""
    import json

    from tinyhil.errors import ConfigError
    from tinyhil.harness.engines.registry import ENGINES

    found = []
    for engine in ENGINES:
        try:
            place = str(engine.checkout(None))
        except ConfigError:
            place = None
        found.append(
            {"name": engine.name, "title": engine.title, "reads": engine.reads, "source": place, "get": engine.get}
        )
        if not as_json:
            state = place or "not found; name it by --engine-source or HIL_ENGINES"
            click.echo(f"{engine.name:10} {engine.title}, {engine.licence}; reads {', '.join(engine.reads)}: {state}")
            for line in engine.get if place is None else ():
                click.echo(f"{'':10} {line}")
    if as_json:
        click.echo(json.dumps(found))
