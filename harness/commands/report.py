"""`hil report`."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("records", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path, dir_okay=False))
@click.option("--out", "-o", type=FILE, default=Path("report.html"), show_default=True, help="The page to write.")
def report(records: tuple[Path, ...], out: Path) -> None:
    """Show records as one page that needs no network: of runs, profiles, benches and searches.

    Several runs are compared with the first. Cycles per operation are in the records of `hil profile`.
    """
    from tinyhil import files
    from tinyhil.harness.report.page import make_page

    files.write_text(out, make_page(records))
    click.echo(f"report         {out}")
