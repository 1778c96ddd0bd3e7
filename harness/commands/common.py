"""What several commands share: their common options, how they speak, the table of boards."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tinyhil.harness.commands import option
from tinyhil.harness.commands.option import Command
from tinyhil.preference import PREFERENCES

if TYPE_CHECKING:
    from rich.console import Console

    from tinyhil.harness.settings.config import Boards

FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
BOARDS_OPTION = option.path(
    "--boards-file", "A file of your own boards and chips, beside those that ship; its keys: `hil schema boards`."
)


def _not_both(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """The value; a usage error when formats are given in both ways."""
    both = [context.get_parameter_source(name) for name in ("format_", "assignment")]
    if both == [click.core.ParameterSource.COMMANDLINE] * 2:
        raise click.UsageError("give --format or --assignment, not both: the file says the format of every value")
    return value


class PassName(click.ParamType):
    """A pass of the compiler by its name. They are looked up when one is given: help must not load the compiler."""

    name = "pass"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        """click.BadParameter for what is no pass, with those that there are."""
        return self._choice().convert(value, parameter, context)

    def shell_complete(self, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        """The names that begin so."""
        return self._choice().shell_complete(context, parameter, incomplete)

    @staticmethod
    def _choice() -> click.Choice[str]:
        from tinyhil.passes.every import PASSES

        return click.Choice([one.name for one in PASSES])


FORMAT_OPTION = option.text(
    "--format", "format_", "Number format of every tensor, see `hil formats`.", default="fixed16", callback=_not_both
)
ASSIGNMENT_OPTION = option.path(
    "--assignment", "File with a format per value, instead of --format.", callback=_not_both
)


def format_options(command: Command) -> Command:
    """`--format` and `--assignment`: one format for all values, or one for each."""
    return FORMAT_OPTION(ASSIGNMENT_OPTION(command))


def correction_options(where: str) -> Callable[[Command], Command]:
    """What writes another model for its formats, as one argument `corrections`; `where` says which formats."""

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def chosen(*args: Any, equalize: bool, learn_rounding: bool, correct_bias: bool, **options: Any) -> Any:
            from tinyhil.harness.train.correction import Chosen

            return command(*args, corrections=Chosen(equalize, learn_rounding, correct_bias), **options)

        flags = {
            "--correct-bias": f"Write another model: layers keep their means {where}.",
            "--learn-rounding": "Write another model: weights rounded up or down as layers need.",
            "--equalize": "Write another model: channels of neighbouring layers of one size.",
        }
        for name, help_ in flags.items():
            chosen = option.flag(name, help_)(chosen)
        return cast(Command, chosen)

    return decorated


MODEL_OPTION = option.text("--model", "Name in the zoo, or path to an .onnx, .dsl or .tflite file.", required=True)
INPUTS_OPTION = option.path(
    "--inputs", ".npz (x, and labels y if any) or .npy to run on; a model of the zoo: its samples."
)


def prefer_option(
    default: str | None = None, usual: str = "as --assignment was found with, else balanced"
) -> Callable[[Any], Any]:
    """`--prefer`: whether time or memory counts; `default` None: `usual`."""
    return option.choice(
        PREFERENCES,
        "--prefer",
        "What counts where they disagree. latency: layer by layer and whole samples wherever these fit; ram: the "
        "smallest arena by layers and rows and the least input; least: smaller still, in strips, halos computed again; "
        "balanced: time, as long as no more than half of the board's RAM is taken; without a board less RAM where it "
        "costs next to no time.",
        default=default,
        show_default=usual if default is None else True,
    )


MODE_OPTION = option.choice(
    ("quiet", "stream"), "--mode", "quiet: wire idle while timing; stream: receive during inference.", default="quiet"
)
RAM_OPTION = option.count(
    "--ram",
    "Most bytes of RAM for arena and input: of the schedules that fit the fastest by the model, halos computed "
    "again if need be.",
)


def memory_options(command: Command) -> Command:
    """`--prefer`, as the assignment file says where it is not given, and `--ram`."""
    return prefer_option()(RAM_OPTION(command))


CALIBRATE_OPTION = option.path("--calibrate", "Inputs to calibrate the ranges on.")


def calibrate_by_option(default: str | None = None) -> Callable[[Any], Any]:
    """`--calibrate-by`: what of its ranges is kept; `default` None: as the assignment file says."""
    return option.choice(
        ("minmax", "percentile", "kl", "mse", "paper-literal"),
        "--calibrate-by",
        "What of its range a format is fitted to: all, all but one value in a thousand, what loses least, "
        "or as a paper prints it (`hil docs formats`).",
        default=default,
        show_default="as --assignment was found with, else minmax" if default is None else True,
    )


def calibrate_options(command: Command) -> Command:
    """`--calibrate` and `--calibrate-by`: on which inputs ranges are observed, and what of them is kept."""
    return CALIBRATE_OPTION(calibrate_by_option()(command))


PORT_OPTION = option.text(
    "--port", "Serial port or pyserial URL of the board; default: found by USB identity, else emulated."
)
EMULATOR_OPTION = option.text(
    "--emulator", "Another emulator of the chip, for a second opinion: `hil boards --fidelity`."
)
TIMEOUT_OPTION = option.number(
    "--timeout", "timeout_s", "Seconds without progress before the board is given up.", least=0.1, default=30.0
)
RESULTS_OPTION = option.path("--results", "Folder for records.", default=Path("results"))
BENCH_OPTION = option.path("--bench", "bench_file", "Bench file; default: ~/.config/tinyhil/bench.yaml.")
WAIT_OPTION = option.number(
    "--wait", "wait_s", "Seconds to wait for a board that is in use; default: 30, or as the bench file says."
)
NO_FLASH_OPTION = option.flag("--no-flash", "Real boards: never write; the firmware there must be this image.")


def joined(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> str | None:
    """Names with commas between, however often the option is given; None if it is not."""
    return ",".join(value) or None


def bench_options(command: Command) -> Command:
    """Which boards there are, and how long to wait for one."""
    return WAIT_OPTION(BENCH_OPTION(BOARDS_OPTION(command)))


def _states(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    """None if nothing is said: states are then found by their names."""
    return None if not value else tuple(pair for pair in value if pair != "none")


def stream_options(command: Command) -> Command:
    """What is to be known of a model with states."""
    state = option.text(
        "--state",
        "states",
        "This input of the model is a state that goes on as this output; may be repeated. Default: by their "
        "names; `--state none`: there is none.",
        multiple=True,
        metavar="IN=OUT",
        callback=_states,
    )
    steps = option.count("--steps", "Models with states: steps of one sample. Default: what the inputs show.")
    return state(steps(command))


def tflite_options(command: Command) -> Command:
    """Of `.tflite` files: whose integers, and a second model that takes what the first gives. Each becomes a part of
    the model's name (harness/job/zoo.py)."""

    @functools.wraps(command)
    def named(*args: Any, rounding: str | None, **options: Any) -> Any:
        if rounding is not None and options.get("model"):
            from tinyhil.harness.job.zoo import rounded_name

            options["model"] = rounded_name(options["model"], rounding)
        elif rounding is not None:
            raise click.UsageError("--tflite-rounding belongs to a .tflite file: give --model")
        return command(*args, **options)

    rounding_option = option.choice(
        ("tflm", "litert", "cmsis-nn"),
        "--tflite-rounding",
        "rounding",
        "Whose integers a .tflite file gives. Default: LiteRT's; with variables TensorFlow Lite Micro's.",
    )
    return then_options(cast(Command, rounding_option(named)))


def then_options(command: Command) -> Command:
    """A second model that takes what the first gives: both become one name (harness/job/zoo.py)."""

    @functools.wraps(command)
    def joined(*args: Any, then: str | None, hop: int | None, **options: Any) -> Any:
        if then is not None and options.get("model"):
            from tinyhil.harness.job.zoo import pair_name

            options["model"] = pair_name(options["model"], then, hop)
        elif then is not None or hop is not None:
            raise click.UsageError("--then names a second model, and --hop belongs to it: give --model and --then")
        return command(*args, **options)

    second = option.text("--then", "A second .tflite model that takes what the first one gives.", metavar="MODEL")
    hop = option.count("--hop", "With --then: how many numbers of a window of the first model are new. Default: all.")
    return cast(Command, second(hop(joined)))


def model_options(command: Command) -> Command:
    """Which model, over how many steps, in whose integers and which formats: what says what the firmware is."""
    return cast(Command, MODEL_OPTION(stream_options(tflite_options(format_options(command)))))


def read_boards(path: Path | None, bench: Path | None = None) -> Boards:
    """The boards of `path`, else of the project in this folder, beside those of the boards.yaml at hand; with the
    instances of the user's bench file."""
    from tinyhil.harness.settings import own_project
    from tinyhil.harness.settings.bench_file import default_bench
    from tinyhil.harness.settings.config import load_boards

    return load_boards(path or own_project.boards_file(), bench or default_bench())


def boards_for(name: str | None, path: Path | None, bench: Path | None = None) -> Boards | None:
    """The same where a board is named; None, and no file read, where none is."""
    return None if name is None else read_boards(path, bench)


def console(width: int = 160) -> Console:
    """stdout as it is; where that is no terminal, of `width` characters."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else width)


def say(line: str) -> None:
    """Tell the user what is going on: a line on stderr, so that stdout stays the result alone. What was told before in
    this command is not repeated."""
    from tinyhil.quoting import printable

    context = click.get_current_context(silent=True)  # none in other threads
    lines: dict[str, None] = {} if context is None else context.find_root().meta.setdefault("tinyhil.notes", {})
    if line not in lines:
        lines[line] = None
        click.echo(printable(line), err=True)


def end_with(record: Mapping[str, Any]) -> None:
    """End the command with the exit code of what it measured (docs/cli.md), and say why where that fails a gate."""
    from tinyhil.harness.records.verdict import exit_code_of, gate_line

    if line := gate_line(record):
        click.echo(f"hil: {line}", err=True)
    if code := exit_code_of(record):
        sys.exit(code)


def write_result(path: Path, text: str) -> None:
    """Into the file, which is told, or to stdout."""
    from tinyhil import files

    if str(path) == "-":
        click.echo(text, nl=False)
        return
    files.write_text(path, text)
    click.echo(f"{path}: written", err=True)
