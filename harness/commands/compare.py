"""`hil compare`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tinyhil import errors

EXISTING = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("before", type=EXISTING)
@click.argument("now", type=EXISTING)
@click.option("--better-is-fine", is_flag=True, help="Pass what became smaller, faster or more accurate.")
@click.option("--json", "as_json", is_flag=True, help="Print differences and tables as JSON.")
@click.option(
    "--as",
    "table_format",
    type=click.Choice(["text", "md", "html"]),
    default="text",
    show_default=True,
    help="Form of the table of what changed.",
)
@click.option("--all", "with_equal", is_flag=True, help="With figures that are the same in the table.")
@click.option("--out", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write the tables into a file.")
def compare(
    before: Path,
    now: Path,
    better_is_fine: bool,
    as_json: bool,
    table_format: str,
    with_equal: bool,
    out: Path | None,
) -> None:
    """Say what differs between two records, or the newest records of two folders; exits with 1 if a gate fails.

    Two records of different models, boards or samples are compared as far as that means something: the table says
    which figures may not be held to each other.
    """
    import json

    from tinyhil import files
    from tinyhil.harness.records.compare import compared, pairs
    from tinyhil.harness.records.render import tables_of

    both, alone = pairs(before, now)
    found = [compared(left, right, better_is_fine) for left, right in both]
    failures = sum(len(one.failing) for one in found)
    if as_json:
        text = json.dumps({"compared": [one.as_json() for one in found], "alone": alone, "failures": failures})
    else:
        text = tables_of(found, alone, table_format, with_equal)
    if out is None:
        click.echo(text)
    else:
        files.write_text(out, text + "\n")
    if failures:
        click.echo(f"hil: gate failed: {failures} differences between {before} and {now}", err=True)
        sys.exit(errors.EXIT_GATE)
