"""`hil export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tinyhil.codegen.export_kinds import KINDS
from tinyhil.harness.commands import common, option


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("model")
@common.stream_options
@common.tflite_options
@option.path("--out", "The .zip to write; of a header, an .h alone.", dir_okay=False, required=True)
@common.format_options
@common.calibrate_options
@option.text("--name", "What every name begins with; default: the model's, with `_net` where C or the library has it.")
@option.choice(
    ("static", "caller"),
    "--arena",
    "Whose memory the tensors live in: the library's own, or what the caller gives with every call.",
    default="static",
)
@option.text("--classes", "Names of the classes, separated by commas; default: the model's own.")
@option.path("--record", "Record of `hil run` whose figures go into the read-me.")
@option.text("--board", "Arrange and optimize it for the processor of this board, as `hil run` does.")
@common.memory_options
@common.BOARDS_OPTION
@option.flag("--sizes", "Compile it with the compilers here; print flash, RAM and stack, also into the read-me.")
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
