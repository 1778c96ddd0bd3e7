"""What values the fields of a request may have, said beside their types and held whoever makes the request."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tinyhil.errors import ConfigError

MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these words."""

    words: tuple[str, ...]

    def fault(self, value: Any) -> str:
        """What is wrong with a value; empty if it is one of them."""
        return "" if value in self.words else f"must be {' or '.join(self.words)}, not {str(value)[:40]!r}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A finite number that is not less."""

    least: float

    def fault(self, value: Any) -> str:
        """What is wrong with a value; empty if it is large enough."""
        if self.least <= value <= MOST:  # whole numbers of any length; not NaN
            return ""
        if isinstance(value, int) and value > MOST:  # which no float holds, and of 4,300 digits no text
            return f"must be at most {MOST}"
        shown = "so little" if isinstance(value, int) and value < -MOST else value
        return f"must be at least {self.least:g}, not {shown}"


@cache
def _limits(cls: Any) -> dict[str, tuple[OneOf | AtLeast, ...]]:
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for name, hint in hints.items():
        parts = (hint, *get_args(hint))
        found[name] = tuple(one for part in parts for one in getattr(part, "__metadata__", ()))
    return found


def require(what: str, request: Any) -> None:
    """ConfigError unless every field of `request` that is not None is within the limits of its type. Text and paths
    hold no NUL: no system has such names."""
    cls: Any = type(request)
    limits = _limits(cls)
    for field in fields(request):
        value = getattr(request, field.name)
        if value is None:
            continue
        if isinstance(value, str | Path) and "\0" in str(value):
            raise ConfigError(f"{what}: {field.name} holds a NUL")
        for limit in limits[field.name]:
            if fault := limit.fault(value):
                raise ConfigError(f"{what}: {field.name} {fault}")
