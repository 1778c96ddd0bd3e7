"""`hil formats`."""

from __future__ import annotations

import click


@click.command()
@click.option("--family", help="Only this family: fixed, affine, posit, minifloat, single or codebook.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def formats(family: str | None, as_json: bool) -> None:
    """List the number formats with range, precision and measured cost per chip."""
    import json

    from tinyhil.errors import ConfigError
    from tinyhil.harness.offline.formats import TITLES, all_facts, lines

    if family is not None and family not in TITLES:
        raise ConfigError(f"unknown family '{family}'; known: {', '.join(TITLES)}")
    found = [fact for fact in all_facts() if family in (None, fact.family)]
    if as_json:
        click.echo(json.dumps([fact.record() for fact in found]))
    else:
        click.echo("\n".join(lines(found)))
