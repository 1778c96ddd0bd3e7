"""`hil new`."""

from __future__ import annotations

from pathlib import Path

import click

from tinyhil.harness.commands import common, option
from tinyhil.harness.commands.common import read_boards, say


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@option.path(
    "--model", "An .onnx, .dsl or .tflite file, with --inputs; default: an example with its samples.", dir_okay=False
)
@option.path("--inputs", "Samples to test with: .npz (x, and labels y if any) or .npy.", dir_okay=False)
@option.path("--calibrate", "Samples to calibrate the ranges on.", dir_okay=False)
@option.text("--board", "names", "A board; may be repeated.", multiple=True, default=("uno",))
@option.text("--format", "format_", "Format that is tested, see `hil fit`.", default="fixed16")
@common.BOARDS_OPTION
@common.BENCH_OPTION
def new(
    folder: Path,
    model: Path | None,
    inputs: Path | None,
    calibrate: Path | None,
    names: tuple[str, ...],
    format_: str,
    boards_file: Path | None,
    bench_file: Path | None,
) -> None:
    """Write a project into FOLDER: a model, its samples, a test on boards, a workflow of continuous integration."""
    import shlex
    from importlib.util import find_spec

    from tinyhil.harness.offline.new import NewProject, write_project

    wanted = NewProject(folder, model, inputs, calibrate, tuple(dict.fromkeys(names)), boards_file, format_)
    written = write_project(wanted, read_boards(boards_file, bench_file), say)
    for path in written:
        click.echo(folder / path)
    first = "" if find_spec("pytest") else "pip install 'tinyhil[pytest]' && "
    then = f"{first}cd {shlex.quote(str(folder))} && pytest --hil-update"
    click.echo(f"{folder}: {len(written)} files; {then}; README.md says the rest", err=True)
