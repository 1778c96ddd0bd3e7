"""What a program calls: a routine with its readable numpy reference and its C++ template in `firmware/kernels/`.

Arrays are flat: (samples, count), constants (1, count), loaded as the operation's domain asks (arithmetic.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.language.form import Form
from tinyhil.language.program import Op

Arrays = Sequence[np.ndarray]
Execute = Callable[[Op, Arrays, Format], tuple[np.ndarray, np.ndarray]]
QUIRE, REAL = "quire", "real"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One integer routine. `params` are the names of `Op.params` in the order of the C++ arguments.

    Those in `static_params` become compile-time constants in C++ (shifts: a variable 32-bit shift costs an AVR a loop).
    `is_sum`: its inner loop is a dot product, which has accumulators of its own on some chips.
    `struct` is a C++ record and the params that are its fields: they go before the others as one argument.
    `in_place`: element n of the output needs only element n of operands of its size, so it may take their place.
    `in_place_at`: positions of the inputs of which that holds, where not of all.
    `coded`: what it computes in when an operand is posit or minifloat: "quire" (exact sums), "real" (exact, one
    rounding) or "single"; empty for kernels that compute with integers only, in no other domain.
    `codes`: positions of the inputs it moves or ignores but does not compute with.
    `rounds`: the params by which numbers are shifted as they are rounded into the result.
    """

    form: Form
    summary: str
    execute: Execute
    params: tuple[str, ...]
    static_params: tuple[str, ...] = ()
    is_sum: bool = False
    in_place: bool = False
    in_place_at: tuple[int, ...] = ()
    struct: tuple[str, tuple[str, ...]] | None = None
    coded: str = ""
    codes: tuple[int, ...] = ()
    rounds: tuple[str, ...] = ("shift",)
