"""The command `hil`. Imports of weight happen inside the commands: `hil --help` answers at once."""

from __future__ import annotations

import errno
import os
import signal
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
@click.option("--assignment", type=click.Path(path_type=Path), help="File with a format per value; replaces --format.")
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
    "--load",
    type=click.Choice(["direct", "flash"]),
    default="direct",
    show_default=True,
    help="Emulated boards: put the image into the flash, or have the real flashing program write it.",
)
@click.option("--no-flash", is_flag=True, help="Real boards: never write; the firmware there must be this image.")
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
    from harness.record import store
    from harness.report import print_record
    from harness.run import Request
    from harness.run import run as run_request
    from harness.toolchain import default_cache_dir

    request = Request(format=format_, **options)
    log = Console(stderr=True, highlight=False, soft_wrap=True)
    with progress_on(log, request.board) as progress:
        outcome = run_request(request, _boards(boards_file), default_cache_dir(), _say, progress)
    record, path = store(outcome)
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
@click.option("--board", required=True, help="Board to flash: uno, due or h747; see `hil boards`.")
@click.option("--model", required=True, help="Name in the zoo, or path to an .onnx file.")
@click.option("--format", "format_", default="fixed16", show_default=True, help="Number format of every tensor.")
@click.option("--assignment", type=click.Path(path_type=Path), help="File with a format per value; replaces --format.")
@click.option("--calibrate", type=click.Path(path_type=Path), help="Inputs to calibrate the ranges on.")
@click.option("--port", help="Serial port of the board; default: found by USB identity, else an emulated board.")
@BOARDS_OPTION
def flash(boards_file: Path | None, format_: str, **options: Any) -> None:
    """Build, write into the board, verify, and wait for the HELLO that proves it."""
    from harness.load import flash_model
    from harness.run import Request
    from harness.toolchain import default_cache_dir

    request = Request(format=format_, **options)
    loaded = flash_model(request, _boards(boards_file), default_cache_dir(), _say)
    where = loaded.port or "emulated"
    click.echo(f"board          {request.board} ({where})")
    click.echo(f"image          {loaded.image.hash.hex()}, {loaded.image.flash_bytes} B: written, verified, running")
    click.echo(f"flash          {loaded.flash_seconds:.2f} s, HELLO after {loaded.hello_seconds:.2f} s more")


@hil.command()
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Project folder.")
@click.option("--format", "format_", default="fixed16", show_default=True, help="Number format of every tensor.")
@click.option("--assignment", type=click.Path(path_type=Path), help="File with a format per value; replaces --format.")
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
@click.option("--out", type=click.Path(path_type=Path), help="Default: beside the model, where `hil run` finds it.")
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
@click.argument("instance", required=False, type=click.Path(path_type=Path))
@click.option("--model", help="Plan the arena of this model: name in the zoo, or path to an .onnx file.")
@click.option("--board", help="With --model: the memory is that of this board.")
@click.option("--format", "format_", default="fixed16", show_default=True, help="Number format of every tensor.")
@click.option("--assignment", type=click.Path(path_type=Path), help="File with a format per value; replaces --format.")
@click.option("--capacity", type=click.IntRange(min=0), help="Bytes there are; more needed: exit code 4.")
@click.option("--time", "seconds", type=click.FloatRange(min=0, min_open=True), help="Seconds to search at most.")
@click.option("--planner", default="portfolio", show_default=True, help="Planner; see docs/memplan.md.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(["in-place", "gaps", "order"]),
    help="With --model: leave out this pass; may be repeated.",
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the memory map into this .svg or .png file.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan alone on stdout.")
@BOARDS_OPTION
def plan(boards_file: Path | None, plot: Path | None, as_json: bool, format_: str, **options: Any) -> None:
    """Plan memory: the buffers of the CSV file INSTANCE, or the arena of a model; draw the memory map."""
    import json

    from rich.console import Console

    from harness.memory_map import check_picture, print_map, save_map
    from harness.plan import Wanted, find_plan

    if plot is not None:
        check_picture(plot)
    found = find_plan(Wanted(format=format_, **options), _boards(boards_file), _say)
    if as_json:
        click.echo(json.dumps(found.record()))
    else:
        click.echo("\n".join(found.lines()))
        print_map(found.map(), Console(highlight=False))
    if plot is not None:
        save_map(found.map(), plot)
    if found.complaint is not None:
        raise errors.DoesNotFit(found.complaint)


@hil.command()
@click.option("--model", required=True, help="Name in the zoo, or path to an .onnx file.")
@click.option("--ram", type=click.IntRange(min=1), required=True, help="Most bytes of the arena, model input apart.")
@click.option("--strategy", default="lagrange", show_default=True, help="How to search; see docs/search.md.")
@click.option("--set", "set_", multiple=True, metavar="NAME=VALUE", help="An option of the strategy; may be repeated.")
@click.option("--formats", default="fixed8,fixed16", show_default=True, help="Formats on offer, with commas between.")
@click.option("--evaluations", type=click.IntRange(min=1), default=200, show_default=True, help="Stop after so many.")
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after so many.")
@click.option("--target", type=click.IntRange(min=0), help="Stop when no more samples disagree with the float model.")
@click.option("--samples", type=click.IntRange(min=1), help="Search on so many training samples, evenly spread.")
@click.option("--seed", type=int, default=0, show_default=True, help="For strategies that draw.")
@click.option("--inputs", type=click.Path(path_type=Path), help="Search on its first half, report on its second.")
@click.option("--calibrate", type=click.Path(path_type=Path), help="Inputs to calibrate the ranges on.")
@click.option(
    "--evaluator",
    type=click.Choice(["engine", "reference"]),
    default="engine",
    show_default=True,
    help="The compiled host engine, or numpy: slower, and without a compiler.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Assignment file; default: beside the trials.")
@click.option(
    "--results", type=click.Path(path_type=Path), default=Path("results"), show_default=True, help="Folder for trials."
)
@click.option("--json", "as_json", is_flag=True, help="Print the record alone on stdout.")
def search(as_json: bool, **options: Any) -> None:
    """Choose a format for every tensor under a RAM limit, so that the fewest outputs differ from the float model."""
    import json

    from rich.console import Console

    from harness.search import SearchRequest, run_search
    from harness.search_report import print_outcome, search_progress
    from harness.toolchain import default_cache_dir

    request = SearchRequest(**options)
    with search_progress(Console(stderr=True), request.evaluations) as progress:
        outcome = run_search(request, default_cache_dir(), _say, progress)
    if as_json:
        click.echo(json.dumps(outcome.record))
    else:
        print_outcome(outcome, Console(highlight=False, width=None if sys.stdout.isatty() else 120))


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
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # end boards and temporary files as Ctrl-C does
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    check_names()
    hil.main(arguments, prog_name="hil", standalone_mode=False)


def _guard(body: Callable[[], Any]) -> int:
    try:
        body()
        sys.stdout.flush()
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
        sys.stdout = None if error.errno == errno.ENOSPC else sys.stdout
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", errors.EXIT_USAGE)
    return errors.EXIT_OK


def _fail(message: str, code: int) -> int:
    click.echo(f"hil: {message}", err=True)
    return code


if __name__ == "__main__":
    main()
