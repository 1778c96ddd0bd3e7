"""`hil sweep`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import FILE, read_boards, say, write_result


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@option.count("--jobs", "Processes at once; default: one per processor.")
@option.text("--scheduler", "Dask scheduler, as tcp://lab:8786: cells run on its workers.", metavar="ADDRESS")
@option.number(
    "--worker-timeout",
    "worker_timeout_s",
    "With --scheduler: seconds to wait for a worker that has the board of a cell.",
    default=300.0,
)
@option.text("--out", "-o", "Everything as one page, as `hil report` makes it.", type=FILE)
@option.text("--md", "The table as Markdown; -: to stdout, for $GITHUB_STEP_SUMMARY.", type=FILE)
@option.flag("--json", "as_json", "Print the table as JSON, alone, on stdout.")
@common.RESULTS_OPTION
@common.BENCH_OPTION
@common.BOARDS_OPTION
def sweep(out: Path | None, md: Path | None, as_json: bool, **options: Any) -> None:
    """Models x boards x formats x strategies as one table; what is finished is never computed again.

    A cell that fails says so, the others go on. The exit code is the worst, as of `hil run` on several boards.
    """
    import json

    from tinyhil.harness.measure.parallel import worst_code
    from tinyhil.harness.settings import own_project
    from tinyhil.harness.sweep import table
    from tinyhil.harness.sweep.session import SweepRequest, run_sweep

    if out is not None:
        from tinyhil.harness.report.page import charts_library

        charts_library()  # what the page lacks is said before hours of cells
    options["boards_file"] = options["boards_file"] or own_project.boards_file()  # for processes elsewhere, too
    request = SweepRequest(**options)
    executor = request.executor(say)
    swept = run_sweep(request, read_boards(request.boards_file, request.bench_file), executor, say)
    if md is not None:
        write_result(md, table.as_markdown(swept.rows))
    if out is not None:
        from tinyhil.harness.report.page import make_page

        records = [
            row.folder / row.outcome[key] for key in ("record", "search") for row in swept.rows if row.outcome[key]
        ]
        write_result(out, make_page(records, table.as_html(swept.rows)))
    if as_json:
        cells = [row.as_json() for row in swept.rows]
        click.echo(json.dumps({"cells": cells, "known": swept.known, "failed": swept.failed}))
    elif str(md) != "-":
        table.print_table(swept.rows, None if sys.stdout.isatty() else 200)
    for line in table.reasons(swept.rows):
        click.echo(f"hil: {line}", err=True)
    sys.exit(worst_code(row.exit_code for row in swept.rows))
