"""Which kernel an operation calls: a base, and the features that it has or lacks.

`dense` and `conv` come in some hundred forms: with and without a bias, a tensor that joins the sum, an activation
inside, for each arithmetic, whole or row by row. Who asks something of a kernel asks a field; what the C++ template of
a form is called only codegen/kernel_calls.py says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Arithmetic(StrEnum):
    """What a kernel computes with, and how it rounds.

    EXACT: exact sums in units of a power of two, one shift. SINGLE: single precision. CODES: none, codes are moved or
    chosen as they are. AFFINE: asymmetric integers, with biases, multipliers and shifts as three constants; RESCALED:
    as one record for each output, FACTORED: as one of a start and a factor. CHANNELS: a shift for each output,
    CODED_CHANNELS: the same of minifloats. DECIDED: the results of single precision, by integers wherever these can not
    round otherwise.
    """

    EXACT = "exact"
    SINGLE = "single"
    CODES = "codes"
    AFFINE = "affine"
    RESCALED = "rescaled"
    FACTORED = "factored"
    CHANNELS = "channels"
    CODED_CHANNELS = "channels_coded"
    DECIDED = "decided"


class Weights(StrEnum):
    """How a layer's weights lie: element by element, as index lists, as one stream of bytes, as bits of signs, as
    integers of few bits in groups that have scales of their own."""

    PLAIN = "plain"
    LISTS = "sparse"
    STREAM = "stream"
    SIGNS = "sign"
    GROUPS = "grouped"


class Joined(StrEnum):
    """What joins a layer's exact sum: nothing, a computed tensor (tinyhil/ops/residual.py), or a second product."""

    NOTHING = "nothing"
    SUM = "sum"
    PAIR = "pair"


class Limit(StrEnum):
    """The activation inside: none, a clamp of the rounded sum to two codes, or sums kept from falling below zero."""

    NONE = "none"
    CLIP = "clip"
    RELU = "relu"


@dataclass(frozen=True, slots=True)
class Form:
    """A kernel by its base and features. `rows`: it makes some rows of its result (tinyhil/ops/rows.py)."""

    base: str
    arithmetic: Arithmetic = Arithmetic.EXACT
    weights: Weights = Weights.PLAIN
    bias: bool = False
    joined: Joined = Joined.NOTHING
    limit: Limit = Limit.NONE
    rows: bool = False

    @property
    def whole(self) -> Form:
        """The form that makes all rows of its result at once."""
        return replace(self, rows=False) if self.rows else self

    @property
    def bare(self) -> Form:
        """The form without a bias and without an activation inside."""
        return replace(self, bias=False, limit=Limit.NONE) if self.bias or self.limit is not Limit.NONE else self

    @property
    def on_codes(self) -> Form:
        """The form that does the same to codes as they are; not every kernel has one."""
        return replace(self, arithmetic=Arithmetic.CODES)

    @property
    def features(self) -> tuple[str, ...]:
        """What it has besides its base, in words."""
        usual = (Weights.PLAIN, Arithmetic.EXACT, Joined.NOTHING, Limit.NONE)
        named = (self.weights, self.arithmetic, self.joined, self.limit)
        return (*(str(one) for one in named if one not in usual), *["bias"] * self.bias, *["rows"] * self.rows)

    def __str__(self) -> str:
        """In words, for messages."""
        return " ".join((self.base, *self.features))
