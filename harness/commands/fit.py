"""`hil fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say
from tinyhil.preference import RAM


@click.command()
@click.argument("model")
@common.stream_options
@option.text(
    "--boards",
    "--board",
    "names",
    "Boards, with commas between or one by one; all: every chip's board.",
    multiple=True,
    default=("all",),
    callback=common.joined,
)
@option.text(
    "--formats",
    "--format",
    "Number formats, with commas between.  [default: fixed8,int8,fixed16]",
    multiple=True,
    callback=common.joined,
)
@option.path("--inputs", "Samples: how many decisions differ from the float model's.")
@common.CALIBRATE_OPTION
@common.calibrate_by_option("minmax")
@option.count("--samples", "Judge on so many samples, evenly spread.")
@common.prefer_option(RAM)
@option.flag("--json", "as_json", "Print the table as one JSON object.")
@common.BOARDS_OPTION
@common.BENCH_OPTION
def fit(names: str, as_json: bool, boards_file: Path | None, bench_file: Path | None, **options: Any) -> None:
    """Say for every board whether MODEL fits, with what flash, RAM and latency, in which format; nothing is built."""
    import json

    from tinyhil.harness.fit.session import NO, FitRequest
    from tinyhil.harness.fit.show import print_fit
    from tinyhil.harness.python import calls

    wanted = tuple(name.strip() for name in names.split(",") if name.strip())
    outcome = calls.fit(FitRequest(boards=wanted, **options), read_boards(boards_file, bench_file), say)
    if as_json:
        click.echo(json.dumps(outcome.printed))
    else:
        print_fit(outcome, common.console())
    if all(row.fits == NO for row in outcome.rows):
        narrower = ",".join(name for name in ("fixed4", "kmeans16") if name not in {row.format for row in outcome.rows})
        remedy = f"try narrower ones (--formats {narrower}) or a larger board" if narrower else "choose a larger board"
        raise errors.DoesNotFit(
            f"{outcome.model}: fits none of these boards in these formats; see the reasons above, {remedy}; what a "
            "library of it takes, without start-up and wire protocol, `hil export header --sizes` says"
        )
