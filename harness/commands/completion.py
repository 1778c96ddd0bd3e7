"""`hil completion`, and what shells complete beside commands and options: boards, models, formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
FILES = {
    "bash": "~/.local/share/bash-completion/completions/hil",
    "zsh": "~/.zfunc/_hil, a folder of $fpath",
    "fish": "~/.config/fish/completions/hil.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what a shell needs to complete commands, options, boards, models and formats.

    For bash: hil completion bash > ~/.local/share/bash-completion/completions/hil
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(context.find_root().command, {}, "hil", "_HIL_COMPLETE").source())
    click.echo(f"# for {FILES[shell]}", err=True)


def _item(value: str, kind: str = "plain") -> CompletionItem:
    from click.shell_completion import CompletionItem

    return CompletionItem(value, type=kind)


class _Names(click.ParamType):
    """Text as before; completed by names."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(click.STRING.convert(value, param, ctx))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [_item(name) for name in self.names(ctx) if name.startswith(incomplete)]

    def names(self, context: click.Context) -> Iterable[str]:
        raise NotImplementedError


class BoardNames(_Names):
    """Completes names of boards."""

    def names(self, context: click.Context) -> Iterable[str]:
        """Of the files at hand and the bench, and their emulated forms."""
        from tinyhil.errors import HilError
        from tinyhil.harness.commands.common import read_boards

        try:
            known = read_boards(context.params.get("boards_file"), context.params.get("bench_file"))
        except HilError:
            return []
        return [*known.entries, *known.bench.boards, *(f"{name}@emulated" for name in known.entries)]


class ModelNames(_Names):
    """Completes models of the zoo."""

    def names(self, context: click.Context) -> Iterable[str]:
        """Folders of the zoo."""
        from tinyhil.harness.job.zoo import streaming_names, zoo_names

        return [*zoo_names(), *streaming_names()]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names of the zoo, else files."""
        return super().shell_complete(ctx, param, incomplete) or [_item(incomplete, "file")]


class FormatNames(_Names):
    """Completes number formats."""

    def names(self, context: click.Context) -> Iterable[str]:
        """Every name that `--format` takes."""
        from tinyhil.formats import FORMATS

        return [fmt.name for fmt in FORMATS]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Of a list with commas its last."""
        before, comma, last = incomplete.rpartition(",")
        return [_item(f"{before}{comma}{name}") for name in self.names(ctx) if name.startswith(last)]


COMPLETED: dict[str, click.ParamType] = {
    **dict.fromkeys(("board", "board_names"), BoardNames()),
    "model": ModelNames(),
    **dict.fromkeys(("format_", "formats"), FormatNames()),
}


def with_names(command: click.Command) -> click.Command:
    """The command, whose boards, models and formats shells complete from now on."""
    for parameter in command.params:
        if parameter.name in COMPLETED and parameter.type is click.STRING:
            parameter.type = COMPLETED[parameter.name]
    for inner in getattr(command, "commands", {}).values():
        with_names(inner)
    return command
