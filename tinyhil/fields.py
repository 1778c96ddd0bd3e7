"""Types of the values in files that we have written and read again: bounded, finite, of one type each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, ValidationError

MOST = (1 << 63) - 1  # of an integer: all arithmetic with a few of them stays within a float
MOST_REAL = 1e100  # the same of reals
MOST_FLOAT32 = 3.5e38

Whole = Annotated[int, Field(ge=-MOST, le=MOST)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Real = Annotated[FiniteFloat, Field(ge=-MOST_REAL, le=MOST_REAL)]
Amount = Annotated[FiniteFloat, Field(ge=0, le=MOST_REAL)]
Single = Annotated[FiniteFloat, Field(ge=-MOST_FLOAT32, le=MOST_FLOAT32)]
Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Text = Annotated[str, StringConstraints(max_length=100_000)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Hex = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2})*$")]
Crc = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}$")]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def _ordered(pair: list[int]) -> list[int]:
    if pair[0] >= pair[1]:
        raise ValueError("ends before it begins")
    return pair


# From the first instant to the one behind the last; at -1, before all operations, the sample comes into the arena.
Span = Annotated[
    list[Annotated[int, Field(ge=-1, le=MOST)]], Field(min_length=2, max_length=2), AfterValidator(_ordered)
]


class Part(BaseModel):
    """JSON types are taken as they are: no text for a number. What is not named here is left alone."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class Exact(Part):
    """A `Part` of which nothing but what is named may be there."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def first_fault(error: ValidationError) -> str:
    """Where the first fault is, and what: `memory.static_bytes: Input should be a valid integer`."""
    first = error.errors(include_url=False, include_context=False)[0]
    where: Sequence[Any] = first["loc"]
    said = first["msg"].removeprefix("Value error, ")
    return f"{'.'.join(map(str, where))}: {said}" if where else said
