"""`hil bench`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tinyhil import errors
from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import end_with, read_boards, say

if TYPE_CHECKING:
    from tinyhil.harness.records.compare import Difference


@click.command()
@option.text("--board", "Board to measure, as for `hil run`; see `hil boards`.", required=True)
@common.model_options
@option.path("--inputs", ".npz or .npy to run on; default: the model's data set.")
@common.calibrate_options
@common.memory_options
@common.PORT_OPTION
@common.NO_FLASH_OPTION
@option.count("--resets", "Boots, each a sample of its own.", default=3)
@option.count("--inferences", "Measured in each boot.", default=30)
@option.count("--warm-up", "More of them first, left out.", least=0, default=1)
@option.path("--against", "Record that must hold; exits with 1 if not.", exists=True)
@common.RESULTS_OPTION
@option.flag("--json", "as_json", "Print the record alone on stdout.")
@common.bench_options
def bench(
    boards_file: Path | None,
    bench_file: Path | None,
    against: Path | None,
    as_json: bool,
    format_: str,
    **options: Any,
) -> None:
    """Measure the time of a model over several resets, with a quiet wire."""
    import json

    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.job.job import Request
    from tinyhil.harness.measure.bench import Plan, gate, store
    from tinyhil.harness.measure.bench import bench as run_bench
    from tinyhil.harness.records.schema import read_record
    from tinyhil.harness.records.verdict import invalid_because

    plan = Plan(options.pop("resets"), options.pop("inferences"), options.pop("warm_up"))
    request = Request(format=format_, **options)
    boards, cache = read_boards(boards_file, bench_file), default_cache_dir()
    differences: list[Difference] = []
    if against is None:
        record = run_bench(request, plan, boards, cache, say, lambda done, total: None)
    else:
        record, differences = gate(read_record(against), request, plan, boards, cache, say)
    path = None if invalid_because(record) else store(record, request.results)
    if as_json:
        click.echo(json.dumps(record))
    elif path:
        click.echo(_table(record))
        click.echo(f"record   {path}")
    for difference in differences:
        click.echo(f"{'FAIL' if difference.fails else 'note'} {difference}", err=True)
    end_with(record)
    if any(difference.fails for difference in differences):
        click.echo(f"hil: gate failed: see {against}", err=True)
        sys.exit(errors.EXIT_GATE)


def _table(record: dict[str, Any]) -> str:
    from tinyhil.harness.records.bench_stats import ticks_text
    from tinyhil.harness.records.verdict import issue_texts

    latency = record["latency"]
    fidelity = f" (emulated: {record['emulator']['fidelity']})" if record["emulator"] else ""
    low, high = latency["interval"]
    lines = [f"{record['model']} {record['format']} on {record['board']}{fidelity}, {latency['unit']}"]
    lines.append(f"{'boot':8} {'first':>12} {'min':>12} {'median':>12} {'p95':>12} {'max':>12}")
    for number, boot in enumerate(record["boots"], 1):
        lines.append(_row(str(number), boot))
    lines.append(_row("all", latency))
    us = latency["median_us"]
    time = f"{ticks_text(latency['median'])} {latency['unit']}" if us is None else f"{us / 1000:,.3f} ms"
    lines.append(f"median   {time}; 95 % over resets: {low:,.0f} to {high:,.0f}")
    lines += [f"verdict  {text}" for text in issue_texts(record)]
    return "\n".join(lines)


def _row(name: str, times: dict[str, Any]) -> str:
    return f"{name:8} " + " ".join(f"{times[key]:>12,.0f}" for key in ("first", "min", "median", "p95", "max"))
