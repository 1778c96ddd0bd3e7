"""The syntax tree of the DSL. Every node knows its place in the text; `docs/dsl.md` is the grammar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinyhil.frontend.tokens import Place

Number = int | float
Option = Number | str | list[Number] | list[str]


@dataclass(frozen=True, slots=True)
class Literal:
    """Numbers in row order; `shape` is () for one number. Integers until real numbers are needed."""

    at: Place
    shape: tuple[int, ...]
    values: tuple[Number, ...]

    @property
    def is_integer(self) -> bool:
        """No number of it was written with a point or an exponent."""
        return all(isinstance(value, int) for value in self.values)


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    at: Place
    name: str


@dataclass(frozen=True, slots=True)
class Negated:
    """Minus an expression."""

    at: Place
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is one of + - * / <+> <-> <*> |*|."""

    at: Place
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Transposed:
    """A matrix transposed."""

    at: Place
    operand: Expression


@dataclass(frozen=True, slots=True)
class Index:
    """One axis in brackets: `:` (no start), `start` (the axis goes away) or `start:+length`."""

    at: Place
    start: Expression | None
    length: int | None


@dataclass(frozen=True, slots=True)
class Indexed:
    """An element, a row or a part of an expression."""

    at: Place
    operand: Expression
    indices: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an ONNX operator. An argument `_` is None; `braces` are groups such as {s 2 2}."""

    at: Place
    function: str
    arguments: tuple[Expression | None, ...]
    options: Mapping[str, Option]
    braces: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Group:
    """Several expressions in brackets, as an argument."""

    at: Place
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Dims:
    """A list of integers in parentheses, as an argument."""

    at: Place
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """$(i = [start:stop]) body: the sum over i."""

    at: Place
    variable: str
    start: int
    stop: int
    body: Expression


@dataclass(frozen=True, slots=True)
class Loop:
    """`states` and `rows` are names with what they begin with or are read from; backward if `start` is above `stop`."""

    at: Place
    variable: str
    start: int
    stop: int
    states: tuple[tuple[str, Expression], ...]
    rows: tuple[tuple[str, Expression], ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Conditional:
    """left comparison right ? then : otherwise."""

    at: Place
    comparison: str
    left: Expression
    right: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Declaration:
    """(shape) in [low, high]: values from the file beside the text."""

    at: Place
    shape: tuple[int, ...]
    low: float
    high: float


Expression = (
    Literal
    | Name
    | Negated
    | Binary
    | Transposed
    | Indexed
    | Call
    | Group
    | Dims
    | Sum
    | Loop
    | Conditional
    | Declaration
)


@dataclass(frozen=True, slots=True)
class Let:
    """`let targets = value in`; with `indices` the value takes the place of that part of the target."""

    at: Place
    targets: tuple[str, ...]
    indices: tuple[Index, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class Block:
    """Bindings, then results: next states, and behind a semicolon what a loop collects in each step."""

    at: Place
    lets: tuple[Let, ...]
    results: tuple[Expression, ...]
    collected: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Input:
    """The input of the model; without a range `low` is above `high`."""

    at: Place
    name: str
    shape: tuple[int, ...]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Program:
    """Inputs and the block that computes the result."""

    inputs: tuple[Input, ...]
    block: Block
