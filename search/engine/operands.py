"""Operands of operations as the batch engine takes them: constants decoded once, tensors by number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyhil.formats.format import Format
from tinyhil.language.arithmetic import load
from tinyhil.language.program import Op, Program
from tinyhil.search.engine.numbers import BATCH, INTS, NUMBERS, Unsupported, kind_of, numbers_of
from tinyhil.search.engine.tables import DOMAINS, Call


class Operands:
    """What makers of calls may ask of a program; keeps the constants that calls point to. Lives for one flattening."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.stored: list[np.ndarray] = []
        self._expanded: dict[tuple[str, str], int] = {}
        self._numbers = {name: index for index, name in enumerate(program.tensors)}

    def number(self, tensor: str) -> int:
        """Of a tensor, in the table of tensors."""
        return self._numbers[tensor]

    def keep(self, array: np.ndarray, dtype: object) -> int:
        """The address of a constant array."""
        stored = np.ascontiguousarray(array, dtype)  # type: ignore[call-overload]
        self.stored.append(stored)
        return int(stored.ctypes.data) if stored.size else 0

    def format(self, op: Op, index: int) -> Format:
        """Format of the operand at `index` of `op`."""
        return self.program.tensors[op.inputs[index]].format

    def codes(self, op: Op, index: int) -> np.ndarray:
        """Codes of a constant operand, flat. Unsupported for weights that are computed."""
        name = op.inputs[index]
        if name not in self.program.constants:
            raise Unsupported(f"kernel '{op.kernel}' on weights that are computed")
        return self.program.constants[name].reshape(-1)

    def scalars(self, op: Op, index: int) -> np.ndarray:
        """A constant operand as its kernel sees it, flat."""
        return load(self.codes(op, index), self.format(op, index), op.domain)

    def batched(self, op: Op, *indices: int, raw: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """`inputs` and `data` of operands read lane by lane: constants are repeated for every lane."""
        inputs, data = [], []
        for index in indices:
            name = op.inputs[index]
            constant = name in self.program.constants
            inputs.append(-1 if constant else self._numbers[name])
            data.append(self._repeated(op, index, raw) if constant else 0)
        return tuple(inputs), tuple(data)

    def require_ints(self, op: Op, *chosen: int) -> None:
        """Unsupported unless these operands are integers: conditions and indices."""
        for index in chosen:
            if kind_of(self.format(op, index)) != INTS:
                raise Unsupported(f"kernel '{op.kernel}' with a condition or an index in {self.format(op, index)}")

    def repeated(self, op: Op, index: int, dtype: object) -> int:
        """The address of a constant operand as its kernel sees it, repeated for every lane."""
        return self.keep(np.repeat(self.scalars(op, index), BATCH), dtype)

    def _repeated(self, op: Op, index: int, raw: bool) -> int:
        name, fmt = op.inputs[index], self.format(op, index)
        key = name, "" if raw else op.domain
        if key not in self._expanded:
            codes = self.codes(op, index)
            numbers = numbers_of(codes, fmt) if raw else load(codes, fmt, op.domain)
            dtype = NUMBERS[kind_of(fmt) if raw else DOMAINS[op.domain]]
            self._expanded[key] = self.keep(np.repeat(numbers.astype(dtype), BATCH), dtype)
        return self._expanded[key]


Maker = Callable[[Operands, Op], Call]
