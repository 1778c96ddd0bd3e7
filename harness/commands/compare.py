"""`hil compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say

EXISTING = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("before", type=EXISTING, required=False)
@click.argument("now", type=EXISTING, required=False)
@option.text("--engines", "Instead of records: measure these engines, between commas; `tinyhil` is ours.")
@option.text("--models", "With --engines: models, between commas; files of one network joined by +.")
@option.text("--boards", "board_names", "With --engines: boards, between commas.")
@option.path("--inputs", "With --engines: samples. Default: noise.", exists=True)
@option.count("--samples", "With --engines: how many.", default=4)
@option.text("--format", "format_", "With --engines: our number format.", default="int8")
@option.path("--engine-source", "With --engines: a checkout. Default: found in HIL_ENGINES.", exists=True)
@option.flag("--tensors", "With --engines: name the first tensor that is not as ours, too.")
@common.RESULTS_OPTION
@common.BENCH_OPTION
@common.BOARDS_OPTION
@option.flag("--better-is-fine", "Pass what became smaller, faster or more accurate.")
@option.flag("--json", "as_json", "Print differences and tables as JSON.")
@option.choice(("text", "md", "html"), "--as", "table_format", "Form of the table of what changed.", default="text")
@option.flag("--all", "with_equal", "With figures that are the same in the table.")
@option.path("--out", "-o", "Write the tables into a file.", dir_okay=False)
def compare(
    before: Path | None,
    now: Path | None,
    engines: str | None,
    better_is_fine: bool,
    as_json: bool,
    table_format: str,
    with_equal: bool,
    out: Path | None,
    **contest: Any,
) -> None:
    """Say what differs between two records, or the newest records of two folders; exits with 1 if a gate fails.

    Two records of different models, boards or samples are compared as far as that means something: the table says
    which figures may not be held to each other. With --engines: measure engines side by side (`hil docs engines`).
    """
    if engines is not None:
        if before is not None:
            raise click.UsageError("give two records, or --engines")
        _measure_engines(engines, as_json, table_format, out, **contest)
        return
    if before is None or now is None:
        raise click.UsageError("give two records or folders, or --engines")
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
        counted = f"{failures} difference{'s' * (failures > 1)}"
        fine = any(one.better for pair in found for one in pair.failing)
        remedy = "; --better-is-fine passes what became better" if fine else ""
        click.echo(f"hil: gate failed: {counted} between {before} and {now}{remedy}", err=True)
        sys.exit(errors.EXIT_GATE)


def _measure_engines(
    engines: str,
    as_json: bool,
    table_format: str,
    out: Path | None,
    boards_file: Path | None,
    bench_file: Path | None,
    **options: Any,
) -> None:
    import json

    from tinyhil import files
    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.engines.comparison import Contest, measure, rows_of
    from tinyhil.harness.engines.contest_page import contest_page
    from tinyhil.harness.engines.firmware_run import Bench
    from tinyhil.harness.engines.standing import table

    named = {name: _words(options.pop(name)) for name in ("models", "board_names")}
    contest = Contest(
        _words(engines),
        named["models"],
        named["board_names"],
        options["engine_source"],
        options["inputs"],
        options["samples"],
        options["format_"],
        options["results"],
        options["tensors"],
    )
    bench = Bench(read_boards(boards_file, bench_file), default_cache_dir(), say, lambda done, total: None)
    cells = measure(contest, bench)
    if as_json:
        found = [[cell.network, cell.board, cell.engine, cell.record, cell.why] for cell in cells]
        text = json.dumps([dict(zip(("model", "board", "engine", "record", "why"), one, strict=True)) for one in found])
    else:
        text = contest_page(rows_of(cells)) if table_format == "html" else table(rows_of(cells))
    if out is None:
        click.echo(text)
    else:
        files.write_text(out, text + "\n")
    if all(cell.record is None for cell in cells):
        click.echo("hil: nothing could be measured", err=True)
        sys.exit(errors.EXIT_GATE)


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())
