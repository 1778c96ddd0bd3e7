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
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
def compare(before: Path, now: Path, better_is_fine: bool, as_json: bool) -> None:
    """Say what differs between two records, or the newest records of two folders; exits with 1 if a gate fails."""
    import json
    from dataclasses import asdict

    from tinyhil.harness.records.compare import compare as compare_figures
    from tinyhil.harness.records.compare import pairs
    from tinyhil.harness.records.figures import read_figures

    both, alone = pairs(before, now)
    found = []
    failures = 0
    for left, right in both:
        name = " ".join(read_figures(right).key)
        differences = compare_figures(read_figures(left), read_figures(right))
        failing = [d for d in differences if d.fails and not (better_is_fine and d.better)]
        failures += len(failing)
        plain = [asdict(difference) for difference in differences]
        found.append({"name": name, "before": str(left), "now": str(right), "differences": plain})
        if not as_json:
            click.echo(f"{name}: {'equal' if not differences else f'{len(failing)} of {len(differences)} fail'}")
            for difference in differences:
                click.echo(f"  {'FAIL' if difference in failing else 'note'} {difference}")
    if as_json:
        click.echo(json.dumps({"compared": found, "alone": alone, "failures": failures}))
    else:
        for line in alone:
            click.echo(line)
    if failures:
        click.echo(f"hil: gate failed: {failures} differences between {before} and {now}", err=True)
        sys.exit(errors.EXIT_GATE)
