"""`hil docs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tinyhil.harness.commands import option
from tinyhil.harness.commands.common import say

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from tinyhil.harness.offline.pages import pages

    return [CompletionItem(name) for name in pages() if name.startswith(incomplete)]


@click.command()
@click.argument("topic", required=False, shell_complete=_topics)
@option.text("--find", "Print the lines of all pages that hold the word.", metavar="WORD")
def docs(topic: str | None, find: str | None) -> None:
    """Print a page of the documentation, without a network; without TOPIC, list the pages."""
    from tinyhil.errors import ConfigError
    from tinyhil.harness.offline.pages import lines_with, of_a_wheel, page_text, pages, title_of

    if topic is not None and find is not None:
        raise click.UsageError("give a TOPIC or --find, not both")
    if find is not None:
        found = lines_with(find)
        if not found:
            raise ConfigError(f"no page holds {find!r}; try one word, or `hil docs questions`; `hil docs` lists all")
        click.echo("\n".join(found))
        if note := of_a_wheel("\n".join(found)):
            say(note)
    elif topic is not None:
        click.echo(page_text(topic), nl=False)
    else:
        known = pages()
        wide = max(map(len, known))
        click.echo("\n".join(f"{name:<{wide}}  {title_of(path)}" for name, path in known.items()))
        say("begin with `hil docs half_hour`; `hil docs questions` says which command answers which question")
