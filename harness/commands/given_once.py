"""What a command is about may be said once: of two boards, the first would be left out without a word."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

ABOUT = {"--board", "--model", "--format"}


def about_one(command: click.Command) -> click.Command:
    """`command`, and those below it, refusing a second board, model or format where they take one."""
    for below in getattr(command, "commands", {}).values():
        about_one(below)
    make_parser = command.make_parser

    def making(context: click.Context) -> Any:  # click's parser is not public
        parser = make_parser(context)
        parse_args = parser.parse_args

        def parsing(args: list[str]) -> Any:
            found = parse_args(args)
            for parameter, times in Counter(found[2]).items():
                if times > 1 and isinstance(parameter, click.Option) and not parameter.multiple:
                    _refuse(parameter, context)
            return found

        parser.parse_args = parsing  # type: ignore[method-assign]
        return parser

    command.make_parser = making  # type: ignore[assignment, method-assign]
    return command


def _refuse(option: click.Option, context: click.Context) -> None:
    names = ABOUT & {*option.opts}
    if names:
        raise click.UsageError(f"{min(names)} is given twice, and one is taken; run the command once for each", context)
