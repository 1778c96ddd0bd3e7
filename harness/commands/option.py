"""The kinds of options that commands have: what each may be is said once, and a default is shown. The last text of an
option is its help: `@option.count("--runs", "How often.", default=5)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


class Finite(click.FloatRange):
    """A range that NaN and infinity are not in: no comparison tells that a NaN lies outside."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """click.BadParameter for what is no finite number of the range."""
        number = float(super().convert(value, parameter, context))
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number", parameter, context)
        return number


def text(*said: str, **more: Any) -> Decorator[Any]:
    """Any text, or what `type` says."""
    *names, help_ = said
    if more.get("default") not in (None, ""):
        more.setdefault("show_default", True)
    return click.option(*names, help=help_, **more)


def flag(*said: str, **more: Any) -> Decorator[Any]:
    """Given or not."""
    return text(*said, is_flag=True, **more)


def path(
    *said: str, exists: bool = False, dir_okay: bool = True, file_okay: bool = True, **more: Any
) -> Decorator[Any]:
    """A file or a folder."""
    kind = click.Path(exists=exists, dir_okay=dir_okay, file_okay=file_okay, path_type=Path)
    return text(*said, type=kind, **more)


def choice(words: Sequence[str], *said: str, **more: Any) -> Decorator[Any]:
    """One of `words`."""
    return text(*said, type=click.Choice(words), **more)


def count(*said: str, least: int = 1, most: int | None = None, **more: Any) -> Decorator[Any]:
    """A whole number."""
    return text(*said, type=click.IntRange(least, most), **more)


def number(*said: str, least: float = 0, most: float | None = None, above: bool = False, **more: Any) -> Decorator[Any]:
    """A finite number that is not less; `above`: not that least one either."""
    return text(*said, type=Finite(least, most, min_open=above), **more)
