"""What interrupted work goes on from: JSON objects, one a line, that carry a sum of themselves and are of a known kind.

A line that was cut has no sum, one that somebody edited has another. Neither says anything: what it would have said is
computed again, and the user is told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tinyhil.fields import first_fault
from tinyhil.notice import tell

MARK = ', "sum": "'
DIGITS = 16
Kind = TypeVar("Kind", bound=BaseModel)


class Damaged(ValueError):
    """A line that is not what was written, and why."""


def sealed(data: Mapping[str, Any]) -> str:
    """`data`, which must not be empty, as a line with its sum; without an end of line."""
    body = json.dumps(data)[:-1]
    return f'{body}{MARK}{_sum(body)}"}}'


def unsealed(line: str | bytes, kind: type[Kind]) -> Kind:
    """The `kind` that a line holds; Damaged if it was cut, edited, or is of another version."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    body, mark, end = text.strip().rpartition(MARK)
    if not mark or len(end) != DIGITS + 2:
        raise Damaged("cut, or without a sum")
    if end != f'{_sum(body)}"}}':
        raise Damaged("edited")
    try:
        return kind.model_validate(json.loads(f"{body}}}"))
    except ValidationError as error:
        raise Damaged(f"of another version: {first_fault(error)}") from None
    except (ValueError, RecursionError):
        raise Damaged("no JSON") from None


def whole_lines(path: Path, lines: Iterable[str | bytes], kind: type[Kind], first: int = 1) -> Iterator[Kind]:
    """What those of `lines` say that are as they were written. Of the others the user is told; `first`: its number."""
    damaged: list[str] = []
    for number, line in enumerate(lines, first):
        try:
            if line.strip():
                yield unsealed(line, kind)
        except Damaged as reason:
            damaged.append(f"line {number} is {reason}")
    if damaged:
        more = f", {len(damaged) - 1} more" if len(damaged) > 1 else ""
        tell(f"{path}: {damaged[0]}{more}: left out, what is missing is computed again")


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
