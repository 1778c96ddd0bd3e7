"""`hil calibrate-cycles`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say


@click.command("calibrate-cycles")
@option.text("--board", "Board to time, as for `hil run`; see `hil boards`.", required=True)
@common.PORT_OPTION
@common.WAIT_OPTION
@common.BENCH_OPTION
@common.BOARDS_OPTION
def calibrate_cycles(boards_file: Path | None, bench_file: Path | None, **options: Any) -> None:
    """Time six loops on a chip and compare them with its model of cycles.

    The last line is what we would like to be sent: nobody has measured this board for us.
    """
    from tinyhil.harness.build.toolchain import default_cache_dir
    from tinyhil.harness.job.job import Request
    from tinyhil.harness.measure.cycle_loops import LOOPS
    from tinyhil.harness.measure.cycle_loops import calibrate_cycles as measure

    request = Request(model="loops", **options)
    found = measure(request, read_boards(boards_file, bench_file), default_cache_dir(), say)
    click.echo(f"{'loop':10} {'model':>8} {'chip':>8} {'model above chip':>17}  cycles of a turn")
    for one in found.loops:
        chip = "-" if one.measured is None else f"{one.measured:.2f}"
        apart = "-" if one.difference is None else f"{100 * one.difference:+.1f} %"
        click.echo(f"{one.name:10} {one.modelled:8.2f} {chip:>8} {apart:>17}  {LOOPS[one.name]}")
    if found.loops[0].measured is None:
        click.echo(f"no {found.board} is attached: these are the model's own numbers", err=True)
    click.echo(found.line)
