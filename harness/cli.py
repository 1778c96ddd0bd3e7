"""The command `hil`. Imports of weight happen inside the commands: `hil --help` answers at once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.names import check_names
from tinyhil import errors

if TYPE_CHECKING:
    from harness.config import Boards

BOARDS_OPTION = click.option("--boards-file", type=click.Path(path_type=Path), help="Use this instead of boards.yaml.")


class _Commands(click.Group):
    """Keeps click from answering Ctrl-C with an empty line of its own."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tinyhil", prog_name="hil")
def hil() -> None:
    """Fit a trained model into a microcontroller and prove on the board that it fits."""


@hil.command()
@click.option("--board", required=True, help="Board to run on: uno, due, h747 or host; see `hil boards`.")
@click.option("--model", required=True, help="Name in the zoo, or path to an .onnx file.")
@click.option("--format", "format_", default="fixed16", show_default=True, help="Number format of every tensor.")
@click.option("--assignment", type=click.Path(path_type=Path), help="YAML file with a format per value.")
@click.option("--inputs", type=click.Path(path_type=Path), help=".npz (x, and labels y if any) or .npy to run on.")
@click.option("--calibrate", type=click.Path(path_type=Path), help="Inputs to calibrate the ranges on.")
@click.option("--samples", type=click.IntRange(min=1), help="Run on the first N samples only.")
@click.option("--port", help="Serial port or pyserial URL of the board; default: found by USB identity, else emulated.")
@click.option(
    "--mode",
    type=click.Choice(["quiet", "stream"]),
    default="quiet",
    show_default=True,
    help="quiet: wire idle while timing; stream: receive during inference.",
)
@click.option(
    "--uart",
    type=click.Choice(["lifted", "true"]),
    default="lifted",
    show_default=True,
    help="Emulated boards: wire as fast as it goes, or at its true speed.",
)
@click.option("--realtime", is_flag=True, help="Emulated boards: no faster than the real one.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    help="Seconds without progress before the board is given up.",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Tries after a link failure; a run that needed one exits with 9.",
)
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder for records."
)
@click.option("--json", "as_json", is_flag=True, help="Print the record alone on stdout.")
@BOARDS_OPTION
def run(boards_file: Path | None, as_json: bool, format_: str, **options: Any) -> None:
    """Compile, build, load, stream, measure, compare and record."""
    import json

    from rich.console import Console

    from harness.progress import progress_on
    from harness.record import make_record, write_record
    from harness.report import print_record
    from harness.run import Request
    from harness.run import run as run_request
    from harness.toolchain import default_cache_dir

    request = Request(format=format_, **options)
    log = Console(stderr=True, highlight=False, soft_wrap=True)
    with progress_on(log, request.board) as progress:
        outcome = run_request(request, _boards(boards_file), default_cache_dir(), _say, progress)
    record = make_record(outcome)
    path = write_record(record, request.results)
    if as_json:
        click.echo(json.dumps(record))
    else:
        print_record(record, Console(highlight=False, width=None if sys.stdout.isatty() else 160))
        click.echo(f"record         {path}")
    if not record["bit_exact"]:
        click.echo(f"hil: gate failed: {record['samples'] - record['equal_samples']} samples differ", err=True)
        sys.exit(errors.EXIT_GATE)
    if record["flaky"]:
        sys.exit(errors.EXIT_FLAKY)


@hil.command()
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Project folder.")
@click.option("--format", "format_", default="fixed16", show_default=True, help="Number format of every tensor.")
@click.option("--assignment", type=click.Path(path_type=Path), help="YAML file with a format per value.")
@click.option("--calibrate", type=click.Path(path_type=Path), help="Inputs to calibrate the ranges on.")
@BOARDS_OPTION
def generate(
    model: str, out: Path, format_: str, assignment: Path | None, calibrate: Path | None, boards_file: Path | None
) -> None:
    """Write a self-contained PlatformIO project for MODEL, ready for `pio run`."""
    from harness.generate import generate_project

    written, total = generate_project(model, out, format_, assignment, calibrate, _boards(boards_file), _say)
    click.echo(f"{out}: {written} of {total} files written", err=True)


@hil.command()
@click.argument("model")
@click.option("--inputs", type=click.Path(path_type=Path), help="Inputs to observe; default: the training part.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: ranges.json beside the model.")
def calibrate(model: str, inputs: Path | None, out: Path | None) -> None:
    """Record the range of every value of MODEL over calibration inputs."""
    from harness.generate import calibrate_model

    click.echo(f"{calibrate_model(model, inputs, out, _say)}: written", err=True)


@hil.command()
@click.argument("model")
def inspect(model: str) -> None:
    """List the operations and values of MODEL, with shapes: the names an assignment file may use."""
    from harness.generate import describe_model

    for line in describe_model(model):
        click.echo(line)


@hil.command()
@BOARDS_OPTION
def boards(boards_file: Path | None) -> None:
    """List the known boards and which of them are attached."""
    from harness.boards.attached import find_ports

    for name, board in _boards(boards_file).entries.items():
        ports = ", ".join(find_ports(board)) or ("emulated" if board.chip.emulator else "always there")
        ram = f"{board.chip.ram_bytes} B RAM" if board.chip.ram_bytes else ""
        click.echo(f"{name:6} {board.title:32} {board.chip.name:11} {ram:13} {ports}")


@hil.command()
def doctor() -> None:
    """Say what is present, missing or too old, and how to get it."""
    from rich.console import Console

    from harness.doctor import checks, exit_code, report

    found = checks()
    report(found, Console(highlight=False))
    sys.exit(exit_code(found))


def _boards(path: Path | None) -> Boards:
    from harness.config import load_boards

    return load_boards(path)


def _say(line: str) -> None:
    click.echo(line, err=True)


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every expected failure is one line on stderr and a documented exit code."""
    sys.exit(_guard(lambda: _dispatch(arguments)))


def _dispatch(arguments: list[str] | None) -> None:
    check_names()
    hil.main(arguments, prog_name="hil", standalone_mode=False)


def _guard(body: Callable[[], Any]) -> int:
    try:
        body()
    except errors.HilError as error:
        return _fail(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return errors.EXIT_USAGE
    except click.ClickException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "hil")
        said = " ".join(error.format_message().split()).rstrip(".")
        return _fail(f"{said}; see `{command} --help`", errors.EXIT_USAGE)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted; finished samples are kept and the same command resumes", errors.EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stdout = None  # or Python complains when it flushes it at the end
        return errors.EXIT_OK
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", errors.EXIT_USAGE)
    return errors.EXIT_OK


def _fail(message: str, code: int) -> int:
    click.echo(f"hil: {message}", err=True)
    return code


if __name__ == "__main__":
    main()
