"""What a name of a DSL program stands for while it is elaborated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinyhil.frontend import syntax
from tinyhil.frontend.row_reads import Row


@dataclass(slots=True)
class Known:
    """A number or list of the text. It becomes a constant of the model when an operator takes it, of each kind once."""

    literal: syntax.Literal
    wish: str
    names: dict[str, str] = field(default_factory=dict)

    @property
    def integer(self) -> int | None:
        """The whole number it is, if it is one."""
        value = self.literal.values[0] if self.literal.shape == () else None
        return value if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class Step:
    """The variable of a loop that stays a loop, and the rows read by it."""

    variable: str
    rows: Mapping[Row, str]


Value = str | Known | Step  # a name of the builder, a number, or the step of a loop
Scope = dict[str, Value]
