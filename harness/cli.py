"""The command `hil`. Imports of weight happen inside the commands: `hil --help` answers at once."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import click

from tinyhil import errors
from tinyhil.harness import memory_limit
from tinyhil.harness.commands import (
    bench,
    boards,
    calibrate,
    calibrate_cycles,
    compare,
    completion,
    convert,
    diff,
    docs,
    doctor,
    energy,
    engines,
    export,
    fit,
    flash,
    formats,
    generate,
    golden,
    inspect,
    mlperf,
    new,
    plan,
    profile,
    report,
    run,
    schema,
    search,
    sweep,
    train,
    watch,
)
from tinyhil.harness.commands.common import say
from tinyhil.harness.commands.given_once import about_one
from tinyhil.harness.settings.failure import defect, failure
from tinyhil.harness.settings.output import outlive_reader
from tinyhil.notice import telling
from tinyhil.quoting import printable


class _Commands(click.Group):
    """Keeps click from answering Ctrl-C with an empty line of its own, and a reader that has gone with exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None
        except BrokenPipeError:
            raise _ReaderHasGone from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By what people want to do."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(command.name or "", command.get_short_help_str(200)) for command in commands])
        with formatter.section("Begin with"):
            formatter.write_dl(BEGIN)


_EXTRA = re.compile(r"Got unexpected extra argument \((\S+)\)")  # as click says it


class _ReaderHasGone(Exception):
    """Of what we print, as in `hil run --json | true`."""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(package_name="tinyhil", prog_name="hil")
@click.pass_context
def hil(context: click.Context) -> None:
    """Fit a trained model into a microcontroller and prove on the board that it fits."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
    else:
        context.with_resource(telling(say))


GROUPS = {
    "Measure": (run.run, profile.profile, bench.bench, diff.diff, mlperf.mlperf),
    "Choose and plan": (
        *(fit.fit, search.search, sweep.sweep, train.train, plan.plan),
        *(formats.formats, inspect.inspect, calibrate.calibrate, energy.energy),
    ),
    "Look and compare": (report.report, compare.compare, engines.engines, golden.golden),
    "Take along": (new.new, export.export, generate.generate, convert.convert),
    "Boards and tools": (
        boards.boards,
        watch.watch,
        flash.flash,
        doctor.doctor,
        calibrate_cycles.calibrate_cycles,
        docs.docs,
        schema.schema,
        completion.completion,
    ),
}
BEGIN = (
    ("hil fit digits_cnn", "Which boards does it fit? A model that ships, or a file of yours."),
    ("hil docs questions", "Which command answers which question; `hil docs half_hour`: the whole."),
)
for _commands in GROUPS.values():
    for _command in _commands:
        hil.add_command(about_one(completion.with_names(_command)))


def main(arguments: list[str] | None = None) -> None:
    """Entry point: every expected failure is one line on stderr and a documented exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    sys.exit(_guard(lambda: _dispatch(arguments), words[0] if words else ""))


def _dispatch(arguments: list[str] | None) -> None:
    threading.excepthook = lambda failed: defect(failed.exc_value) and None  # not on the terminal
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows knows no hang-up
            signal.signal(getattr(signal, name), signal.default_int_handler)  # end boards and files as Ctrl-C does
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    outlive_reader("stdout")
    outlive_reader("stderr")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an ASCII locale can not write every name
    memory_limit.prepare()
    hil.main(arguments, prog_name="hil", standalone_mode=False)


def _guard(body: Callable[[], Any], command: str) -> int:
    try:
        body()
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return errors.EXIT_USAGE
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        usual = f"hil {command}" if command in hil.commands else "hil"
        said = " ".join(error.format_message().split()).rstrip(".") + _stands_before(error) + _is_option(error)
        return _fail(f"{said}; see `{context.command_path if context else usual} --help`", errors.EXIT_USAGE)
    except click.Abort:
        return _fail(*failure(KeyboardInterrupt(), command))
    except (BrokenPipeError, _ReaderHasGone):
        sys.stdout = None  # or Python complains when it flushes it at the end
        return errors.EXIT_OK
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            sys.stdout = None
        return _fail(*failure(error, command))
    return errors.EXIT_OK


def _stands_before(error: click.ClickException) -> str:
    """That an option nobody knows here is one of the command whose part this is; else nothing."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None or error.ctx.parent is None:
        return ""
    above = error.ctx.parent
    is_known = any(error.option_name in option.opts for option in above.command.params)
    return f": it stands before `{error.ctx.info_name}`, after `{above.command_path}`" if is_known else ""


def _is_option(error: click.ClickException) -> str:
    """That what was given bare is the value of an option here, as of `--model`; else nothing."""
    context, extra = getattr(error, "ctx", None), _EXTRA.match(error.format_message())
    if context is None or extra is None or context.params.get("model", "no option"):
        return ""
    return f"; a model is given as `--model {extra.group(1)}`"


def _fail(message: str, code: int) -> int:
    lines = message.split("\n")  # several only where a file has several faults
    click.echo("hil: " + "\n".join(printable(line) for line in lines), err=True)  # parts may come from a device
    return code


if __name__ == "__main__":
    main()
