"""`hil report`."""

from __future__ import annotations

from pathlib import Path

import click

from tinyhil.harness.commands import option
from tinyhil.harness.commands.common import FILE, say, write_result

RECORDS = click.Path(exists=True, path_type=Path)
DEFAULT = Path("report.html")


@click.command()
@click.argument("records", nargs=-1, required=True, type=RECORDS)
@option.text("--out", "-o", "The page; default: report.html, if no other file is asked for.", type=FILE)
@option.text(
    "--against",
    "A record to hold each to, or a folder: its newest of the same kind.",
    type=RECORDS,
)
@option.text("--md", "A line per record as Markdown; -: to stdout, for $GITHUB_STEP_SUMMARY.", type=FILE)
@option.text("--csv", "csv_", "A line per operation as CSV; -: to stdout.", type=FILE)
@option.text("--trace", "The operations of a profiled sample over time, for ui.perfetto.dev.", type=FILE)
@option.text("--overlay", "Costs of the nodes of one record, for Google's Model Explorer.", type=FILE)
def report(
    records: tuple[Path, ...],
    out: Path | None,
    against: Path | None,
    md: Path | None,
    csv_: Path | None,
    trace: Path | None,
    overlay: Path | None,
) -> None:
    """Show records as one page that needs no network: of runs, profiles, benches and searches. Of a folder: the newest
    run of each model, board, format and plan (--prefer).

    Nothing is compared unless --against names a record. Cycles per operation are in the records of `hil profile`.
    """
    import json

    from tinyhil.harness.records import exports
    from tinyhil.harness.records.compare import shown_of
    from tinyhil.harness.records.schema import read_any
    from tinyhil.harness.report.page import make_page

    files = md or csv_ or trace or overlay
    if against is not None and out is None and files:
        raise click.UsageError("--against is of the page: give -o, too; `hil compare BEFORE NOW --as md` is Markdown")
    shown = [shown_of(path) if path.is_dir() else ((path,), "") for path in records]
    for left_out in filter(None, (said for _, said in shown)):
        say(left_out)
    records = tuple(file for files, _ in shown for file in files)
    if (trace or overlay) and len(records) > 1:
        raise click.UsageError("--trace and --overlay are of one record")
    found = [read_any(path) for path in records]
    runs = [record for record in found if "strategy" not in record]
    sought = [record for record in found if "strategy" in record]
    if sought and (csv_ or trace or overlay):
        searches = ", ".join(str(path) for path, record in zip(records, found, strict=True) if "strategy" in record)
        said = f"--csv, --trace and --overlay are of runs; a page and --md show the search in {searches}"
        if not runs:
            raise click.UsageError(said)
        say(said)
    if md is not None:
        tables = [exports.as_markdown(runs)] if runs else []
        write_result(md, "\n".join([*tables, *([exports.searches_as_markdown(sought)] if sought else [])]))
    if csv_ is not None:
        write_result(csv_, exports.as_csv(runs))
    if trace is not None:
        write_result(trace, json.dumps(exports.as_trace(runs[0])) + "\n")
    if overlay is not None:
        write_result(overlay, json.dumps(exports.as_overlay(runs[0])) + "\n")
    if out is not None or not files:
        write_result(out or DEFAULT, make_page(records, against=against))
