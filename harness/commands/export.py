"""`hil export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.codegen.export_kinds import KINDS
from tinyhil.harness.commands import common


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("model")
@common.stream_options
@common.tflite_options
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The .zip to write.")
@common.format_options
@common.calibrate_options
@click.option(
    "--name", help="What every name of the library begins with; default: the model's, with `_net` where C has it."
)
@click.option(
    "--arena",
    type=click.Choice(["static", "caller"]),
    default="static",
    show_default=True,
    help="Whose memory the tensors live in: the library's own, or what the caller gives with every call.",
)
@click.option("--classes", help="Names of the classes, separated by commas; default: the model's own.")
@click.option(
    "--record", type=click.Path(path_type=Path), help="Record of `hil run` whose figures go into the read-me."
)
@click.option("--board", help="Arrange and optimize it for the processor of this board, as `hil run` does.")
@common.prefer_option()
@common.BOARDS_OPTION
@click.option(
    "--sizes", is_flag=True, help="Compile it with the compilers here; print flash and RAM, also into the read-me."
)
def export(format_: str, boards_file: Path | None, **options: Any) -> None:
    """Write MODEL as a library for other firmware, as a package of KIND."""
    from tinyhil.harness.offline.export import Wanted
    from tinyhil.harness.python import calls
    from tinyhil.preference import planned_by

    wanted = Wanted(format=format_, **options)
    library = calls.export(wanted, common.boards_for(wanted.board, boards_file), common.say)
    own = (
        f"{library.run_bytes} B of tensors + {library.predict_bytes - library.run_bytes} B for integers of real inputs"
    )
    arena = f"arena {library.predict_bytes} B{planned_by(wanted.preferred)}"
    click.echo(f"{wanted.out}: library {library.prefix}, {arena} = {own}", err=True)
