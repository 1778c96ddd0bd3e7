"""What failures and notes of the commands say, in the words of Python: arguments for options, no files of ours."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tinyhil.errors import HilError

P = ParamSpec("P")
R = TypeVar("R")

FOLDER = "tinyhil-"  # what temporary folders of models begin with
ARGUMENTS = {"format": "formats", "inputs": "x"}
WORDS = (
    (rf"\S*/{FOLDER}[^\s:]*/samples\.npz", "x"),
    (rf"\S*/{FOLDER}[^\s:]*/([^\s/:]+)", r"\1"),
    (r"give --calibrate \S+?\.npz", "call .calibrate(x)"),
    (r"--calibrate \S+", ".calibrate(x)"),
    (r"needs --inputs x\.npz( \(key x, labels y\) or x\.npy)?", "needs samples, x"),
    (
        r"--(\w[\w-]*)[ =](\d+(?:\.\d+)?|[A-Z]{2,}|[A-Za-z]\w*\d\w*)\b",
        lambda found: f"{_argument(found[1])}={_value(found[2])}",
    ),
    (r"--(\w[\w-]*)", lambda found: _argument(found[1])),
)


def in_a_project(text: str) -> str:
    """A line of a command as tests and scripts are told it, which take boards of their own from the project's file."""
    return text.replace("--boards-file FILE", "hil_boards_file in pyproject.toml")


def in_python(text: str) -> str:
    """A line of a command as Python's callers are told it."""
    parts = in_a_project(text).split("`")  # between two of these a command to type, which stays
    for index in range(0, len(parts), 2):
        for pattern, words in WORDS:
            parts[index] = re.sub(pattern, words, parts[index])
    return "`".join(parts)


def _argument(option: str) -> str:
    return ARGUMENTS.get(option, option.replace("-", "_"))


def _value(text: str) -> str:
    return text if text[0].isdigit() or text.isupper() else repr(text)


def worded_for_python(called: Callable[P, R]) -> Callable[P, R]:
    """The function, whose HilErrors speak Python."""

    @functools.wraps(called)
    def wrapped(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return called(*arguments, **named)
        except HilError as error:
            error.args = tuple(in_python(part) if isinstance(part, str) else part for part in error.args)
            raise

    return wrapped
