"""`hil formats`."""

from __future__ import annotations

import click

from tinyhil.harness.commands import option


@click.command()
@option.text("--family", "Only this family: fixed, posit, ...; `hil docs formats` has them all.")
@option.flag("--json", "as_json", "Print the list as JSON.")
def formats(family: str | None, as_json: bool) -> None:
    """List the number formats with range, precision and measured cost per chip."""
    import json

    from tinyhil.errors import ConfigError
    from tinyhil.harness.offline.formats import all_facts, lines, titles

    known = titles()
    if family is not None and family not in known:
        raise ConfigError(f"unknown family '{family}'; known: {', '.join(known)}")
    found = [fact for fact in all_facts() if family in (None, fact.family)]
    if as_json:
        click.echo(json.dumps([fact.record() for fact in found]))
    else:
        click.echo("\n".join(lines(found)))
