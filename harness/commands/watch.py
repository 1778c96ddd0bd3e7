"""`hil watch`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_S = 2.0


@click.command()
@common.RESULTS_OPTION
@option.flag("--page", "A page in the browser instead, on 127.0.0.1 alone.")
@option.count("--port", "Of the page.", least=0, most=65535, default=0, show_default="a free one")
@option.flag("--runs", "With --page: records may be run again, by who has the token it prints.")
@option.flag("--once", "Print it once and end.")
@option.flag("--json", "as_json", "Print it once as one JSON object.")
@option.flag("--all", "every_board", "Emulated and absent boards, too.")
@common.BENCH_OPTION
@common.BOARDS_OPTION
def watch(
    results: Path,
    page: bool,
    port: int,
    runs: bool,
    once: bool,
    as_json: bool,
    every_board: bool,
    **files: Path | None,
) -> None:
    """Show boards, locks, unfinished runs and the last records, until Ctrl-C; nothing is opened or changed.

    --results may be a folder that a team shares.
    """
    import json
    import sys

    from rich.console import Console

    from tinyhil.harness.watch.screen import tables
    from tinyhil.harness.watch.snapshot import snapshot

    if (runs or port) and not page:
        raise click.UsageError("--runs and --port are of --page")
    boards = read_boards(files["boards_file"], files["bench_file"])
    if as_json:
        click.echo(json.dumps(snapshot(boards, results)))
    elif page:
        _serve(port, lambda: snapshot(boards, results), runs)
    elif once or not sys.stdout.isatty():
        width = None if sys.stdout.isatty() else 160
        Console(width=width, highlight=False).print(tables(snapshot(boards, results), every_board))
    else:
        _refresh(lambda: tables(snapshot(boards, results), every_board))


def _refresh(draw: Callable[[], RenderableType]) -> None:
    """The terminal's tables every two seconds, until Ctrl-C."""
    import time

    from rich.live import Live

    with Live(draw(), auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            time.sleep(EVERY_S)
            live.update(draw(), refresh=True)


def _serve(port: int, look: Callable[[], dict[str, Any]], runs: bool) -> None:
    """The page until Ctrl-C; jobs that it started end with it."""
    import secrets

    from tinyhil.harness.watch.jobs import Jobs
    from tinyhil.harness.watch.server import ADDRESS, WatchServer

    token = secrets.token_urlsafe(24)
    jobs = Jobs(Path.cwd()) if runs else None
    with WatchServer(port, look, jobs, token) as server:
        click.echo(f"http://{ADDRESS}:{server.server_port}/{f'#token={token}' if runs else ''}")
        say("who opens this address may run records again" if runs else "read-only; --runs lets records be run again")
        try:
            server.serve_forever()
        finally:
            if jobs is not None:
                jobs.stop()
