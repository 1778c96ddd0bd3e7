"""`hil doctor`."""

from __future__ import annotations

import sys

import click


@click.command()
def doctor() -> None:
    """Say what is present, missing or too old, and how to get it."""
    from rich.console import Console

    from harness.doctor import checks, exit_code, report

    found = checks()
    report(found, Console(highlight=False))
    sys.exit(exit_code(found))
